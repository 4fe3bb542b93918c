package storetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rousehq/rouse"
)

// Checkpoint tests that the checkpoints of a store are consistent stores, in each of the shapes and those of
// the store's own. open opens the store in a directory, which open or a checkpoint created.
func Checkpoint(t *testing.T, open OpenDir, own ...Shape) {
	for _, shape := range append(own, Shapes...) {
		t.Run(shape.Name, func(t *testing.T) { checkpointIn(t, open, shape) })
	}
}

func checkpointIn(t *testing.T, open OpenDir, shape Shape) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	reopen := func(name string) *bench {
		t.Helper()
		s, err := open(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return &bench{T: t, Store: s}
	}
	b := reopen("store")
	c, ok := b.Store.(rouse.Checkpointer)
	if !ok {
		t.Fatalf("%T is no Checkpointer", b.Store)
	}
	shape.Make(t, b.Store)
	rows := createAssorted(b)
	all := manyRecords(b)
	shape.Make(t, b.Store)

	if err := c.Checkpoint(t.Context(), at("copy")); err != nil {
		t.Fatal(err)
	}
	if err := c.Checkpoint(t.Context(), at("copy")); err == nil {
		t.Error("a checkpoint was written over another one")
	}
	if err := os.Mkdir(at("empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Checkpoint(t.Context(), at("empty")); err == nil {
		t.Error("a checkpoint was written into a directory that was there")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Checkpoint(ended, at("ended")); err == nil {
		t.Error("a checkpoint whose context has ended was written")
	}
	if _, err := os.Stat(at("ended")); err == nil {
		t.Error("it left something")
	}

	if told, ok := b.Store.(rouse.Checked); !ok || told.Corrupted() != nil {
		t.Errorf("the store of which copies failed: %v", told)
	}
	after := b.mustCreate(dueRow("after the copy", 0))[0]
	b.mustApply(rouse.Change{Key: rows[0].Key, If: rows[0].Revision})
	for range 2 { // the copy does not change with the store, and can be used itself
		copied := reopen("copy")
		copied.checkSameRows("the copy", copied.mustList(rouse.Query{States: everyState}), rows)
		if n := copied.mustCount(rouse.Query{States: everyState}); n != int64(len(rows)) {
			t.Errorf("count is %d of %d rows", n, len(rows))
		}
		n := len(copied.mustReadHistory(rouse.RecordQuery{Namespace: "test", Limit: 50})) +
			len(copied.mustReadHistory(rouse.RecordQuery{Namespace: "test-1", Limit: 50}))
		if n != len(all) {
			t.Errorf("%d records of %d", n, len(all))
		}
		r := copied.mustCreate(dueRow("in the copy", 0))[0]
		if r.Revision <= rows[len(rows)-1].Revision {
			t.Errorf("revision %d after %d", r.Revision, rows[len(rows)-1].Revision)
		}
		copied.mustApply(rouse.Change{Key: r.Key, If: r.Revision})
		if err := copied.Store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b.checkSameRows("the store", b.mustGet(after.Key, dueRow("in the copy", 0).Key), []rouse.Row{after, {}})
	if err := b.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Checkpoint(t.Context(), at("closed")); err == nil {
		t.Error("a closed store wrote a checkpoint")
	}
}
