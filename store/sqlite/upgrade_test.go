package sqlite

import (
	"compress/gzip"
	"database/sql"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// unpack unpacks the store of format 1 in testdata to the path that openDir opens.
func unpack(t *testing.T) (dir, path string) {
	t.Helper()
	packed, err := os.Open("testdata/format1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	path = filepath.Join(dir, "timers.db")
	writeFile(t, path, string(content))
	return dir, path
}

// formatIn reads the format in a file's header, whatever the log contains.
func formatIn(t *testing.T, path string) uint32 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint32(content[60:])
}

func TestAStoreOfTheFirstFormatIsUpgraded(t *testing.T) {
	dir, path := unpack(t)
	if rows, records, err := Tally(t.Context(), path); err != nil || rows[rouse.StateDead] != 1 || records != 4 {
		t.Errorf("a tally finds %v, %d, %v", rows, records, err)
	}
	if got := formatIn(t, path); got != 1 {
		t.Fatalf("it has format %d", got)
	}
	s := openTest(t, dir)
	if got := formatIn(t, path); got != formatVersion { // an older rouse reads only the file
		t.Errorf("when it is open, its file has format %d", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Upgrade(t, openDir, dir)
}

// TestAnUpgradeIsInTheFile: while another program reads the previous content of the file, its header cannot
// be written, and nothing else is.
func TestAnUpgradeIsInTheFile(t *testing.T) {
	t.Parallel() // the upgrade waits until other programs may have finished reading
	dir, path := unpack(t)
	db, err := sql.Open("sqlite", dataSourceName(path, []string{"journal_mode(wal)"}))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reading, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Rollback()
	var n int
	if err := reading.QueryRow(`SELECT COUNT(*) FROM timers`).Scan(&n); err != nil || n != 8 {
		t.Fatal(n, err)
	}
	s, err := Open(path, Options{})
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "has format 1") || !strings.Contains(err.Error(), "end that program") {
		t.Errorf("%q names no cure", err)
	}
	if got := formatIn(t, path); got != 1 {
		t.Errorf("it has format %d", got)
	}
	if err := reading.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Upgrade(t, openDir, dir) // the log contains the new format already
	if got := formatIn(t, path); got != formatVersion {
		t.Errorf("it has format %d", got)
	}
}
