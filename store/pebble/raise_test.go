package pebble

import (
	"errors"
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

func TestRaise(t *testing.T) {
	s := openTest(t, t.TempDir())
	defer s.Close()
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
}

// TestRaiseSurvivesACrash: once Raise has returned, a power cut does not undo it, even if nothing was written
// after it.
func TestRaiseSurvivesACrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s, err := open("store", Options{Reserve: -1}, fs)
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
	if s, err = open("store", Options{Reserve: -1}, after); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := writeOne(t, s, "b"); got <= to {
		t.Errorf("revision %d after a crash, raised to %d", got, to)
	}
}
