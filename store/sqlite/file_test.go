package sqlite

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func testRow(name string) *rouse.Row {
	return &rouse.Row{Key: rouse.Key{Namespace: "ns", Name: name}, Visible: 5, Due: 5, State: rouse.StateScheduled, Body: []byte(name)}
}

func newTimer(name string) rouse.Change {
	r := testRow(name)
	return rouse.Change{Key: r.Key, If: rouse.NoRow, To: r}
}

// makeStore creates a store with some rows, and closes it.
func makeStore(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var changes []rouse.Change
	for i := range 2000 {
		changes = append(changes, newTimer(fmt.Sprintf("t%04d-%s", i, strings.Repeat("x", 100))))
	}
	if _, err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// patch changes bytes of a file.
func patch(t *testing.T, name string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNoStoreIsRefusedAndLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		parts   []string
	}{
		{"a directory", func(t *testing.T, path string) { _ = os.Mkdir(path, 0o700) }, []string{"no file", "name one"}},
		{"an empty file", func(t *testing.T, path string) { writeFile(t, path, "") }, []string{"is empty", "name a file"}},
		{"a letter", func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("Dear rouse, ", 50)) }, []string{"no SQLite file", "name a file"}},
		{"another application's file", func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", dataSourceName(path, []string{"journal_mode(delete)"}))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(`CREATE TABLE timers (a)`); err != nil {
				t.Fatal(err)
			}
		}, []string{"another application", "name a file"}},
		{"a newer format", func(t *testing.T, path string) {
			makeStore(t, path)
			patch(t, path, 60, binary.BigEndian.AppendUint32(nil, formatVersion+1))
		}, []string{fmt.Sprintf("format %d", formatVersion+1), "newer rouse"}},
		{"a store without a format", func(t *testing.T, path string) {
			makeStore(t, path)
			patch(t, path, 60, make([]byte, 4))
		}, []string{"damaged", "restore"}},
		{"half a store", func(t *testing.T, path string) {
			makeStore(t, path)
			if err := os.Truncate(path, 8192); err != nil {
				t.Fatal(err)
			}
		}, []string{"damaged", "restore"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "timers.db")
			c.prepare(t, path)
			_ = os.Remove(path + ".lock")
			storetest.Refuses(t, dir, func() (rouse.Store, error) { return Open(path, Options{}) }, append(c.parts, path)...)
		})
	}
}

func TestDamageIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	makeStore(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	patch(t, path, info.Size()/4, []byte(strings.Repeat("damage", int(info.Size()/2/6))))
	s, err := Open(path, Options{})
	if err == nil {
		_, err = s.List(t.Context(), rouse.Query{Limit: 10_000})
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "restore") {
		t.Errorf("%v", err)
	}
}

func TestAnInterruptedStartIsBegunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	writeFile(t, path+".new", "half a store")
	writeFile(t, path+".new-journal", "and its journal")
	writeFile(t, path+".lock", "")
	makeStore(t, path)
	if left, err := filepath.Glob(path + ".new*"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestAStoreIsOpenedOnce(t *testing.T) { storetest.OpenedOnce(t, openDir) }

func TestADirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	for _, dir := range []string{"/proc", "/proc/self/fdinfo"} { // not writable even by root
		if _, err := os.Stat(dir); err != nil {
			t.Skip(err)
		}
		path := filepath.Join(dir, "timers.db")
		if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
	}
	if os.Getuid() != 0 {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(filepath.Join(dir, "timers.db"), Options{}); err == nil || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("%v", err)
		}
	}
}

func TestTheSettingsAreInForce(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want int
	}{{Options{}, 2}, {Options{Relaxed: true}, 1}} {
		s, err := Open(filepath.Join(t.TempDir(), "a b?c#d%20.db"), c.o) // a name that would be misread in a URL
		if err != nil {
			t.Fatal(err)
		}
		var synchronous int
		var journal string
		if err := s.tx.conn.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&synchronous); err != nil || synchronous != c.want {
			t.Errorf("%+v: synchronous is %d, want %d, %v", c.o, synchronous, c.want, err)
		}
		if err := s.readers.QueryRowContext(t.Context(), `PRAGMA journal_mode`).Scan(&journal); err != nil || journal != "wal" {
			t.Errorf("journal mode %q, %v", journal, err)
		}
		if _, err := s.readers.ExecContext(t.Context(), `DELETE FROM meta`); err == nil {
			t.Error("a reader can write")
		}
		if _, err := os.Stat(s.path); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestListsReadTheirIndexes: no list and no claim scans the whole table or sorts.
func TestListsReadTheirIndexes(t *testing.T) {
	s := openTest(t, t.TempDir())
	defer s.Close()
	check := func(text string, args []any) {
		t.Helper()
		rows, err := s.readers.Query(`EXPLAIN QUERY PLAN `+text, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var a, b, c int
			var step string
			if err := rows.Scan(&a, &b, &c, &step); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(step, "TEMP B-TREE") || strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "USING INDEX timers_by_key") ||
				strings.HasPrefix(step, "SEARCH records USING PRIMARY KEY") && !strings.Contains(step, "ended=? AND seq=?") {
				t.Errorf("%s\n%s", step, text)
			}
		}
	}
	check(windowText, []any{0, 0, 0, "", "", ""})
	check(trimTimerText, []any{0, "", 0, "", "", 0, 0, 0})
	for _, q := range []rouse.Query{
		{}, {Namespace: "ns"}, {Namespace: "ns", Prefix: "a"}, {Namespace: "ns", Name: "a"}, {Labels: map[string]string{"a": "b"}},
		{Namespace: "ns", Labels: map[string]string{"a": "b", "c": "d"}}, {States: []rouse.State{rouse.StateDead, rouse.StatePaused}}, {States: []rouse.State{rouse.StateNote, rouse.StateFiring}},
		{Namespace: "ns", States: []rouse.State{rouse.StateDead}, Prefix: "x"},
	} {
		q.After = rouse.Key{Namespace: "ns", Name: "b"}
		for _, src := range sourcesOf(&q) {
			c := src.indexConditions(&q)
			src.addRowFilters(&q, &c)
			a := src.alias + "."
			check(`SELECT t.body FROM `+src.joinTimers()+` WHERE `+c.joinConditions()+` ORDER BY `+a+"namespace, "+a+"name, "+a+"fire LIMIT 10", c.args)
		}
	}
}

func TestBelowTheReserveRowsAreNotAdded(t *testing.T) {
	var avail atomic.Int64
	avail.Store(1 << 30)
	s, err := openWithSpace(filepath.Join(t.TempDir(), "timers.db"), Options{Reserve: 100 << 20}, func(string) (int64, error) { return avail.Load(), nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.Reserve(t, s, func(bytes int64) {
		avail.Store(bytes)
		s.disk.Expire()
	})
}
