// Package drivertest is the test suite for drivers, whatever they start workers with. Its
// worker is a program that a driver starts: the test binary itself, whose TestMain calls Main.
package drivertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// Harness describes a driver under test.
type Harness struct {
	// New returns a driver without workers. Those that it starts run Main, with these variables in addition
	// to those of their group. The suite closes it.
	New func(t *testing.T, env map[string]string) driver.Driver

	// Drain is the grace period before the driver kills a worker; at least a second.
	Drain time.Duration

	// NoWorkers means that the driver starts no workers, so that only the rest of the contract is tested.
	NoWorkers bool
}

// dirVariable names the directory in which a worker records that it is alive, and finds its orders.
const dirVariable = "DRIVERTEST_DIR"

// Main is the program of the workers: it does not return if the environment marks this process as one. It
// writes its environment to a file named by its id, and removes the file when it ends: on SIGTERM, unless
// there is a file named stay; immediately and without removing it if there is one named crash.
func Main() {
	dir := os.Getenv(dirVariable)
	if dir == "" {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	mine := filepath.Join(dir, os.Getenv("WORKER_ID"))
	env, err := json.Marshal(os.Environ())
	if err == nil {
		err = os.WriteFile(mine+".part", env, 0o644)
	}
	if err == nil {
		err = os.Rename(mine+".part", mine)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("worker for", os.Getenv("WORKER_KEY"))
	ordered := func(what string) bool { _, err := os.Stat(filepath.Join(dir, what)); return err == nil }
	if ordered("crash") {
		os.Exit(3)
	}
	<-signals
	for ordered("stay") {
		time.Sleep(5 * time.Millisecond)
	}
	_ = os.Remove(mine)
	os.Exit(0)
}

// bench is a driver and the directory of its workers.
type bench struct {
	t   *testing.T
	d   driver.Driver
	dir string
}

// patience bounds waits, so that a hang fails with a message. Nothing is judged by it.
const patience = 2 * time.Minute

func (h Harness) newWorkerBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	b.d = h.New(t, map[string]string{dirVariable: b.dir})
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(b.dir, "stay"))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.d.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if left := b.aliveWorkers(); len(left) > 0 && !h.NoWorkers && !b.wasOrdered("crash") {
			t.Errorf("workers %q outlive their driver, or were killed though they would have ended", left)
		}
	})
	return b
}

func (b *bench) orderWorkers(what string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, what), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) wasOrdered(what string) bool {
	_, err := os.Stat(filepath.Join(b.dir, what))
	return err == nil
}

// aliveWorkers returns the ids of workers that have started and not ended gracefully.
func (b *bench) aliveWorkers() []string {
	b.t.Helper()
	names, err := os.ReadDir(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	var ids []string
	for _, n := range names {
		if name := n.Name(); name != "stay" && name != "crash" && !strings.HasSuffix(name, ".part") {
			ids = append(ids, name)
		}
	}
	return ids
}

// environmentOf returns the environment of a worker.
func (b *bench) environmentOf(id string) map[string]string {
	b.t.Helper()
	var list []string
	body, err := os.ReadFile(filepath.Join(b.dir, id))
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	env := map[string]string{}
	for _, pair := range list {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}

func (b *bench) mustEnsure(key string, workers int) {
	b.t.Helper()
	g := driver.Group{Key: key, Workers: workers, Vars: map[string]string{"WORKER_KEY": key, "WORKER_POOL": "p"}}
	if err := b.d.Ensure(b.t.Context(), g); err != nil {
		b.t.Fatalf("ensure %d workers of %q: %v", workers, key, err)
	}
}

func (b *bench) drainKey(key string) {
	b.t.Helper()
	if err := b.d.Drain(b.t.Context(), key); err != nil {
		b.t.Fatalf("drain %q: %v", key, err)
	}
}

func (b *bench) listWorkers() []driver.Worker {
	b.t.Helper()
	list, err := b.d.List(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// waitUntilWorkers waits until the workers of the driver match a condition, and all that run, or are yet to
// be started, have recorded that they are alive.
func (b *bench) waitUntilWorkers(what string, holds func(workers []driver.Worker) bool) []driver.Worker {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		list := b.listWorkers()
		alive := b.aliveWorkers()
		up := !slices.ContainsFunc(list, func(w driver.Worker) bool {
			starts := w.State == driver.Running || w.State == driver.Waiting && w.Starts == 0
			return starts && !slices.Contains(alive, w.ID)
		})
		if up && holds(list) {
			return list
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("workers are %+v, and not: %s; alive are %q", list, what, alive)
		}
		select {
		case <-tick.C:
		case <-b.d.Changed():
		}
	}
}

// countRunning returns how many workers of a key run, and how many drain.
func countRunning(workers []driver.Worker, key string) (run, drain int) {
	for _, w := range workers {
		switch {
		case w.Key != key:
		case w.State == driver.Draining:
			drain++
		default:
			run++
		}
	}
	return run, drain
}

func wantWorkers(key string, run, drain int) (string, func([]driver.Worker) bool) {
	return fmt.Sprintf("%d run and %d drain of %q", run, drain, key), func(workers []driver.Worker) bool {
		r, d := countRunning(workers, key)
		return r == run && d == drain
	}
}

// Run tests a driver against the contract.
func Run(t *testing.T, h Harness) {
	cases := map[string]func(*testing.T, Harness){
		"CallsAreIdempotent": callsAreIdempotent, "NothingToDrain": nothingToDrain, "KeysAreKept": keysAreKept,
		"NumbersAreKept":      numbersAreKept,
		"DrainLetsThemFinish": drainLetsThemFinish, "FreshNextToDraining": freshNextToDraining,
		"StubbornAreKilled": stubbornAreKilled,
		"CrashesAreBounded": crashesAreBounded, "ReleaseIsHarmless": releaseIsHarmless,
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if h.NoWorkers && name != "CallsAreIdempotent" && name != "NothingToDrain" && name != "ReleaseIsHarmless" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases[name](t, h)
		})
	}
}
