package witness

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func file(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestTheLastNoteIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "witness")
	w, err := New(file(t, name), Note{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5) {
		n := Note{Revision: 10 + i, More: make([]uint64, i*MaxMore/4)}
		for j := range n.More {
			n.More[j] = i * uint64(j)
		}
		if err := w.Write(n); err != nil {
			t.Fatal(err)
		}
		var have Note
		if w, have, err = Open(file(t, name)); err != nil || have.Revision != n.Revision || !slices.Equal(have.More, n.More) {
			t.Errorf("%+v was read as %+v, %v", n, have, err)
		}
	}
	if err := w.Write(Note{More: make([]uint64, MaxMore+1)}); err == nil {
		t.Error("a note that is too long was taken")
	}
}

// TestDamageLeavesAnOlderNoteOrNone: whichever byte is changed, the note that is read was written before.
func TestDamageLeavesAnOlderNoteOrNone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "witness")
	w, err := New(file(t, name), Note{Revision: 6})
	if err != nil {
		t.Fatal(err)
	}
	for r := range uint64(2) {
		if err := w.Write(Note{Revision: 7 + r, More: []uint64{1, 2, 3}}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		if i%slotApart > slotSize {
			continue
		}
		b := slices.Clone(whole)
		b[i] ^= 0x10
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, n, err := Open(file(t, name)); err != nil || n.Revision != 7 && n.Revision != 8 {
			t.Fatalf("with byte %d changed: %+v, %v", i, n, err)
		}
	}
	for size := range 9 {
		if err := os.WriteFile(name, whole[:size*slotApart/16], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, n, err := Open(file(t, name)); !errors.Is(err, ErrUnreadable) && n.Revision != 7 && n.Revision != 8 {
			t.Errorf("cut at %d: %+v, %v", size, n, err)
		}
	}
}
