package pebble

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// unpack unpacks the store of format 1 in testdata to a directory.
func unpack(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("testdata/format1.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, filepath.Base(h.Name)), string(content))
	}
}

func marker(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, markerName))
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(last)
}

func TestAStoreOfTheFirstFormatIsUpgraded(t *testing.T) {
	dir := unpack(t)
	if got := marker(t, dir); got != "format 1 ready" {
		t.Fatalf("the marker is %q", got)
	}
	if rows, records, err := Tally(t.Context(), dir); err != nil || rows[rouse.StateDead] != 1 || records != 4 {
		t.Errorf("a tally finds %v, %d, %v", rows, records, err)
	}
	if got := marker(t, dir); got != "format 1 ready" {
		t.Errorf("after a tally the marker is %q", got)
	}
	s := openTest(t, dir)
	if got := marker(t, dir); got != fmt.Sprintf("format %d ready", storeFormat) {
		t.Errorf("when it is open, the marker is %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Upgrade(t, openDir, dir)
}

// TestAnUpgradeThatFailsChangesNothing: a damaged store of an older format keeps its marker, so that the
// older rouse can still open it.
func TestAnUpgradeThatFailsChangesNothing(t *testing.T) {
	dir := unpack(t)
	table := filepath.Join(dir, "000005.sst")
	whole, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(table); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(dir, Options{}); err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	if got := marker(t, dir); got != "format 1 ready" {
		t.Errorf("the marker is %q", got)
	}
	writeFile(t, table, string(whole))
	writeFile(t, filepath.Join(dir, markerTemp), "half a mark")
	storetest.Upgrade(t, openDir, dir)
}
