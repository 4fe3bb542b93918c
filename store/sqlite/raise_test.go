package sqlite

import (
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

// TestRaiseIsKept: raised revisions are in the file when Raise has returned, not only in memory.
func TestRaiseIsKept(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	to := writeOne(t, s, "a") + 1<<40
	if err := s.Raise(t.Context(), to); err != nil {
		t.Fatal(err)
	}
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
