package storetest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rousehq/rouse"
)

// Shape is a form of the files of an embedded store. Damage must be found in each shape, and a store of
// any shape must look healthy.
type Shape struct {
	Name string

	// Make brings the files of an open store into the shape. Its rows, counts and records stay as they are.
	Make func(t testing.TB, s rouse.Store)
}

// Shapes are the shapes that a store takes by use. Stores add their own.
var Shapes = []Shape{
	{"as written", func(testing.TB, rouse.Store) {}},
	{"an empty record at the end of the log", copyAway},
	{"rotated logs and flushed rows", func(t testing.TB, s rouse.Store) { Pad(t, s, 25) }},
	{"a large batch and an empty record", func(t testing.TB, s rouse.Store) {
		Pad(t, s, rouse.MaxBatch)
		copyAway(t, s)
	}},
}

// copyAway makes a copy of a store, for its effect on the log.
func copyAway(t testing.TB, s rouse.Store) {
	t.Helper()
	if err := s.(rouse.Checkpointer).Checkpoint(t.Context(), filepath.Join(t.TempDir(), "copy")); err != nil {
		t.Fatal(err)
	}
}

// padding is how many rows of a KiB Pad writes: more than the first memtables of a Pebble have room for.
const padding = 1000

// Pad writes rows in batches of the given size, and deletes them.
func Pad(t testing.TB, s rouse.Store, size int) {
	t.Helper()
	body := bytes.Repeat([]byte("padding "), 128)
	for _, remove := range []bool{false, true} {
		for from := 0; from < padding; from += size {
			var changes []rouse.Change
			for i := from; i < min(from+size, padding); i++ {
				r := dueRow(fmt.Sprintf("pad-%04d", i), i)
				r.Key.Namespace, r.Body = "padding", body
				c := rouse.Change{Key: r.Key, If: rouse.AnyRevision}
				if !remove {
					c.To = &r
				}
				changes = append(changes, c)
			}
			if _, err := s.Apply(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
		}
	}
}
