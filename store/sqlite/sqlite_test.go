package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/storetest"
)

var openDir storetest.OpenDir = func(dir string) (rouse.Store, error) {
	return Open(filepath.Join(dir, "timers.db"), Options{})
}

func openTest(t *testing.T, dir string) *Store {
	t.Helper()
	return openDir.In(t, dir).(*Store)
}

func TestContract(t *testing.T) { storetest.Run(t, openDir.Empty) }

func TestSameAsTheModel(t *testing.T) {
	storetest.Compare(t, openDir.Empty, func() rouse.Store { return mem.New() })
}

func TestReopen(t *testing.T) { storetest.Reopen(t, openDir) }

func TestCheckpoint(t *testing.T) { storetest.Checkpoint(t, openDir) }

func TestClock(t *testing.T) {
	storetest.Clock(t, func(t *testing.T, clock func() time.Time) rouse.Store {
		s, err := Open(filepath.Join(t.TempDir(), "timers.db"), Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestCrash(t *testing.T) { storetest.Crash(t, openDir) }

func TestPowerCut(t *testing.T) { storetest.PowerCut(t, openDir) }

func TestFullDisk(t *testing.T) {
	storetest.Full(t, func(dir string) (rouse.Store, error) {
		return Open(filepath.Join(dir, "timers.db"), Options{Reserve: 8 << 20})
	})
}
