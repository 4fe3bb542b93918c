package docker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/drivertest"
)

func TestMain(m *testing.M) {
	drivertest.Main()
	if err := os.Setenv("PASSED_TO_WORKERS", "yes"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// place is an engine for tests.
type place struct {
	host  string
	image string
}

// stop is the grace period of workers in tests.
const stop = 2 * time.Second

// config returns the configuration of a pool with a unique name.
func (p place) config(t *testing.T) Config {
	return Config{Pool: "p", Instance: "test-" + newSlot(), Host: p.host, Drain: stop, FirstPause: 20 * time.Millisecond,
		Template: Template{Image: p.image, Networks: []string{"none"}}, Pull: Never, Log: slog.New(slog.NewTextHandler(logWriter{t}, nil))}
}

// logWriter writes to the log of a test.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(string(b[:len(b)-1]))
	}
	return len(b), nil
}

// open returns a driver. Its containers are removed when the test ends.
func open(t *testing.T, c Config) *Driver {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
		sweepUp(t, c)
	})
	return d
}

// sweepUp removes all containers of a pool.
func sweepUp(t *testing.T, c Config) {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
	defer cancel()
	boxes, err := d.listBoxes(ctx, nil)
	if err != nil {
		t.Error(err)
	}
	for _, b := range boxes {
		if err := d.removeContainer(ctx, &b); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
}

// mortal is a driver whose workers end with it, as the contract's tests must leave nothing behind.
type mortal struct{ *Driver }

func (m mortal) Close(ctx context.Context) error {
	list, err := m.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range list {
		if err := m.Drain(ctx, w.Key); err != nil {
			return err
		}
	}
	return m.Driver.Close(ctx)
}

func testContract(t *testing.T, p place) {
	drivertest.Run(t, drivertest.Harness{Drain: stop, New: func(t *testing.T, env map[string]string) driver.Driver {
		c := p.config(t)
		env["GORACE"] = noSleep
		c.Env = env
		dir := env["DRIVERTEST_DIR"]
		c.Mounts = []Mount{{Type: "bind", Source: dir, Target: dir}}
		return mortal{open(t, c)}
	}})
}

// noSleep lets workers that run this binary end at once: the race detector would delay them by a second.
const noSleep = "atexit_sleep_ms=0"

// records is the directory in which the workers of a test record what they do.
type records struct {
	dir string
}

func newRecords(t *testing.T, c *Config) records {
	w := records{t.TempDir()}
	c.Env = map[string]string{"DRIVERTEST_DIR": w.dir, "GORACE": noSleep}
	c.Mounts = []Mount{{Type: "bind", Source: w.dir, Target: w.dir}}
	return w
}

// alive reports whether a worker has started and not ended gracefully.
func (w records) alive(id string) bool {
	_, err := os.Stat(filepath.Join(w.dir, id))
	return err == nil
}

// until waits until the workers of a driver match a condition.
func until(t *testing.T, d *Driver, what string, holds func([]driver.Worker) bool) []driver.Worker {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; {
		list, err := d.List(t.Context())
		if err == nil && holds(list) {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("workers are %+v, %v, and not: %s", list, err, what)
		}
		select {
		case <-tick.C:
		case <-d.Changed():
		}
	}
}

// runs returns a condition: there are n workers, and all run.
func runs(n int, w records) (string, func([]driver.Worker) bool) {
	return "they run", func(list []driver.Worker) bool {
		return len(list) == n && !slices.ContainsFunc(list, func(one driver.Worker) bool { return one.State != driver.Running || !w.alive(one.ID) })
	}
}

// TestSpoken runs the cases that need no real engine: see speaker.
func TestSpoken(t *testing.T) {
	p, _ := speak(t)
	runCases(t, p)
}
