package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// TestDiskFull fills the disk under load, first so far that the service refuses new timers and fires the
// others, then to the last byte. When there is room again it recovers by itself, and nothing that it had
// accepted is lost.
func TestDiskFull(t *testing.T) {
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
			for i := range 200 { // some are pending whenever the disk is full
				delay := time.Duration(i) * 150 * time.Millisecond
				l.Put(fmt.Sprint("steady-", i), l.URL, harness.When{Text: "@after " + delay.String(), Spec: history.Spec{Delay: delay}}, false)
			}

			heal := w.Fault("disk-full", "", 0)
			d.fill(16 << 20)
			harness.Until(t, harness.Always("timers are still created"), func() bool { return errors.Is(l.probe("low"), rouse.ErrFull) })
			l.refusedByHTTP(s)
			fired := w.Fires()
			harness.Until(t, harness.Always("fires stop while timers are refused"), func() bool { return w.Fires() >= fired+20 })

			d.fill(0)
			for range 3 {
				if err := l.probe("full"); err == nil {
					t.Error("a timer is created on a full disk")
				}
			}
			select {
			case <-s.Exited:
				t.Fatalf("the server ended: %v\n%s", s.Cmd.ProcessState, s.Output())
			default:
			}

			d.empty()
			harness.Until(t, harness.Always("no timer is created although there is room again"), func() bool { return l.probe("room") == nil })
			heal()
			l.Progress(100)
			l.End()
			w.close(s, 100)
		})
	}
}

// fill writes a file until so many bytes are free.
func (d *disk) fill(left int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) >= 512; {
		if left > 0 && d.free() <= left {
			return
		}
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			d.t.Fatal(err)
		}
	}
}

// empty makes room again.
func (d *disk) empty() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

func (d *disk) free() int64 {
	d.t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// probe tries to create a timer, and writes that down like every other try.
func (l *load) probe(what string) error {
	gen := l.NextGen()
	e := history.Put{Timer: "probe-" + what + "-" + time.Now().Format("150405.000000000"), Gen: gen, Spec: history.Spec{Delay: time.Hour}, T0: harness.Now()}
	ctx, cancel := context.WithTimeout(l.Calling, 2*time.Second)
	defer cancel()
	made, err := l.Client.Create(ctx, "", e.Timer, rouse.Spec{Schedule: "@after 1h", Target: l.URL, Payload: harness.Stamp{Timer: e.Timer, Gen: gen}.Payload()})
	e.T1, e.Res, e.Due = harness.Now(), harness.Result(err), harness.Moment(made.Due)
	l.Write(e)
	return err
}

// refusedByHTTP asks for a timer over HTTP, which must be refused in the words of HTTP.
func (l *load) refusedByHTTP(s *server) {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	body := strings.NewReader(`{"name":"over-http","schedule":"@after 1h","target":"stream:"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Address()+"/v1/namespaces/default/timers", body)
	if err != nil {
		l.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode != http.StatusInsufficientStorage || !strings.Contains(string(text), `"full"`) {
		l.T.Errorf("on a full disk HTTP answers %s %s, not 507 with the code full (%v)", resp.Status, text, err)
	}
}
