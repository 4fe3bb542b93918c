package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// claims contains the cases about Claim.
var claims = []sentence{
	{"a claim returns due rows in the order of their positions", func(b *bench) {
		rows := numberedRows(40)
		for i := range rows {
			rows[i].Visible = start + rouse.Instant(i/4) // four rows at each time: the key decides
		}
		rows = b.mustCreate(rows...)
		b.checkSameRows("claim", b.mustClaim(rouse.Window{}).Rows, rows)
	}},
	{"rows later than Ahead and rows that need no attention are not claimed", func(b *bench) {
		now := b.storeTime()
		r := []rouse.Row{dueRow("due", 0), dueRow("soon", 0), dueRow("later", 0), dueRow("never", 0)}
		r[1].Visible, r[2].Visible, r[3].Visible = now.Add(time.Hour), now.Add(10*time.Hour), rouse.Never
		r = b.mustCreate(r...)
		b.checkSameRows("now", b.mustClaim(rouse.Window{}).Rows, r[:1])
		b.checkSameRows("2 h ahead", b.mustClaim(rouse.Window{Ahead: 2 * time.Hour}).Rows, r[:2])
		b.checkSameRows("as far as it goes", b.mustClaim(rouse.Window{Ahead: 1<<63 - 1}).Rows, r[:3])
	}},
	{"only rows of the buckets asked for are claimed", func(b *bench) {
		rows := numberedRows(30)
		for i := range rows {
			rows[i].Bucket = []uint32{0, 1, 256, 1 << 31, 1<<32 - 1}[i%5]
		}
		rows = b.mustCreate(rows...)
		only := func(buckets ...uint32) (out []rouse.Row) {
			for _, r := range rows {
				for _, n := range buckets {
					if r.Bucket == n {
						out = append(out, r)
					}
				}
			}
			return out
		}
		for _, buckets := range [][]uint32{{0}, {1, 256}, {0, 1, 256, 1 << 31, 1<<32 - 1}, {2, 1<<32 - 1}, {77}} {
			b.checkSameRows(fmt.Sprint(buckets), b.mustClaim(rouse.Window{Buckets: buckets}).Rows, only(buckets...))
		}
		b.checkSameRows("no buckets", b.mustClaim(rouse.Window{Buckets: []uint32{}}).Rows, nil)
	}},
	{"After is exclusive, and pages add up to the whole", func(b *bench) {
		rows := numberedRows(50)
		for i := range rows {
			rows[i].Visible, rows[i].Bucket = start+rouse.Instant(i/7), uint32(i%3)
		}
		rows = b.mustCreate(rows...)
		for _, limit := range []int{1, 3, 7, 49, 50, 51} {
			var got []rouse.Row
			w := rouse.Window{Buckets: []uint32{0, 1, 2}, Limit: limit}
			for {
				page := b.mustClaim(w)
				if len(page.Rows) > limit {
					b.Fatalf("%d rows, limit %d", len(page.Rows), limit)
				}
				got = append(got, page.Rows...)
				if !page.More {
					break
				}
				w.After = page.Rows[len(page.Rows)-1].Position()
			}
			b.checkSameRows(fmt.Sprintf("limit %d", limit), got, rows)
		}
		b.checkSameRows("after a time without rows",
			b.mustClaim(rouse.Window{Buckets: []uint32{0, 1, 2}, After: rouse.Position{Visible: start + 3}}).Rows, rows[21:])
	}},
	{"Bytes ends a claim after the row that reaches it", func(b *bench) {
		rows := numberedRows(10)
		for i := range rows {
			rows[i].Body = make([]byte, 100)
		}
		rows = b.mustCreate(rows...)
		for _, c := range []struct{ bytes, want int }{{1, 1}, {100, 1}, {101, 2}, {250, 3}, {1000, 10}, {0, 10}} {
			got := b.mustClaim(rouse.Window{Bytes: c.bytes})
			b.checkSameRows(fmt.Sprintf("%d bytes", c.bytes), got.Rows, rows[:c.want])
			if c.want < 10 && !got.More {
				b.Errorf("%d bytes: More is not set", c.bytes)
			}
		}
	}},
	{"More is set when rows remain", func(b *bench) {
		b.mustCreate(numberedRows(5)...)
		if got := b.mustClaim(rouse.Window{Limit: 4}); !got.More || len(got.Rows) != 4 {
			b.Errorf("limit 4 of 5: %d rows, More %v", len(got.Rows), got.More)
		}
		if got := b.mustClaim(rouse.Window{Limit: 6}); got.More || len(got.Rows) != 5 {
			b.Errorf("limit 6 of 5: %d rows, More %v", len(got.Rows), got.More)
		}
	}},
	{"a claim without a hold changes nothing", func(b *bench) {
		rows := b.mustCreate(numberedRows(5)...)
		b.mustClaim(rouse.Window{})
		b.checkSameRows("again", b.mustClaim(rouse.Window{}).Rows, rows)
		b.checkSameRows("get", b.mustGet(rows[2].Key), rows[2:3])
	}},
	{"a hold hides rows, gives them new revisions, and still returns when to fire", func(b *bench) {
		rows := numberedRows(5)
		for i := range rows {
			rows[i].Labels, rows[i].State = map[string]string{"n": fmt.Sprint(i)}, rouse.StateRetrying
		}
		rows = b.mustCreate(rows...)
		batch := b.mustClaim(rouse.Window{Hold: time.Hour, Limit: 3})
		if !batch.More {
			b.Error("More is not set")
		}
		for i := range batch.Rows {
			if batch.Rows[i].Revision <= rows[4].Revision {
				b.Errorf("revision %d is not new", batch.Rows[i].Revision)
			}
			rows[i].Revision = batch.Rows[i].Revision
		}
		b.checkSameRows("held", batch.Rows, rows[:3])
		b.checkSameRows("the rest", b.mustClaim(rouse.Window{}).Rows, rows[3:])
		for i := range 3 {
			rows[i].Visible = batch.Now.Add(time.Hour)
		}
		b.checkSameRows("get", b.mustGet(rows[0].Key, rows[1].Key, rows[2].Key), rows[:3])
		b.checkSameRows("within the hold", b.mustClaim(rouse.Window{Ahead: 2 * time.Hour}).Rows,
			[]rouse.Row{rows[3], rows[4], rows[0], rows[1], rows[2]})
		b.checkSameRows("listed", b.mustList(rouse.Query{Namespace: "ns", Labels: map[string]string{"n": "1"}}), rows[1:2])
		if n := b.mustCount(rouse.Query{States: []rouse.State{rouse.StateRetrying}}); n != 5 {
			b.Errorf("count is %d", n)
		}
	}},
	{"a hold ends when it is told to, unless that is too soon", func(b *bench) {
		r := b.mustCreate(dueRow("a", 0), dueRow("b", 0))
		until := b.storeTime().Add(2 * time.Hour)
		b.mustClaim(rouse.Window{Hold: time.Hour, Until: until, Limit: 1})
		// the clock advances during the claim
		if got := b.mustGet(r[0].Key)[0].Visible; got < until || got > b.storeTime().Add(2*time.Hour) {
			b.Errorf("held until %v, not %v", got, until)
		}
		batch := b.mustClaim(rouse.Window{Hold: time.Hour, Until: b.storeTime().Add(29 * time.Minute)})
		if got, want := b.mustGet(r[1].Key)[0].Visible, batch.Now.Add(time.Hour); got < want ||
			got > b.storeTime().Add(time.Hour) {
			b.Errorf("held until %v, not %v", got, want)
		}
	}},
	{"a settle that names the revision before the hold is refused", func(b *bench) {
		r := b.mustCreate(dueRow("a", 0))[0]
		held := b.mustClaim(rouse.Window{Hold: time.Hour}).Rows[0]
		if res := b.mustApply(rouse.Change{Key: r.Key, If: r.Revision})[0]; res.Applied || res.Revision != held.Revision {
			b.Errorf("the old revision: %+v", res)
		}
		if res := b.mustApply(rouse.Change{Key: r.Key, If: held.Revision})[0]; !res.Applied {
			b.Errorf("the held revision: %+v", res)
		}
		b.checkSameRows("claim", b.mustClaim(rouse.Window{Ahead: 2 * time.Hour}).Rows, nil)
	}},
	{"a row whose hold has ended is due again", func(b *bench) {
		r := b.mustCreate(dueRow("a", 0))[0]
		first := b.mustClaim(rouse.Window{Hold: time.Millisecond})
		for b.storeTime() <= first.Now+1 {
		}
		second := b.mustClaim(rouse.Window{Hold: time.Hour})
		if len(second.Rows) != 1 || second.Rows[0].Key != r.Key || second.Rows[0].Revision <= first.Rows[0].Revision {
			b.Errorf("%+v after %+v", second.Rows, first.Rows)
		}
	}},
	{"no two claims hold the same row", func(b *bench) {
		const n = 600
		rows := numberedRows(n)
		for i := range rows {
			rows[i].Bucket = uint32(i % 4)
		}
		b.mustCreate(rows...)
		var mu sync.Mutex
		taken := map[rouse.Key]uint64{}
		var wg sync.WaitGroup
		for worker := range 6 {
			wg.Go(func() {
				buckets := [][]uint32{{0, 1, 2, 3}, {0, 1}, {1, 2, 3}}[worker%3]
				for {
					batch, err := b.Store.Claim(b.Context(), rouse.Window{Buckets: buckets, Limit: 7 + worker, Hold: time.Hour})
					if err != nil {
						b.Error(err)
						return
					}
					if len(batch.Rows) == 0 {
						return
					}
					mu.Lock()
					for _, r := range batch.Rows {
						if taken[r.Key] != 0 {
							b.Errorf("%s was claimed twice", r.Key.Name)
						}
						taken[r.Key] = r.Revision
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(taken) != n {
			b.Errorf("%d of %d rows were claimed", len(taken), n)
		}
		for k, rev := range taken {
			if got := b.mustGet(k)[0].Revision; got != rev {
				b.Fatalf("%s has revision %d, its claim returned %d", k.Name, got, rev)
			}
		}
	}},
	{"a claim and a delete of the same row do not both win", func(b *bench) {
		rows := b.mustCreate(numberedRows(200)...)
		var wg sync.WaitGroup
		var held []rouse.Row
		wg.Go(func() {
			for range 40 {
				batch, err := b.Store.Claim(b.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 5, Hold: time.Hour})
				if err != nil {
					b.Error(err)
					return
				}
				held = append(held, batch.Rows...)
			}
		})
		deleted := map[rouse.Key]bool{}
		for i := range rows {
			r := &rows[len(rows)-1-i]
			deleted[r.Key] = b.mustApply(rouse.Change{Key: r.Key, If: r.Revision})[0].Applied
		}
		wg.Wait()
		for _, r := range held {
			if deleted[r.Key] {
				b.Errorf("%s was deleted and held", r.Key.Name)
			}
		}
	}},
}
