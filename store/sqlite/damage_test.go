package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func TestDamage(t *testing.T) {
	storetest.Damage(t, func(dir string) (rouse.Store, error) { return Open(filepath.Join(dir, "timers.db"), Options{}) },
		func(file string) bool { return strings.HasSuffix(file, ".lock") })
}

// logged creates a store with acknowledged rows in its log, each in a separate commit, and returns its file
// as a kill leaves it.
func logged(t *testing.T, rows int) string {
	t.Helper()
	from := filepath.Join(t.TempDir(), "timers.db")
	s, err := Open(from, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		r := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: fmt.Sprintf("t%04d", i)}, Visible: 5, Due: 5, State: rouse.StateScheduled, Body: make([]byte, 100)}
		if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: &r}}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(from))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "timers.db")
}

func countAll(t *testing.T, path string, o Options) int64 {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, err := s.Count(t.Context(), rouse.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestATornLastWriteIsNoDamage: the remainder of an unacknowledged transaction after a kill is ignored.
func TestATornLastWriteIsNoDamage(t *testing.T) {
	path := logged(t, 200)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	frame := bytes.Clone(whole[len(whole)-frameSize:])
	for _, tail := range [][]byte{nil, frame[:10], frame[:frameSize-1], frame, make([]byte, 3*frameSize), bytes.Repeat([]byte{0xa5}, 70_000)} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(path))); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "timers.db")
		if err := os.WriteFile(name+"-wal", append(bytes.Clone(whole), tail...), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := countAll(t, name, Options{}); n != 200 {
			t.Errorf("with %d bytes behind the end there are %d rows", len(tail), n)
		}
	}
}

// TestLossIsAcceptedOnRequest: a store with a damaged log is refused until its loss is accepted. Then it
// contains what was written before the damage, repeats no revision, and opens normally from then on.
func TestLossIsAcceptedOnRequest(t *testing.T) {
	for what, damage := range map[string]func(b []byte) []byte{
		"a changed byte":    func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"a log cut short":   func(b []byte) []byte { return b[:len(b)*9/10] },
		"a damaged header":  func(b []byte) []byte { b[17] ^= 1; return b },
		"an empty log":      func([]byte) []byte { return []byte{} },
		"the last write":    func(b []byte) []byte { b[len(b)-100] ^= 1; return b },
		"no log whatsoever": func([]byte) []byte { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			path := logged(t, 200)
			whole, err := os.ReadFile(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			if left := damage(whole); left == nil {
				err = os.Remove(path + "-wal")
			} else {
				err = os.WriteFile(path+"-wal", left, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if s, err := Open(path, Options{}); !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "--accept-loss") {
					t.Fatal(s, err)
				}
			}
			var reports []string
			s, err := Open(path, Options{AcceptLoss: true, Report: func(err error) { reports = append(reports, err.Error()) }})
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Count(t.Context(), rouse.Query{})
			if err != nil || n >= 200 || len(reports) == 0 || !strings.Contains(strings.Join(reports, "\n"), "revision") {
				t.Errorf("%d rows, %q, %v", n, reports, err)
			}
			r := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: "after"}, State: rouse.StateScheduled}
			results, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: &r}})
			if err != nil || results[0].Revision <= 200 {
				t.Errorf("%+v, %v", results, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got := countAll(t, path, Options{}); got != n+1 {
				t.Errorf("later there are %d rows, not %d", got, n+1)
			}
		})
	}
}

func TestFilesAreTheOwners(t *testing.T) {
	storetest.Private(t, func(dir string) (rouse.Store, error) { return Open(filepath.Join(dir, "timers.db"), Options{}) })
}

// TestDamageShowsWithoutTheWitness: after a power cut the witness may be older than the log. The content
// behind the damage reveals it.
func TestDamageShowsWithoutTheWitness(t *testing.T) {
	path := logged(t, 200)
	b, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/5] ^= 1
	if err := errors.Join(os.WriteFile(path+"-wal", b, 0o600), os.Remove(path+witnessEnd)); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path, Options{}); !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "safe on the disk") {
		t.Errorf("%v, %v", s, err)
	}
}
