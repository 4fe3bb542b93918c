//go:build linux

package systemd

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newFiles(t *testing.T) *files {
	t.Helper()
	return &files{dir: filepath.Join(t.TempDir(), "core-worker"), names: names{prefix: "core-worker", pool: "p"}, keys: map[string]string{}}
}

// TestFilesAreReadAgain checks that the next process reads the records, and that other users cannot.
func TestFilesAreReadAgain(t *testing.T) {
	f := newFiles(t)
	if list, err := f.listEntries(f.names.poolPrefix()); len(list) > 0 || err != nil {
		t.Errorf("without a directory there is %v, %v", list, err)
	}
	keys := []string{"", "42", "a\x00b", "../../x", "日本", "\xff", strings.Repeat("k", 300)}
	for _, key := range keys {
		if err := f.recordWanted(f.names.instanceName(key, 7), key, map[string]string{"SECRET": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	if err := f.recordDrain(f.names.instanceName("42", 7), at); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.drainMarkPath(f.names.instanceName("", 7)), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	later := newFiles(t)
	later.dir = f.dir
	list, err := later.listEntries(f.names.poolPrefix())
	if err != nil || len(list) != len(keys) {
		t.Fatalf("there is %v, %v", list, err)
	}
	there := map[string]entry{}
	for _, e := range list {
		there[e.key] = e
		if info, err := os.Stat(f.envFilePath(e.instance)); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file of %q is %v, %v", e.key, info.Mode(), err)
		}
	}
	for _, key := range keys {
		e, ok := there[key]
		asked := key == "42" || key == ""
		if !ok || e.number != 7 || e.asked.IsZero() == asked || key == "42" && !e.asked.Equal(at) {
			t.Errorf("of %q there is %+v, %v", key, e, ok)
		}
		if err := later.removeFiles(e.instance); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(f.dir); len(left) > 0 || err != nil {
		t.Errorf("there still is %v, %v", left, err)
	}
}

// TestInterruptedWrites checks that a process that is killed while it writes or removes files does no harm.
func TestInterruptedWrites(t *testing.T) {
	f := newFiles(t)
	if err := f.lockAsLeader(); err != nil {
		t.Fatal(err)
	}
	defer f.releaseLock()
	if err := f.recordDrain("p-k-1", time.Now()); err != nil { // its other file was removed first
		t.Fatal(err)
	}
	old, fresh := filepath.Join(f.dir, partial+"1"), filepath.Join(f.dir, partial+"2")
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if list, err := f.listEntries(f.names.poolPrefix()); len(list) > 0 || err != nil {
		t.Errorf("there is %v, %v", list, err)
	}
	if err := f.recordWanted("p-k-1", "k", nil); err != nil {
		t.Fatal(err)
	}
	if list, err := f.listEntries(f.names.poolPrefix()); len(list) != 1 || err != nil || !list[0].asked.IsZero() {
		t.Errorf("there is %v, %v", list, err)
	}
	next := newFiles(t)
	next.dir = f.dir
	if err := next.lockAsLeader(); err != nil {
		t.Fatal(err)
	}
	defer next.releaseLock()
	if left, _ := filepath.Glob(filepath.Join(f.dir, partial+"*")); len(left) != 1 || left[0] != fresh {
		t.Errorf("there is %q", left)
	}
}

// TestDirectoriesOfOthers checks that variables are not written where other users could change them.
func TestDirectoriesOfOthers(t *testing.T) {
	f := newFiles(t)
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	err := f.recordWanted("p-k-1", "k", nil)
	wantError(t, err, f.dir, "may be written to by others", "0700")
	if err := os.Chmod(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.recordWanted("p-k-1", "k", nil); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(f.envFilePath("p-k-1")); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("it is %v, %v", info, err)
	}
}

// TestVariables checks how variables are formatted, and which are omitted.
func TestVariables(t *testing.T) {
	got := formatVariables(map[string]string{"B": `a "b" \n $HOME ` + "`x`\n#", "A": "", "BAD": "\xff", "NUL": "a\x00", "NO NAME": "x", "1": "x", "": "x", "É": "x"})
	want := "A=\"\"\nB=\"a \\\"b\\\" \\\\n \\$HOME \\`x\\`\n#\"\n"
	if got != want {
		t.Errorf("it is %q, not %q", got, want)
	}
}
