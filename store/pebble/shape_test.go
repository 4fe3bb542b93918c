package pebble

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// openShaped opens a store that can be brought into all shapes.
var openShaped storetest.OpenDir = func(dir string) (rouse.Store, error) {
	return openOnFS(dir, Options{CacheBytes: 1 << 20}, &stuckTables{FS: vfs.Default})
}

// shapes are those that only Pebble's files have.
var shapes = []storetest.Shape{
	{Name: "several live logs", Make: func(t testing.TB, s rouse.Store) {
		s.(*Store).room.disk.(*stuckTables).stuck.Store(true)
		storetest.Pad(t, s, 25)
	}},
	{Name: "all rows in tables, and older logs that wait to be used again", Make: func(t testing.TB, s rouse.Store) {
		p := s.(*Store)
		disk := p.room.disk.(*stuckTables)
		disk.stuck.Store(true)
		// Pebble keeps five of the logs that one flush makes free, and removes later ones. In a store that
		// has grown, fewer memtables, of 64 MiB, reach the 256 MiB at which it would wait for a flush.
		for i := 0; i < 8 && p.db.Metrics().MemTable.Size < 128<<20; i++ {
			for _, c := range []rouse.Change{create("padding"), {Key: create("padding").Key, If: rouse.AnyRevision}} {
				if _, err := s.Apply(t.Context(), []rouse.Change{c}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.db.AsyncFlush(); err != nil {
				t.Fatal(err)
			}
		}
		disk.stuck.Store(false)
		if err := p.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}},
}

// stuckTables is a disk that fails to create tables while it is stuck: the logs stay.
type stuckTables struct {
	vfs.FS
	stuck atomic.Bool
}

func (d *stuckTables) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.stuck.Load() && strings.HasSuffix(name, ".sst") {
		time.Sleep(time.Millisecond) // Pebble tries again immediately
		return nil, syscall.EIO
	}
	return d.FS.Create(name, category)
}

// TestShapesAreWhatTheyAreCalled counts the logs of each shape that Pebble replays.
func TestShapesAreWhatTheyAreCalled(t *testing.T) {
	for _, shape := range append(shapes, storetest.Shapes...) {
		dir := t.TempDir()
		s := openShaped.In(t, dir)
		shape.Make(t, s)
		var x examined
		if err := x.examineFiles(vfs.Default, dir); err != nil {
			t.Fatal(err)
		}
		logs := x.replayedLogs()
		last := logs[len(logs)-1]
		log, err := scanFile(vfs.Default, vfs.Default.PathJoin(dir, logName(last)), uint32(last))
		if err != nil {
			t.Fatal(err)
		}
		switch shape.Name {
		case "several live logs":
			if len(logs) < 2 {
				t.Errorf("%s: %v", shape.Name, logs)
			}
		case "all rows in tables, and older logs that wait to be used again":
			if log.revision != 0 || log.end != 0 || len(x.logs) < 4 {
				t.Errorf("%s: %v, %+v", shape.Name, x.logs, log)
			}
		case "rotated logs and flushed rows":
			if last < 5 {
				t.Errorf("%s: there is only log %d", shape.Name, last)
			}
		}
		t.Logf("%s: of the logs %v %v are replayed, up to revision %d", shape.Name, x.logs, logs, log.revision)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShapesOfLargeMemtables checks that a shape can be made when memtables have grown: the writer would wait
// for ever for a flush on a disk that is stuck.
func TestShapesOfLargeMemtables(t *testing.T) {
	for _, shape := range shapes {
		s := openShaped.In(t, t.TempDir())
		for range 40 {
			storetest.Pad(t, s, rouse.MaxBatch)
		}
		shape.Make(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
