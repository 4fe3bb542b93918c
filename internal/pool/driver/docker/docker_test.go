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

// place is an engine that tests are made on.
type place struct {
	host  string
	image string
}

// stop is after how long workers of tests are killed.
const stop = 2 * time.Second

// config is that of a pool of the place, with a name of its own.
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
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
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
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	boxes, err := d.boxes(ctx, nil)
	if err != nil {
		t.Error(err)
	}
	for _, b := range boxes {
		if err := d.remove(ctx, &b); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
}

// mortal is a driver whose workers end with it, as the contract's tests leave nothing behind.
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

// noSleep has workers that are this binary end at once, where the race detector would have them wait a second.
const noSleep = "atexit_sleep_ms=0"

// world is where workers of a test write down what they do.
type world struct {
	dir string
}

func newWorld(t *testing.T, c *Config) world {
	w := world{t.TempDir()}
	c.Env = map[string]string{"DRIVERTEST_DIR": w.dir, "GORACE": noSleep}
	c.Mounts = []Mount{{Type: "bind", Source: w.dir, Target: w.dir}}
	return w
}

// alive reports whether a worker has started and not ended in good order.
func (w world) alive(id string) bool {
	_, err := os.Stat(filepath.Join(w.dir, id))
	return err == nil
}

// until waits until the workers of a driver are as they should be.
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

// runs reports whether there are so many workers, all of which run.
func runs(n int, w world) (string, func([]driver.Worker) bool) {
	return "they run", func(list []driver.Worker) bool {
		return len(list) == n && !slices.ContainsFunc(list, func(one driver.Worker) bool { return one.State != driver.Running || !w.alive(one.ID) })
	}
}

// TestSpoken runs the cases where no engine is needed: see speaker.
func TestSpoken(t *testing.T) {
	p, _ := speak(t)
	runCases(t, p)
}
