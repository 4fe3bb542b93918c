package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/test/harness"
)

// TestBackupUnderLoad backs a server up while it is busy, kills it, and restores the archive elsewhere: the
// server there has every timer that was acknowledged before the backup began, and fires them.
func TestBackupUnderLoad(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			data := harness.TempDir(t)
			s := newServer(t, data, st.place(data))
			s.Start()
			w := newWitness(t)
			w.subscribe(s)
			l := w.begin(s, 32, harness.Seed(t))
			l.Progress(50)

			arrived := receiver.New(receiver.Options{})
			t.Cleanup(arrived.Close)
			filler := l.fill(arrived.URL())
			harness.Until(t, harness.Always("fewer than 50 timers were acknowledged"), func() bool { return len(filler.acknowledged()) >= 50 })
			archive := filepath.Join(harness.TempDir(t), "rouse.tar")
			before := filler.acknowledged()
			s.rouse("backup", archive, "--server", s.Address())
			l.Progress(50) // of these the archive knows nothing
			s.Kill()
			l.Stop()
			l.Abandon()
			l.End()
			after := filler.end()
			if len(after) <= len(before) {
				t.Errorf("%d timers were acknowledged before the backup and %d until the end: there was no load", len(before), len(after))
			}

			s.rouse("backup", "--verify", archive)
			elsewhere := filepath.Join(harness.TempDir(t), "restored")
			second := newServer(t, elsewhere, st.place(elsewhere))
			s.rouse("restore", archive, "--store", second.Store)
			key, err := os.ReadFile(filepath.Join(s.Data, "secrets.keys")) // which no archive has
			if err == nil {
				err = errors.Join(os.MkdirAll(second.Data, 0o700), os.WriteFile(filepath.Join(second.Data, "secrets.keys"), key, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			second.Start()
			c := second.Dial(harness.Patience)
			there := map[string]rouse.Timer{}
			for _, timer := range harness.List(t, c, rouse.Query{Prefix: keptPrefix}) {
				there[timer.Key.Name] = timer
			}
			lost := 0
			for _, name := range before {
				timer, ok := there[name]
				if !ok {
					lost++
					continue
				}
				if s := l.StampOf(&timer); timer.State() != rouse.StateScheduled || s.Timer != name {
					t.Errorf("%s is restored as %v with the payload %s", name, timer.State(), timer.Spec.Payload)
				}
			}
			if lost > 0 {
				t.Fatalf("%d of %d timers that were acknowledged before the backup are lost", lost, len(before))
			}
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			id, _, err := c.Run(ctx, "", before[len(before)-1])
			if err != nil {
				t.Fatal(err)
			}
			if a, err := arrived.Next(ctx); err != nil || a.Header.Get("Rouse-Fire-Id") != id {
				t.Errorf("a timer that was restored does not fire: %v", err)
			}
			second.Stop()
		})
	}
}

const keptPrefix = "kept-"

// filler creates timers that are not due while a test runs, one after another.
type filler struct {
	mu    sync.Mutex
	names []string // that were acknowledged
	stop  context.CancelFunc
	done  chan struct{}
}

// fill starts a filler.
func (l *load) fill(target string) *filler {
	ctx, stop := context.WithCancel(l.Calling)
	k := &filler{stop: stop, done: make(chan struct{})}
	l.T.Cleanup(func() { k.end() })
	go func() { // ends with ctx
		defer close(k.done)
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("%s%05d", keptPrefix, i)
			spec := rouse.Spec{Schedule: []string{"@after 1000h", "@every 1000h"}[i%2], Target: target, Payload: harness.Stamp{Timer: name, Gen: uint64(i + 1)}.Payload()}
			_, err := l.Client.Create(ctx, "", name, spec)
			switch {
			case err == nil:
				k.mu.Lock()
				k.names = append(k.names, name)
				k.mu.Unlock()
			case ctx.Err() == nil && !errors.Is(err, rouse.ErrUnavailable):
				l.T.Errorf("create %s: %v", name, err)
				return
			}
		}
	}()
	return k
}

func (k *filler) acknowledged() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.names...)
}

// end creates no more, and returns the names of all that were acknowledged.
func (k *filler) end() []string {
	k.stop()
	<-k.done
	return k.acknowledged()
}

// rouse runs a command of the server's binary, which must succeed.
func (s *server) rouse(args ...string) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	cmd.Env = append(os.Environ(), "HOME="+s.Data)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.T.Fatalf("rouse %v: %v\n%s", args, err, out)
	}
}
