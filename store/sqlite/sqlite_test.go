package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func openTest(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) rouse.Store { return openTest(t, filepath.Join(t.TempDir(), "timers.db")) })
}
