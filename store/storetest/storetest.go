// Package storetest contains the contract of rouse.Store as tests: each sentence of the interface's comments
// is a case here. A store's own test is one line:
//
//	storetest.Run(t, func(t *testing.T) rouse.Store { return mem.New() })
//
// Reopen, Crash and PowerCut are for stores that write to a disk, Upgrade for files of older versions,
// Checkpoint for stores that can copy themselves, Clock for stores with an adjustable clock. Compare compares
// a store with another one, with random operations.
package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// Run tests a store against the contract. open returns an empty store; Run closes it.
func Run(t *testing.T, open func(t *testing.T) rouse.Store) {
	for _, c := range slices.Concat(claims, changes, lists, records, retention, lives) {
		t.Run(c.text, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.run(&bench{T: t, Store: s})
		})
	}
	t.Run("two stores give other revisions, and so other fire ids, for the same writes", func(t *testing.T) {
		var first [2]uint64
		for i := range first {
			b := &bench{T: t, Store: open(t)}
			first[i] = b.mustCreate(dueRow("a", 0))[0].Revision
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if first[i] < 1<<40 || first[i] > 1<<53 {
				t.Errorf("the first revision is %d", first[i])
			}
		}
		if first[0] == first[1] {
			t.Errorf("both have revision %d", first[0])
		}
	})
}

// sentence is one statement of the contract with its test.
type sentence struct {
	text string
	run  func(b *bench)
}

// bench is a store under test, with short forms of its methods that fail the test on errors.
type bench struct {
	*testing.T
	rouse.Store
}

// start is a time before all tests; rows that are visible then are due.
const start rouse.Instant = 1_750_000_000_000

// dueRow returns a due row, visible at start plus ms milliseconds.
func dueRow(name string, ms int) rouse.Row {
	return rouse.Row{Key: rouse.Key{Namespace: "ns", Name: name}, Visible: start + rouse.Instant(ms),
		Due:   start + rouse.Instant(ms),
		State: rouse.StateScheduled, Body: []byte("body of " + name)}
}

// numberedRows returns n rows, due one after another.
func numberedRows(n int) []rouse.Row {
	rows := make([]rouse.Row, n)
	for i := range rows {
		rows[i] = dueRow(fmt.Sprintf("t%04d", i), i)
	}
	return rows
}

func (b *bench) storeTime() rouse.Instant {
	b.Helper()
	now, err := b.Store.Now(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return now
}

func (b *bench) mustApply(changes ...rouse.Change) []rouse.Result {
	b.Helper()
	results, err := b.Store.Apply(b.Context(), changes)
	if err != nil {
		b.Fatal(err)
	}
	if len(results) != len(changes) {
		b.Fatalf("%d results for %d changes", len(results), len(changes))
	}
	return results
}

// mustCreate writes new rows, and returns them with their revisions.
func (b *bench) mustCreate(rows ...rouse.Row) []rouse.Row {
	b.Helper()
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		to := rows[i]
		changes[i] = rouse.Change{Key: to.Key, If: rouse.NoRow, To: &to}
	}
	out := slices.Clone(rows)
	for i, r := range b.mustApply(changes...) {
		if !r.Applied || r.Existed || r.Revision == 0 {
			b.Fatalf("create %v: %+v", rows[i].Key, r)
		}
		out[i].Revision = r.Revision
		if out[i].Generation == 0 {
			out[i].Generation = r.Revision
		}
	}
	return out
}

func (b *bench) mustGet(keys ...rouse.Key) []rouse.Row {
	b.Helper()
	rows, err := b.Store.Get(b.Context(), keys)
	if err != nil {
		b.Fatal(err)
	}
	if len(rows) != len(keys) {
		b.Fatalf("%d rows for %d keys", len(rows), len(keys))
	}
	return rows
}

func (b *bench) mustClaim(w rouse.Window) rouse.Batch {
	b.Helper()
	if w.Buckets == nil {
		w.Buckets = []uint32{0}
	}
	w.Limit = cmp.Or(w.Limit, 1<<20)
	batch, err := b.Store.Claim(b.Context(), w)
	if err != nil {
		b.Fatal(err)
	}
	return batch
}

// mustList reads all pages.
func (b *bench) mustList(q rouse.Query) (rows []rouse.Row) {
	b.Helper()
	q.Limit = cmp.Or(q.Limit, 1000)
	for range 100_000 {
		page, err := b.Store.List(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Rows) > q.Limit {
			b.Fatalf("a page of %d rows, limit %d", len(page.Rows), q.Limit)
		}
		rows = append(rows, page.Rows...)
		if page.Next == nil {
			return rows
		}
		if page.Next.Compare(q.After) <= 0 {
			b.Fatalf("the list goes from %v back to %v", q.After, *page.Next)
		}
		q.After = *page.Next
	}
	b.Fatal("the list does not end")
	return nil
}

func (b *bench) mustCount(q rouse.Query) int64 {
	b.Helper()
	n, err := b.Store.Count(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// mustReadHistory reads all pages of records.
func (b *bench) mustReadHistory(q rouse.RecordQuery) (out []rouse.Record) {
	b.Helper()
	for range 100_000 {
		page, err := b.Store.Records(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Records) > q.Limit {
			b.Fatalf("a page of %d records, limit %d", len(page.Records), q.Limit)
		}
		out = append(out, page.Records...)
		if page.Next == nil {
			return out
		}
		q.Until = *page.Next
	}
	b.Fatal("the history does not end")
	return nil
}

// checkSameRows compares rows with the expected ones.
func (b *bench) checkSameRows(what string, got, want []rouse.Row) {
	b.Helper()
	if len(got) != len(want) {
		b.Fatalf("%s: %d rows %v, want %d %v", what, len(got), rowNames(got), len(want), rowNames(want))
	}
	for i := range got {
		if d := describeDifference(&got[i], &want[i]); d != "" {
			b.Fatalf("%s: row %d of %d: %s", what, i, len(got), d)
		}
	}
}

func describeDifference(got, want *rouse.Row) string {
	g, w := *got, *want
	if !maps.Equal(g.Labels, w.Labels) || string(g.Body) != string(w.Body) {
		return fmt.Sprintf("%v has labels %v and body %q, want %v and %q", g.Key, g.Labels, g.Body, w.Labels, w.Body)
	}
	if g.Key != w.Key || g.Bucket != w.Bucket || g.Visible != w.Visible || g.Revision != w.Revision ||
		g.Generation != w.Generation ||
		g.State != w.State || g.Due != w.Due {
		g.Body, w.Body = nil, nil
		return fmt.Sprintf("is %+v, want %+v", g, w)
	}
	return ""
}

func rowNames(rows []rouse.Row) []string {
	out := make([]string, 0, min(len(rows), 20))
	for i := range rows[:min(len(rows), 20)] {
		out = append(out, rows[i].Key.Namespace+"/"+rows[i].Key.Name+"/"+rows[i].Key.Fire)
	}
	return out
}

// lives contains the cases about the store as a whole.
var lives = []sentence{
	{"the clock is the machine's or the store's, and moves on", func(b *bench) {
		if d := time.Until(b.storeTime().Time()); d < -time.Minute || d > time.Minute {
			b.Errorf("now is %v off", d)
		}
		first := b.storeTime()
		if batch := b.mustClaim(rouse.Window{}); batch.Now < first {
			b.Errorf("a claim's now %v is before %v", batch.Now, first)
		}
	}},
	{"a call whose context has ended fails", func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		r := dueRow("a", 0)
		if _, err := b.Store.Apply(ctx, []rouse.Change{{Key: r.Key, To: &r}}); err == nil {
			b.Error("apply")
		}
		if _, err := b.Store.Claim(ctx, rouse.Window{Buckets: []uint32{0}, Limit: 1}); err == nil {
			b.Error("claim")
		}
		if _, err := b.Store.Get(ctx, []rouse.Key{r.Key}); err == nil {
			b.Error("get")
		}
		if _, err := b.Store.List(ctx, rouse.Query{Limit: 1}); err == nil {
			b.Error("list")
		}
	}},
	{"a closed store returns an error", func(b *bench) {
		if err := b.Store.Close(); err != nil {
			b.Fatal(err)
		}
		r := dueRow("a", 0)
		if _, err := b.Store.Apply(b.Context(), []rouse.Change{{Key: r.Key, To: &r}}); err == nil {
			b.Error("apply")
		}
		if _, err := b.Store.Claim(b.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1}); err == nil {
			b.Error("claim")
		}
		if _, err := b.Store.Count(b.Context(), rouse.Query{}); err == nil {
			b.Error("count")
		}
	}},
	{"revisions continue above the one that they are raised to, and never go back", func(b *bench) {
		s, ok := b.Store.(rouse.Raiser)
		if !ok {
			b.Skip("the store cannot raise them")
		}
		first := b.mustCreate(dueRow("a", 0))[0].Revision
		to := first + 1<<40
		for _, raised := range []uint64{to, to, first, 0} {
			if err := s.Raise(b.Context(), raised); err != nil {
				b.Fatal(err)
			}
		}
		if got := b.mustGet(dueRow("a", 0).Key)[0].Revision; got != first {
			b.Errorf("the row has revision %d, it had %d", got, first)
		}
		created := b.mustCreate(dueRow("b", 0))[0]
		if created.Revision <= to || created.Generation != created.Revision {
			b.Errorf("revision %d, generation %d, raised to %d", created.Revision, created.Generation, to)
		}
		next := created.Revision
		for _, held := range b.mustClaim(rouse.Window{Hold: time.Hour}).Rows {
			if held.Revision <= next {
				b.Errorf("%s is held with revision %d after %d", held.Key.Name, held.Revision, next)
			}
		}
		if err := s.Raise(b.Context(), rouse.AnyRevision); err == nil {
			b.Error("raised beyond all")
		}
		if got := b.mustCreate(dueRow("c", 0))[0].Revision; got <= next || got > next+1<<30 {
			b.Errorf("revision %d after %d, and a raise that was refused", got, next)
		}
	}},
}
