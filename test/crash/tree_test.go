package crash

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
)

// filling is how many timers a store is filled with: enough for several blocks and pages.
const filling = 3000

func fillName(i int) string { return fmt.Sprintf("filled-%05d", i) }

// filled returns a data directory with a store that a server made, filled and closed.
func filled(t testing.TB, place func(data string) string) string {
	t.Helper()
	data := filepath.Join(harness.TempDir(t), "data")
	s := newServer(t, data, place(data))
	s.Start()
	timers := make([]client.NewTimer, filling)
	for i := range timers {
		timers[i] = client.NewTimer{Name: fillName(i), Spec: rouse.Spec{Schedule: "@after 1000h", Target: "stream:", Payload: harness.Stamp{Timer: fillName(i), Gen: uint64(i + 1)}.Payload()}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	created, err := s.Dial(0).BatchCreate(ctx, "", client.CreateOnly, timers)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range created {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	// A backup ends the log with an empty record, and a start sorts the logs into tables.
	s.rouse("backup", filepath.Join(harness.TempDir(t), "rouse.tar"), "--server", s.Address())
	s.Stop()
	s.Start()
	s.Stop()
	return data
}

func placeOf(store, data string) string {
	for _, st := range stores {
		if st.name == store {
			return st.place(data)
		}
	}
	panic("no store " + store)
}

// refuses starts the server, which must end by itself, with an error that contains all of these texts, and
// without a change to its data.
func (s *server) refuses(texts ...string) {
	s.T.Helper()
	s.refusesWith(tree, texts...)
}

// refusesWith is refuses with another view of the data.
func (s *server) refusesWith(tree func(t testing.TB, dir string) map[string]string, texts ...string) {
	s.T.Helper()
	top := filepath.Dir(s.Data) // nothing is made next to it, either
	before := tree(s.T, top)
	s.Launch()
	if code := s.Wait(); code <= 0 {
		s.T.Errorf("it ends with %v", s.Cmd.ProcessState)
	}
	select {
	case <-s.Listen:
		s.T.Error("it reported that it serves")
	default:
	}
	s.wantOutput(texts...)
	after := tree(s.T, top)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			s.T.Errorf("it made %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[name]; !ok {
			s.T.Errorf("it removed %s", name)
		} else if now != before[name] {
			s.T.Errorf("it changed %s: %s, it was %s", name, now, before[name])
		}
	}
}

// wantOutput checks that the server's output contains all of these texts.
func (s *server) wantOutput(words ...string) {
	s.T.Helper()
	text := s.Output()
	for _, w := range words {
		if !strings.Contains(text, w) {
			s.T.Errorf("its output has no %q:\n%s", w, text)
		}
	}
	if strings.Contains(text, "goroutine ") {
		s.T.Errorf("it panics:\n%s", text)
	}
}

// tree describes every file under a directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == dir {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d bytes %x", len(content), sha256.Sum256(content))
		}
		files[path] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// contents describes the files that hold timers. A store that is prepared for Pebble is private, has noted in
// its witness which logs it has, and has dropped what an earlier opening wrote down of its options.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := tree(t, dir)
	for path, what := range files {
		_, files[path], _ = strings.Cut(what, " ") // the mode
		switch name := filepath.Base(path); {
		case name == "WITNESS":
			files[path] = "a witness"
		case strings.HasPrefix(name, "OPTIONS-"):
			delete(files, path)
		}
	}
	return files
}

// one returns a file that matches.
func one(t testing.TB, data, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s (%v)", pattern, err)
	}
	return slices.MaxFunc(names, func(a, b string) int { return int(size(t, a) - size(t, b)) })
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func remove(t testing.TB, data, pattern string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s (%v)", pattern, err)
	}
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// change gives a file another content.
func change(t testing.TB, path string, how func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, how(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func half(b []byte) []byte { return b[:len(b)/2] }

// garble overwrites a piece of a file.
func garble(t testing.TB, path string, at int) {
	t.Helper()
	change(t, path, func(b []byte) []byte {
		noise(b[at:min(len(b), at+4096)])
		return b
	})
}

func noise(b []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}
