package crash

import (
	"context"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
)

// TestDiskDies makes the disk fail under load: writes and syncs return errors from one moment on, as when a cable comes off.
// The service must not acknowledge what it cannot keep, and must say that it is not well. When the disk is back, everything
// that was acknowledged is there.
func TestDiskDies(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, 512)
			data := filepath.Join(d.dir, "data")
			s := newServer(t, data, st.place(data))
			s.start()
			w := newWitness(t)
			w.subscribe(s)
			l := w.begin(s, 24, seed(t))
			l.progress(200)

			heal := w.fault("disk-dies")
			s.freeze() // of a sync that is under way while it is aborted, ext4 may say that it went well
			d.must("mount", "-o", "remount,abort", d.dir)
			s.signal(syscall.SIGCONT)
			for range 3 {
				if err := l.probe("dead"); err == nil {
					t.Error("a timer is acknowledged that no disk has")
				}
			}
			until(t, always("the server runs on and says that it is ready"), func() bool { return !s.ready() })
			s.kill()
			d.unmount()
			if err := d.mount(); err != nil {
				t.Fatal(err)
			}
			s.start()
			heal()
			l.progress(50)
			l.end()
			w.close(s, 50)
		})
	}
}

// ready says whether the server is there and says that it is well.
func (s *server) ready() bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/readyz", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
