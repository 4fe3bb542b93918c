// Package subprocess is the driver whose workers are child processes of this process.
//
// Each worker leads its own process group. Drain sends SIGTERM to the group, and SIGKILL after the grace
// period; the rest of the group is killed when the worker has ended. A worker that ends by itself is
// restarted with a growing backoff.
//
// Workers do not outlive this process, however it ends: see reaper.go and spawn.go. Each takes two
// descriptors, for its end and its output, and no thread, except on systems that cannot report the ends of
// many processes on one descriptor (ends_other.go).
package subprocess

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Config configures the workers. Its tags are the settings of a file of pools.
type Config struct {
	Pool    string            `yaml:"-"`       // begins their ids
	Command []string          `yaml:"command"` // the program and its arguments, the same for all keys; no shell sees it
	Dir     string            `yaml:"dir"`     // where they run; the directory of this process if empty
	Env     map[string]string `yaml:"env"`     // of all workers
	// variables of this process passed to workers, in addition to the needed ones
	PassEnv []string `yaml:"pass_env"`

	Drain time.Duration `yaml:"drain_timeout"` // from SIGTERM to SIGKILL; 30s if zero
	// initial backoff before a worker that ended by itself is restarted; 200ms if zero
	FirstPause   time.Duration `yaml:"first_pause"`
	LongestPause time.Duration `yaml:"longest_pause"` // maximum backoff; 1m if zero
	Stable       time.Duration `yaml:"stable_after"`  // a worker that ran so long resets the backoff; 10s if zero

	Log *slog.Logger `yaml:"-"` // also for the output of workers; slog.Default if nil
}

func (c Config) withSubprocessDefaults() (Config, error) {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return c, rouse.Refuse("command", "", "is missing", "give the program and its arguments as a list")
	}
	program := exec.Command(c.Command[0])
	program.Dir = c.Dir
	if program.Err != nil {
		return c, rouse.Refuse("command", c.Command[0], "cannot be run: "+program.Err.Error(), "name a program that is there")
	}
	if path := c.Command[0]; filepath.Base(path) != path { // other paths were resolved already
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.Dir, path)
		}
		if _, err := exec.LookPath(absolutePath(path)); err != nil {
			return c, rouse.Refuse("command", c.Command[0], "cannot be run: "+err.Error(),
				"name a program that is there and may be executed")
		}
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return c, rouse.Refuse("dir", c.Dir, "is no directory", "name one that is there")
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{{"drain_timeout", &c.Drain, 30 * time.Second}, {"first_pause", &c.FirstPause, 200 * time.Millisecond},
		{"longest_pause", &c.LongestPause, time.Minute}, {"stable_after", &c.Stable, 10 * time.Second}} {
		if *d.value < 0 {
			return c, rouse.Refuse(d.name, d.value.String(), "is negative", "give a duration such as "+d.def.String())
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return c, nil
}

// absolutePath returns an absolute path, so that the program is not searched for elsewhere.
func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// Driver starts processes.
type Driver struct {
	config  Config
	spawner *spawner
	reaper  *reaper
	ends    *ends
	changed chan struct{}
	life    sync.WaitGroup // ends with all workers
	kill    chan struct{}  // closed when workers have to end at once

	mu      sync.Mutex
	closed  bool
	workers map[string][]*worker // by key
}

// New returns a driver without workers.
func New(c Config) (*Driver, error) {
	c, err := c.withSubprocessDefaults()
	if err == nil {
		err = checkSystem()
	}
	if err != nil {
		return nil, fmt.Errorf("subprocess driver of pool %q: %w", c.Pool, err)
	}
	r, err := newReaper()
	if err != nil {
		return nil, fmt.Errorf("subprocess driver of pool %q: %w", c.Pool, err)
	}
	e, err := newEnds()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subprocess driver of pool %q: %w", c.Pool, err), r.closeReaper())
	}
	return &Driver{config: c, spawner: newSpawner(), reaper: r, ends: e, changed: make(chan struct{}, 1),
		kill:    make(chan struct{}),
		workers: map[string][]*worker{}}, nil
}

// errClosed is returned by calls after Close.
var errClosed = errors.New("the driver is closed")

// Ensure starts missing workers and drains surplus ones.
func (d *Driver) Ensure(_ context.Context, g driver.Group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	have := 0
	for _, w := range d.workers[g.Key] {
		if w.isDraining() {
			continue
		}
		if have++; have > g.Workers {
			w.requestDrain()
		}
	}
	for ; have < g.Workers; have++ {
		w := newWorker(d, g)
		d.workers[g.Key] = append(d.workers[g.Key], w)
		d.life.Go(w.restartUntilDrained)
	}
	d.notifyChanged()
	return nil
}

// Drain asks the workers of a key to end.
func (d *Driver) Drain(_ context.Context, key string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers[key] {
		w.requestDrain()
	}
	d.notifyChanged()
	return nil
}

// List returns the workers that have not ended permanently.
func (d *Driver) List(context.Context) ([]driver.Worker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []driver.Worker
	for _, workers := range d.workers {
		for _, w := range workers {
			list = append(list, w.workerView())
		}
	}
	return list, nil
}

// Proved resets the backoff of the running workers of a key.
func (d *Driver) Proved(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers[key] {
		w.markProved()
	}
}

// Retry starts all waiting workers.
func (d *Driver) Retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, workers := range d.workers {
		for _, w := range workers {
			w.endBackoff()
		}
	}
}

// Changed receives a value when the state of a worker has changed.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

func (d *Driver) notifyChanged() {
	notify.Send(d.changed)
}

// Release drains all workers: no other process can manage them.
func (d *Driver) Release(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, workers := range d.workers {
		for _, w := range workers {
			w.requestDrain()
		}
	}
	d.notifyChanged()
	return nil
}

// Close drains all workers and waits for them; when ctx ends, the remaining ones are killed.
func (d *Driver) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	_ = d.Release(ctx)
	impatient := context.AfterFunc(ctx, func() { close(d.kill) })
	d.life.Wait()
	impatient()
	d.spawner.closeSpawner()
	return errors.Join(d.ends.closeEpoll(), d.reaper.closeReaper())
}

// removeWorker removes a worker that has ended permanently.
func (d *Driver) removeWorker(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers[w.key] = slices.DeleteFunc(d.workers[w.key], func(o *worker) bool { return o == w })
	if len(d.workers[w.key]) == 0 {
		delete(d.workers, w.key)
	}
	d.notifyChanged()
}

// needed are variables that most programs need.
var needed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR"}

// workerEnvironment returns the environment of a worker. That of this process may contain secrets and is not
// passed on.
func (d *Driver) workerEnvironment(id string, vars map[string]string) []string {
	all := map[string]string{}
	for _, name := range slices.Concat(needed, d.config.PassEnv) {
		if value, ok := os.LookupEnv(name); ok {
			all[name] = value
		}
	}
	for _, m := range []map[string]string{d.config.Env, vars, {"WORKER_ID": id}} {
		maps.Copy(all, m)
	}
	env := make([]string, 0, len(all))
	for name, value := range all {
		if !strings.Contains(value, "\x00") { // variables cannot contain it
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}

// newID returns a unique name for a worker.
func (d *Driver) newID() string { return d.config.Pool + "-" + strings.ToLower(rand.Text()[:12]) }

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Pauser = (*Driver)(nil)
)
