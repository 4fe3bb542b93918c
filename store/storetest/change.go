package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
)

// changes contains the cases about Apply and Get.
var changes = []sentence{
	{"a row comes back as it was written", func(b *bench) {
		r := dueRow("a", 5)
		r.Bucket, r.Generation, r.State, r.Due = 3, 0, rouse.StateRetrying, 77
		r.Labels = map[string]string{"team": "billing", "empty": ""}
		want := b.mustCreate(r)
		b.checkSameRows("get", b.mustGet(r.Key), want)
	}},
	{"get answers in the order of the keys, with zero rows for those that are not there", func(b *bench) {
		rows := b.mustCreate(numberedRows(3)...)
		missing := rouse.Key{Namespace: "ns", Name: "missing"}
		got := b.mustGet(rows[2].Key, missing, rows[0].Key, rows[2].Key)
		b.checkSameRows("get", got, []rouse.Row{rows[2], {}, rows[0], rows[2]})
	}},
	{"NoRow applies only where there is no row", func(b *bench) {
		first := b.mustCreate(dueRow("a", 0))[0]
		again := dueRow("a", 9)
		r := b.mustApply(rouse.Change{Key: again.Key, If: rouse.NoRow, To: &again})[0]
		if r.Applied || !r.Existed || r.Revision != first.Revision {
			b.Errorf("%+v", r)
		}
		b.checkSameRows("get", b.mustGet(first.Key), []rouse.Row{first})
	}},
	{"a revision applies only to the row that has it", func(b *bench) {
		first := b.mustCreate(dueRow("a", 0))[0]
		to := dueRow("a", 9)
		to.Generation = first.Generation
		if r := b.mustApply(rouse.Change{Key: to.Key, If: first.Revision + 1<<40, To: &to})[0]; r.Applied ||
			r.Revision != first.Revision {
			b.Errorf("an unknown revision: %+v", r)
		}
		r := b.mustApply(rouse.Change{Key: to.Key, If: first.Revision, To: &to})[0]
		if !r.Applied || !r.Existed || r.Revision <= first.Revision {
			b.Fatalf("the right revision: %+v", r)
		}
		if r := b.mustApply(rouse.Change{Key: to.Key, If: first.Revision})[0]; r.Applied {
			b.Errorf("the revision before: %+v", r)
		}
		to.Revision = r.Revision
		b.checkSameRows("get", b.mustGet(to.Key), []rouse.Row{to})
		if r := b.mustApply(rouse.Change{Key: rouse.Key{Namespace: "ns", Name: "missing"}, If: first.Revision,
			To: &to})[0]; r.Applied || r.Existed || r.Revision != 0 {
			b.Errorf("a missing row: %+v", r)
		}
	}},
	{"AnyRevision applies whatever is there", func(b *bench) {
		to := dueRow("a", 1)
		r := b.mustApply(rouse.Change{Key: to.Key, If: rouse.AnyRevision, To: &to})[0]
		if !r.Applied || r.Existed {
			b.Errorf("nothing there: %+v", r)
		}
		r = b.mustApply(rouse.Change{Key: to.Key, If: rouse.AnyRevision, To: &to})[0]
		if !r.Applied || !r.Existed {
			b.Errorf("a row there: %+v", r)
		}
		r = b.mustApply(rouse.Change{Key: to.Key, If: rouse.AnyRevision})[0]
		if !r.Applied || !r.Existed || r.Revision != 0 {
			b.Errorf("remove: %+v", r)
		}
		r = b.mustApply(rouse.Change{Key: to.Key, If: rouse.AnyRevision})[0]
		if !r.Applied || r.Existed || r.Revision != 0 {
			b.Errorf("remove nothing: %+v", r)
		}
		b.checkSameRows("get", b.mustGet(to.Key), []rouse.Row{{}})
		b.checkSameRows("claim", b.mustClaim(rouse.Window{}).Rows, nil)
	}},
	{"a generation of zero becomes the new revision, another one is kept", func(b *bench) {
		first := b.mustCreate(dueRow("a", 0))[0]
		if first.Generation != first.Revision || b.mustGet(first.Key)[0].Generation != first.Revision {
			b.Errorf("generation %d of revision %d", b.mustGet(first.Key)[0].Generation, first.Revision)
		}
		to := first
		r := b.mustApply(rouse.Change{Key: to.Key, If: first.Revision, To: &to})[0]
		if g := b.mustGet(first.Key)[0].Generation; g != first.Generation || r.Revision == first.Revision {
			b.Errorf("the generation became %d at %+v", g, r)
		}
	}},
	{"revisions grow, and generations are never used again, whatever is deleted", func(b *bench) {
		last := uint64(0)
		for i := range 50 {
			r := b.mustCreate(dueRow("a", i))[0]
			if r.Revision <= last || r.Generation != r.Revision {
				b.Fatalf("revision %d, generation %d after %d", r.Revision, r.Generation, last)
			}
			last = r.Revision
			b.mustApply(rouse.Change{Key: r.Key, If: r.Revision})
		}
	}},
	{"Keep checks the condition and writes what goes with it", func(b *bench) {
		first := b.mustCreate(dueRow("a", 0))[0]
		dead := dueRow("a", 0)
		dead.Key.Fire, dead.State, dead.Visible = "f1", rouse.StateDead, rouse.Never
		log := []rouse.Record{{Namespace: "ns", Name: "a", Ending: rouse.EndDead, Due: 1, Ended: start}}
		r := b.mustApply(
			rouse.Change{Key: first.Key, If: first.Revision + 1<<40, Keep: true, Also: []rouse.Row{dead}, Log: log},
			rouse.Change{Key: first.Key, If: first.Revision, Keep: true, Also: []rouse.Row{dead}, Log: log})
		if r[0].Applied || !r[1].Applied || r[1].Revision != first.Revision || !r[1].Existed {
			b.Errorf("%+v", r)
		}
		b.checkSameRows("the row", b.mustGet(first.Key), []rouse.Row{first})
		if got := b.mustGet(dead.Key)[0]; got.Revision == 0 || got.State != rouse.StateDead {
			b.Errorf("the additional row: %+v", got)
		}
		if h := b.mustReadHistory(rouse.RecordQuery{Namespace: "ns", Limit: 10}); len(h) != 1 {
			b.Errorf("%d records, want 1", len(h))
		}
	}},
	{"what goes with a change is written whatever was there, and only if the change applies", func(b *bench) {
		first := b.mustCreate(dueRow("a", 0))[0]
		dead := dueRow("a", 0)
		dead.Key.Fire, dead.State, dead.Visible, dead.Body = "f1", rouse.StateDead, rouse.Never, []byte("old")
		b.mustCreate(dead)
		dead.Body = []byte("new")
		dead.Generation = 4
		r := b.mustApply(rouse.Change{Key: first.Key, If: rouse.NoRow, To: &first, Also: []rouse.Row{dead}})[0]
		if got := b.mustGet(dead.Key)[0]; r.Applied || r.Also != 0 || string(got.Body) != "old" {
			b.Errorf("a refused change wrote %q: %+v", got.Body, r)
		}
		second := dead
		second.Key.Fire = "f2"
		r = b.mustApply(rouse.Change{Key: first.Key, If: first.Revision, Also: []rouse.Row{dead, second}})[0]
		got := b.mustGet(first.Key, dead.Key, second.Key)
		if !r.Applied || got[0].Revision != 0 || string(got[1].Body) != "new" || got[1].Generation != 4 {
			b.Errorf("%+v: %+v", r, got)
		}
		if r.Also == 0 || got[1].Revision != r.Also || got[2].Revision != r.Also+1 {
			b.Errorf("the additional rows have revisions %d and %d: %+v", got[1].Revision, got[2].Revision, r)
		}
	}},
	{"changes of one key in one call see each other", func(b *bench) {
		v := func(body string, ms int) *rouse.Row {
			r := dueRow("a", ms)
			r.Body = []byte(body)
			return &r
		}
		k := v("", 0).Key
		r := b.mustApply(
			rouse.Change{Key: k, If: rouse.NoRow, To: v("1", 1)},
			rouse.Change{Key: k, If: rouse.NoRow, To: v("2", 2)},
			rouse.Change{Key: k, If: rouse.AnyRevision, To: v("3", 3)},
			rouse.Change{Key: k, If: rouse.AnyRevision},
			rouse.Change{Key: k, If: rouse.AnyRevision, Keep: true},
			rouse.Change{Key: k, If: rouse.NoRow, To: v("4", 4)})
		for i, want := range []struct{ applied, existed bool }{{true, false}, {false, true}, {true, true}, {true, true},
			{true, false}, {true, false}} {
			if r[i].Applied != want.applied || r[i].Existed != want.existed {
				b.Errorf("change %d: %+v, want %+v", i, r[i], want)
			}
		}
		got := b.mustGet(k)[0]
		if string(got.Body) != "4" || got.Revision != r[5].Revision || got.Generation != r[5].Revision {
			b.Errorf("%+v after %+v", got, r)
		}
		b.checkSameRows("claim", b.mustClaim(rouse.Window{}).Rows, []rouse.Row{got})
		if n := b.mustCount(rouse.Query{Namespace: "ns"}); n != 1 {
			b.Errorf("count is %d", n)
		}
	}},
	{"a row moves between times and buckets, and is in one place", func(b *bench) {
		r := b.mustCreate(dueRow("a", 0))[0]
		r.Bucket, r.Visible, r.State = 2, start+50, rouse.StateRetrying
		r.Revision = b.mustApply(rouse.Change{Key: r.Key, If: r.Revision, To: &r})[0].Revision
		b.checkSameRows("the old bucket", b.mustClaim(rouse.Window{Buckets: []uint32{0}}).Rows, nil)
		b.checkSameRows("the new bucket", b.mustClaim(rouse.Window{Buckets: []uint32{2}}).Rows, []rouse.Row{r})
		b.checkSameRows("both", b.mustClaim(rouse.Window{Buckets: []uint32{0, 2}}).Rows, []rouse.Row{r})
	}},
	{"any text without a zero byte is a key", func(b *bench) {
		var rows []rouse.Row
		for i, name := range hostile {
			r := dueRow(name, i)
			r.Labels = map[string]string{name[:min(len(name), 64)]: name}
			rows = append(rows, r)
		}
		other := dueRow("a", 99)
		other.Key.Namespace = "ns-1"
		rows = append(rows, other)
		rows = b.mustCreate(rows...)
		for i := range rows {
			b.checkSameRows("get", b.mustGet(rows[i].Key), rows[i:i+1])
			q := rouse.Query{Namespace: rows[i].Key.Namespace, Name: rows[i].Key.Name}
			b.checkSameRows("by name", b.mustList(q), rows[i:i+1])
			for k, v := range rows[i].Labels {
				b.checkSameRows("by label", b.mustList(rouse.Query{Labels: map[string]string{k: v}}), rows[i:i+1])
			}
		}
		b.checkSameRows("claim", b.mustClaim(rouse.Window{}).Rows, rows)
	}},
	{"concurrent creates of one name give one row", func(b *bench) {
		for round := range 20 {
			var wg sync.WaitGroup
			results := make([]rouse.Result, 8)
			for i := range results {
				wg.Go(func() {
					r := dueRow(fmt.Sprintf("r%d", round), i)
					out, err := b.Store.Apply(b.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: &r}})
					if err != nil {
						b.Error(err)
						return
					}
					results[i] = out[0]
				})
			}
			wg.Wait()
			applied := 0
			for _, r := range results {
				if r.Applied {
					applied++
				}
			}
			if applied != 1 {
				b.Fatalf("%d of 8 creates applied", applied)
			}
		}
	}},
	{"concurrent updates lose nothing", func(b *bench) {
		const writers, each = 6, 25
		k := b.mustCreate(dueRow("counter", 0))[0].Key
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for done := 0; done < each; {
					rows, err := b.Store.Get(b.Context(), []rouse.Key{k})
					if err != nil {
						b.Error(err)
						return
					}
					to := rows[0]
					to.Due++
					r, err := b.Store.Apply(b.Context(), []rouse.Change{{Key: k, If: rows[0].Revision, To: &to}})
					if err != nil {
						b.Error(err)
						return
					}
					if r[0].Applied {
						done++
					}
				}
			})
		}
		wg.Wait()
		if got := b.mustGet(k)[0].Due - start; got != writers*each {
			b.Errorf("%d updates are left of %d", got, writers*each)
		}
	}},
	{"a large body and a large call come through", func(b *bench) {
		big := dueRow("big", 0)
		big.Body = []byte(strings.Repeat("x", 256<<10))
		rows := b.mustCreate(append([]rouse.Row{big}, numberedRows(5000)...)...)
		b.checkSameRows("claim", b.mustClaim(rouse.Window{}).Rows, rows)
		changes := make([]rouse.Change, len(rows))
		for i := range rows {
			changes[i] = rouse.Change{Key: rows[i].Key, If: rows[i].Revision}
		}
		for _, r := range b.mustApply(changes...) {
			if !r.Applied {
				b.Fatal("a delete was refused")
			}
		}
		if n := b.mustCount(rouse.Query{}); n != 0 {
			b.Errorf("%d are left", n)
		}
	}},
	{"no changes are no error", func(b *bench) {
		if r := b.mustApply(); len(r) != 0 {
			b.Errorf("%+v", r)
		}
	}},
}

// hostile contains names that a careless encoding would confuse. Their rows are due in this order, at
// different times.
var hostile = []string{"test", "test-1", "test1", "tes", "test\x01", "test\u00ff", "%", "_", "*",
	"'; drop table timers; --", `"`, `\`, "a/b", "a\x01b",
	"ümlaut", "日本語", "🙂", "\U0010fffd", " ", "NULL", "0", "00", strings.Repeat("n", 256), strings.Repeat("🙂", 64), "ns",
	"Test", "TEST"}
