package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func TestDamage(t *testing.T) {
	harmless := func(file string) bool { return file == "LOCK" || strings.HasSuffix(file, ".tmp") }
	storetest.Damage(t, openShaped, harmless, shapes...)
}

// logged creates a store with acknowledged rows in its log, each in a separate batch, and returns the files
// as a kill leaves them.
func logged(t *testing.T, rows int) (dir, log string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "store")
	s := openTest(t, from)
	for i := range rows {
		if _, err := s.Apply(t.Context(), []rouse.Change{create(fmt.Sprintf("t%04d-%s", i, strings.Repeat("x", 40)))}); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	return dir, logs[0]
}

// content returns what a log has, without the zeros behind it.
func content(t *testing.T, log string) []byte {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.TrimRight(b, "\x00")
	if len(whole) == len(b) {
		t.Fatal("a log with small commits has no zeros behind what was written")
	}
	return whole
}

func countAll(t *testing.T, s *Store) int64 {
	t.Helper()
	n, err := s.Count(t.Context(), rouse.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestATornLastWriteIsNoDamage: the remainder of an unacknowledged write after a kill is ignored.
func TestATornLastWriteIsNoDamage(t *testing.T) {
	dir, log := logged(t, 500)
	whole := content(t, log)
	for _, tail := range [][]byte{nil, whole[:100], whole[:19], make([]byte, 5000), bytes.Repeat([]byte{0xa5}, 70_000),
		append(make([]byte, 70_000), whole[:100]...)} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(copied, filepath.Base(log)), string(whole)+string(tail))
		s := openTest(t, copied)
		if n := countAll(t, s); n != 500 {
			t.Errorf("with %d bytes behind the end there are %d rows", len(tail), n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLossIsAcceptedOnRequest: a store with a damaged log is left unchanged until its loss is accepted. Then
// it contains what was written before the damage, keeps the damaged log, repeats no revision, and opens
// normally from then on.
func TestLossIsAcceptedOnRequest(t *testing.T) {
	for _, c := range []struct {
		what   string
		damage func(b []byte) []byte
		kept   bool
		least  int64
	}{
		{"a changed byte", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, true, 200},
		{"a log cut short", func(b []byte) []byte { return b[:len(b)*9/10] }, true, 400},
		{"zeros in place of the end", func(b []byte) []byte { return append(b[:len(b)*9/10], make([]byte, 200_000)...) }, true, 400},
		{"an empty log", func([]byte) []byte { return []byte{} }, false, 0},
		{"no log", func([]byte) []byte { return nil }, false, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir, log := logged(t, 500)
			whole := content(t, log)
			if left := c.damage(whole); left == nil {
				_ = os.Remove(log)
			} else {
				writeFile(t, log, string(left))
			}
			for range 2 {
				if s, err := Open(dir, Options{}); !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "--accept-loss") {
					t.Fatal(s, err)
				}
			}
			var reports []string
			s, err := Open(dir, Options{AcceptLoss: true, Report: func(err error) { reports = append(reports, err.Error()) }})
			if err != nil {
				t.Fatal(err)
			}
			n := countAll(t, s)
			if n < c.least || n >= 500 || len(reports) == 0 || !strings.Contains(strings.Join(reports, "\n"), "revision") {
				t.Errorf("%d rows, %q", n, reports)
			}
			results, err := s.Apply(t.Context(), []rouse.Change{create("after")})
			if err != nil || results[0].Revision <= 500 {
				t.Errorf("%+v, %v", results, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "lost-1", filepath.Base(log))); (err == nil) != c.kept {
				t.Errorf("the damaged log: %v", err)
			}
			s = openTest(t, dir)
			if got := countAll(t, s); got != n+1 {
				t.Errorf("later there are %d rows, not %d", got, n+1)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAMissingLogOfSeveralIsDamage: if a later log is intact, only the witness reveals a log that is missing,
// or truncated at the end of a record.
func TestAMissingLogOfSeveralIsDamage(t *testing.T) {
	fs := vfs.NewMem()
	d := &stuckTables{FS: fs}
	s, err := openOnFS("store", Options{MemTableBytes: 256 << 10, Reserve: -1}, d)
	if err != nil {
		t.Fatal(err)
	}
	d.stuck.Store(true) // no table is written: the logs stay
	for i := range 400 {
		r := testRow(fmt.Sprintf("t%04d", i))
		r.Body = bytes.Repeat([]byte{byte(i)}, 1000)
		if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: r}}); err != nil {
			t.Fatal(err)
		}
	}
	image := func() vfs.FS {
		c := vfs.NewMem()
		if ok, err := vfs.Clone(fs, c, "store", "store"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return c
	}
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	var logs []string
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, "store/"+name)
		}
	}
	slices.Sort(logs)
	if len(logs) < 2 {
		t.Fatalf("there are only the logs %v", logs)
	}
	whole, err := openOnFS("store", Options{Reserve: -1}, image())
	if err != nil {
		t.Fatal(err)
	}
	if n := countAll(t, whole); n != 400 {
		t.Errorf("without damage there are %d rows", n)
	}
	_ = whole.Close()
	for _, log := range logs {
		c := image()
		if err := c.Remove(log); err != nil {
			t.Fatal(err)
		}
		if s, err := openOnFS("store", Options{Reserve: -1}, c); !errors.Is(err, rouse.ErrCorrupt) {
			t.Errorf("without %s: %v, %v", log, s, err)
		}
	}
	// A log that is truncated at the end of a record looks like one with fewer writes.
	c := image()
	_, number := fileKind(logs[0])
	all, err := scanFile(c, logs[0], uint32(number))
	if err != nil || !all.closed {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := copyHead(c, logs[0], "store/short", all.end); err != nil {
		t.Fatal(err)
	}
	if err := c.Rename("store/short", logs[0]); err != nil {
		t.Fatal(err)
	}
	if s, err := openOnFS("store", Options{Reserve: -1}, c); !errors.Is(err, rouse.ErrCorrupt) {
		t.Errorf("with %s cut short: %v, %v", logs[0], s, err)
	}
	d.stuck.Store(false)
	_ = s.Close()
}

func TestFilesAreTheOwners(t *testing.T) {
	storetest.Private(t, func(dir string) (rouse.Store, error) { return Open(dir, Options{MemTableBytes: 1 << 18}) })
}

// TestDamageShowsBehindAnOldWitness: after a power cut the witness may be older than the log. The content
// behind the damage reveals it.
func TestDamageShowsBehindAnOldWitness(t *testing.T) {
	from := filepath.Join(t.TempDir(), "store")
	if err := openTest(t, from).Close(); err != nil { // the first log of a store does not contain how far it was synced
		t.Fatal(err)
	}
	s := openTest(t, from)
	var old []byte
	for i := range 400 {
		if i == 20 {
			var err error
			if old, err = os.ReadFile(filepath.Join(from, witnessName)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Apply(t.Context(), []rouse.Change{create(fmt.Sprintf("t%04d-%s", i, strings.Repeat("x", 40)))}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, witnessName), string(old))
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	log := logs[len(logs)-1]
	b := content(t, log)
	b[len(b)/5] ^= 1
	writeFile(t, log, string(b))
	if s, err := Open(dir, Options{}); !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "safe on the disk") {
		t.Errorf("%v, %v", s, err)
	}
}

// TestATallyComparesWhatHasToAgree: data that can be read without an error may still be contradictory.
func TestATallyComparesWhatHasToAgree(t *testing.T) {
	row := testRow("one")
	for what, change := range map[string]func(db *lsm.DB) error{
		"a counter": func(db *lsm.DB) error {
			return db.Set(countKey{row.Key.Namespace, row.State}.appendCountKey(nil), []byte{0, 0, 0, 0, 0, 0, 0, 9}, lsm.Sync)
		},
		"a row without its key": func(db *lsm.DB) error { return db.Delete(appendKeyKey(nil, row.Key), lsm.Sync) },
		"a key without its row": func(db *lsm.DB) error {
			return db.Delete(appendDueKey(nil, row.Bucket, row.Visible, row.Key), lsm.Sync)
		},
		"a label of no row": func(db *lsm.DB) error {
			return db.Set(appendSuffix(appendLabelHead(nil, "a", "b"), row.Key), nil, lsm.Sync)
		},
	} {
		dir := t.TempDir()
		s := openTest(t, dir)
		if _, err := s.Apply(t.Context(), []rouse.Change{{Key: row.Key, To: row}}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(change(s.db), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Tally(t.Context(), dir); !errors.Is(err, rouse.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
