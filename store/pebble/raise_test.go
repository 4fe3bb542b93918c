package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

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

// TestRaiseSurvivesACrash: once Raise has returned, a power cut does not undo it, even if nothing was written
// after it.
func TestRaiseSurvivesACrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s, err := openOnFS("store", Options{Reserve: -1}, fs)
	if err != nil {
		t.Fatal(err)
	}
	to := writeOne(t, s, "a") + 1<<40
	if err := s.Raise(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openOnFS("store", Options{Reserve: -1}, after); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := writeOne(t, s, "b"); got <= to {
		t.Errorf("revision %d after a crash, raised to %d", got, to)
	}
}
