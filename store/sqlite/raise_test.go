package sqlite

import (
	"errors"
	"testing"

	"github.com/rousehq/rouse"
)

// writeOne writes a row and returns its revision.
func writeOne(t *testing.T, s *Store, name string) uint64 {
	t.Helper()
	k := rouse.Key{Namespace: "ns", Name: name}
	results, err := s.Apply(t.Context(), []rouse.Change{{Key: k, If: rouse.AnyRevision, To: &rouse.Row{Key: k, State: rouse.StateScheduled}}})
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Revision
}

func TestRaise(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	first := writeOne(t, s, "a")
	to := first + 1<<40
	for _, raised := range []uint64{to, to, first, 0} { // never backwards
		if err := s.Raise(t.Context(), raised); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Get(t.Context(), []rouse.Key{{Namespace: "ns", Name: "a"}})
	if err != nil || rows[0].Revision != first {
		t.Errorf("the row has revision %d, it had %d: %v", rows[0].Revision, first, err)
	}
	if got := writeOne(t, s, "b"); got != to+1 {
		t.Errorf("revision %d after %d", got, to)
	}
	if err := s.Raise(t.Context(), rouse.AnyRevision); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("raised beyond all: %v", err)
	}
	if got := writeOne(t, s, "c"); got != to+2 {
		t.Errorf("revision %d after a raise that was refused", got)
	}
	to *= 2
	if err := s.Raise(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	// In the file when Raise has returned, not only in memory.
	var kept uint64
	if err := s.readers.QueryRowContext(t.Context(), `SELECT value FROM meta WHERE name = 'revision'`).Scan(&kept); err != nil || kept != to {
		t.Errorf("the file has %d, raised to %d: %v", kept, to, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir)
	defer s.Close()
	if got := writeOne(t, s, "d"); got <= to {
		t.Errorf("revision %d when opened again, raised to %d", got, to)
	}
}
