package storetest

import (
	"testing"

	"github.com/rousehq/rouse"
)

// Reopen tests that a store has the same content after it was closed and opened again, in each of the shapes
// and those of the store's own. open opens the store in a directory, which is empty the first time.
func Reopen(t *testing.T, open OpenDir, own ...Shape) {
	for _, shape := range append(own, Shapes...) {
		t.Run(shape.Name, func(t *testing.T) { reopenIn(t, open, shape) })
	}
}

func reopenIn(t *testing.T, open OpenDir, shape Shape) {
	for _, c := range []struct {
		text   string
		before func(b *bench) func(b *bench)
	}{
		{"rows, lists, counts and records are what they were", func(b *bench) func(b *bench) {
			rows := createAssorted(b)
			all := manyRecords(b)
			trimmed, err := b.Store.TrimTimer(b.Context(), "test", "a", 5)
			if err != nil || trimmed == 0 {
				b.Fatal(trimmed, err)
			}
			all = all[trimmed:] // only the number matters here
			q := rouse.Query{Labels: map[string]string{"team": "red"}, States: []rouse.State{rouse.StatePaused, rouse.StateDead}}
			byLabel, count := b.mustList(q), b.mustCount(rouse.Query{Namespace: "test",
				States: []rouse.State{rouse.StatePaused}})
			return func(b *bench) {
				b.checkSameRows("all", b.mustList(rouse.Query{States: everyState}), rows)
				b.checkSameRows("by label", b.mustList(q), byLabel)
				if n := b.mustCount(rouse.Query{Namespace: "test", States: []rouse.State{rouse.StatePaused}}); n != count ||
					n == 0 {
					b.Errorf("count is %d, it was %d", n, count)
				}
				n := len(b.mustReadHistory(rouse.RecordQuery{Namespace: "test", Limit: 50})) +
					len(b.mustReadHistory(rouse.RecordQuery{Namespace: "test-1", Limit: 50}))
				if n != len(all) {
					b.Errorf("%d records, there were %d", n, len(all))
				}
				if n, err := b.Store.Trim(b.Context(), rouse.Never-1, 0); err != nil || n != int64(len(all)) {
					b.Errorf("trim deleted %d of %d: %v", n, len(all), err)
				}
			}
		}},
		{"revisions and generations are not used again", func(b *bench) func(b *bench) {
			r := b.mustCreate(dueRow("a", 0))[0]
			b.mustApply(rouse.Change{Key: r.Key, If: r.Revision})
			return func(b *bench) {
				again := b.mustCreate(dueRow("a", 0))[0]
				if again.Revision <= r.Revision || again.Generation <= r.Generation {
					b.Errorf("revision %d, generation %d after %d", again.Revision, again.Generation, r.Revision)
				}
			}
		}},
		{"a held row stays held", func(b *bench) func(b *bench) {
			b.mustCreate(numberedRows(2)...)
			held := b.mustClaim(rouse.Window{Hold: 1 << 50, Limit: 1}).Rows[0]
			return func(b *bench) {
				if rows := b.mustClaim(rouse.Window{}).Rows; len(rows) != 1 || rows[0].Key == held.Key {
					b.Errorf("claimed %v", rowNames(rows))
				}
				if res := b.mustApply(rouse.Change{Key: held.Key, If: held.Revision})[0]; !res.Applied {
					b.Errorf("settle: %+v", res)
				}
			}
		}},
	} {
		t.Run(c.text, func(t *testing.T) {
			dir := t.TempDir()
			b := &bench{T: t, Store: open.In(t, dir)}
			shape.Make(t, b.Store)
			then := c.before(b)
			shape.Make(t, b.Store)
			for range 2 { // the second time nothing has been written in between
				if err := b.Store.Close(); err != nil {
					t.Fatal(err)
				}
				b.Store = open.In(t, dir)
			}
			then(b)
			if err := b.Store.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
