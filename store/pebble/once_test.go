package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// TestDeletedRowsStayDeleted creates, changes, moves and deletes rows with flushes, compactions and restarts
// in between. A key that was deleted as set once although it was set more often would come back with an
// earlier value.
func TestDeletedRowsStayDeleted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := vfs.NewMem()
		o := Options{MemTableBytes: 256 << 10, Reserve: -1}
		reopen := func() *Store {
			s, err := openOnFS("store", o, disk)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := reopen()
		defer func() { _ = s.Close() }()
		truth := map[rouse.Key]rouse.Instant{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, false); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = reopen()
			case 3: // holds the earliest rows
				if _, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Ahead: 1 << 40, Limit: 2, Hold: 1}); err != nil {
					t.Fatal(err)
				}
				for k := range truth {
					rows, err := s.Get(t.Context(), []rouse.Key{k})
					if err != nil {
						t.Fatal(err)
					}
					truth[k] = rows[0].Visible
				}
			default:
				var changes []rouse.Change
				for range rapid.IntRange(1, 4).Draw(t, "changes") {
					c := rouse.Change{Key: rouse.Key{Namespace: "ns", Name: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "name"))}, If: rouse.AnyRevision}
					if delete(truth, c.Key); rapid.IntRange(0, 2).Draw(t, "exists") > 0 {
						at := rouse.Instant(rapid.IntRange(1, 3).Draw(t, "visible"))
						c.To, truth[c.Key] = &rouse.Row{Key: c.Key, Visible: at, State: rouse.StateScheduled}, at
					}
					changes = append(changes, c)
				}
				if _, err := s.Apply(t.Context(), changes); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(sameRows(s.db, truth), s.Corrupted()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// sameRows compares the d and k keys of a store.
func sameRows(db *lsm.DB, want map[rouse.Key]rouse.Instant) error {
	for _, tag := range []byte{tagDue, tagKey} {
		it, err := db.NewIter(&lsm.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
		if err != nil {
			return err
		}
		n := 0
		for it.First(); it.Valid(); it.Next() {
			suffix := it.Key()[1:]
			if tag == tagDue {
				suffix = it.Key()[dueHead:]
			}
			k, err := splitKey(suffix)
			if err != nil {
				return err
			}
			at, ok := want[k]
			if !ok || tag == tagDue && !bytes.Equal(it.Key(), appendDueKey(nil, 0, at, k)) {
				return fmt.Errorf("%q is there, with %v rows", it.Key(), want)
			}
			n++
		}
		if err := it.Close(); err != nil || n != len(want) {
			return fmt.Errorf("%d keys of %c for %d rows: %w", n, tag, len(want), err)
		}
	}
	return nil
}
