package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

// Tree returns the content of a directory: paths, sizes and times.
func Tree(t *testing.T, dir string) (out []string) {
	t.Helper()
	out, err := walkTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func walkTree(dir string) (out []string, err error) {
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			out = append(out, fmt.Sprint(path, " ", info.Size(), " ", info.ModTime()))
		}
		return err
	})
	return out, err
}

// Killed returns a copy of a store's directory as a kill leaves it. If the store flushes or removes files at
// the same time, the copy is made again: a process that is killed leaves its files as they are at one moment.
func Killed(t testing.TB, dir string) string {
	t.Helper()
	for {
		to, err := os.MkdirTemp(t.TempDir(), "killed-*")
		if err != nil {
			t.Fatal(err)
		}
		before, err := walkTree(dir)
		if err == nil {
			err = os.CopyFS(to, os.DirFS(dir))
		}
		if err == nil {
			var after []string
			if after, err = walkTree(dir); err == nil && slices.Equal(before, after) {
				return to
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// Refuses checks that a directory is not opened as a store, that the error contains all the parts, and that
// the files do not change.
func Refuses(t *testing.T, dir string, open func() (rouse.Store, error), parts ...string) {
	t.Helper()
	before := Tree(t, dir)
	s, err := open()
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
	if after := Tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("the directory was %v and is %v", before, after)
	}
}

// OpenedOnce checks that a store that is open is not opened again, neither by this process nor by another
// one. Call it from a test that does nothing else: OpenedOnce runs that test again.
func OpenedOnce(t *testing.T, open OpenDir) {
	const holder = "ROUSE_HOLD_STORE"
	hold := func(dir string) rouse.Store {
		s, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if dir := os.Getenv(holder); dir != "" {
		hold(dir)
		fmt.Println("held")
		_, _ = io.ReadAll(os.Stdin)
		return
	}
	dir := t.TempDir()
	refused := func(by string) {
		t.Helper()
		s, err := open(dir)
		if err == nil {
			_ = s.Close()
			t.Fatalf("held by %s, it was opened", by)
		}
		if !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "stop the other") {
			t.Errorf("held by %s: %q names no cure", by, err)
		}
	}
	s := hold(dir)
	refused("this process")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), holder+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	refused("another process")
	_ = in.Close()
	_ = cmd.Wait()
	if err := hold(dir).Close(); err != nil {
		t.Fatal(err)
	}
}

// Reserve checks that a store with less space than its reserve adds no rows, and continues with everything
// else. The store has a reserve of 100 MiB and more free space than that; available sets the free space that
// it sees.
func Reserve(t *testing.T, s rouse.Store, available func(bytes int64)) {
	b := &bench{T: t, Store: s}
	old := b.mustCreate(dueRow("a", 0), dueRow("b", 0))
	added := dueRow("c", 0)
	create := rouse.Change{Key: added.Key, If: rouse.NoRow, To: &added}

	available(99 << 20)
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: old[0].Key, If: old[0].Revision}, create}); !errors.Is(err,
		rouse.ErrFull) {
		t.Errorf("a call that adds a row: %v", err)
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: added.Key, If: rouse.AnyRevision, To: &added}}); !errors.Is(err,
		rouse.ErrFull) {
		t.Errorf("a replace of nothing: %v", err)
	}
	if rows := b.mustGet(old[0].Key, added.Key); rows[0].Revision != old[0].Revision || rows[1].Revision != 0 {
		t.Errorf("a refused call changed something: %+v", rows)
	}
	dead := dueRow("a", 0)
	dead.Key.Fire, dead.State = "f", rouse.StateDead
	results := b.mustApply(
		rouse.Change{Key: old[0].Key, If: old[0].Revision, To: &old[0]},
		rouse.Change{Key: old[1].Key, If: old[1].Revision, Also: []rouse.Row{dead}},
		rouse.Change{Key: old[0].Key, If: rouse.NoRow, To: &old[0]})
	if !results[0].Applied || !results[1].Applied || results[2].Applied {
		t.Errorf("an update and a settle: %+v", results)
	}

	available(101 << 20)
	b.mustApply(create)
	if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != 2 {
		t.Errorf("count is %d, %v", n, err)
	}
}
