package crash

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// TestDiskDies makes the disk fail under load: writes and syncs return errors from one moment on, as
// harness.When a cable comes off. The service must not acknowledge what it cannot keep, and must say that it
// is not well. When the disk is back, everything that was acknowledged is there.
func TestDiskDies(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, 512)
			data := filepath.Join(d.dir, "data")
			s := newServer(t, data, st.place(data))
			s.Start()
			w := newWitness(t)
			w.subscribe(s)
			l := w.begin(s, 24, harness.Seed(t))
			l.Progress(200)

			heal := w.Fault("disk-dies", "", 0)
			s.Freeze() // of a sync that is under way while it is aborted, ext4 may say that it went well
			d.must("mount", "-o", "remount,abort", d.dir)
			s.Signal(syscall.SIGCONT)
			for range 3 {
				if err := l.probe("dead"); err == nil {
					t.Error("a timer is acknowledged that no disk has")
				}
			}
			harness.Until(t, harness.Always("the server runs on and reports ready"), func() bool { return !s.Ready() })
			s.Kill()
			d.unmount()
			if err := d.mount(); err != nil {
				t.Fatal(err)
			}
			s.Start()
			heal()
			l.Progress(50)
			l.End()
			w.close(s, 50)
		})
	}
}
