package pebble

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func openTest(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{MemTableBytes: 1 << 20, CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) rouse.Store { return openTest(t, t.TempDir()) })
}
