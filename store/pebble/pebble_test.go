package pebble

import (
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/storetest"
)

// inLittleMemory opens a store with small memory limits, so that tests use the disk.
var inLittleMemory storetest.OpenDir = func(dir string) (rouse.Store, error) {
	return Open(dir, Options{MemTableBytes: 1 << 20, CacheBytes: 8 << 20})
}

func openTest(t *testing.T, dir string) *Store {
	t.Helper()
	return inLittleMemory.In(t, dir).(*Store)
}

func TestContract(t *testing.T) { storetest.Run(t, inLittleMemory.Empty) }

func TestSameAsTheModel(t *testing.T) {
	storetest.Compare(t, inLittleMemory.Empty, func() rouse.Store { return mem.New() })
}

func TestReopen(t *testing.T) { storetest.Reopen(t, openShaped, shapes...) }

func openDir(dir string) (rouse.Store, error) { return Open(dir, Options{}) }

func TestCheckpoint(t *testing.T) { storetest.Checkpoint(t, openShaped, shapes...) }

func TestClock(t *testing.T) {
	storetest.Clock(t, func(t *testing.T, clock func() time.Time) rouse.Store {
		s, err := Open(t.TempDir(), Options{Clock: clock})
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
		return Open(dir, Options{MemTableBytes: 1 << 20, CacheBytes: 8 << 20, Reserve: 8 << 20})
	})
}
