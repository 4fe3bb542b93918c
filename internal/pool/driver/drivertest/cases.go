package drivertest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

func callsAreIdempotent(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	for range 3 {
		b.mustEnsure("k", 2)
	}
	if h.NoWorkers {
		if list := b.listWorkers(); len(list) > 0 {
			t.Errorf("it lists %v", list)
		}
		b.drainKey("k")
		return
	}
	first := b.waitUntilWorkers(wantWorkers("k", 2, 0))
	b.mustEnsure("k", 2)
	again := b.waitUntilWorkers(wantWorkers("k", 2, 0))
	ids := func(list []driver.Worker) []string {
		var ids []string
		for _, w := range list {
			ids = append(ids, w.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if !slices.Equal(ids(first), ids(again)) || ids(first)[0] == ids(first)[1] {
		t.Errorf("workers are %q and then %q", ids(first), ids(again))
	}
	for range 3 {
		b.drainKey("k")
	}
	b.waitUntilWorkers(wantWorkers("k", 0, 0))
}

func nothingToDrain(t *testing.T, h Harness) { h.newWorkerBench(t).drainKey("without workers") }

// hostileKeys break careless names, paths, shells and lists of variables.
var hostileKeys = []string{"", "../../x", "%41", "A", "a\nWORKER_ID=x", "$(touch hacked)", "'; exit 1; '", "naïve 日本",
	"*", "-rf", strings.Repeat("k", 255)}

func keysAreKept(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	for _, key := range hostileKeys {
		b.mustEnsure(key, 1)
	}
	list := b.waitUntilWorkers("one of each key runs",
		func(workers []driver.Worker) bool { return len(workers) == len(hostileKeys) })
	seen := map[string]bool{}
	for _, w := range list {
		env := b.environmentOf(w.ID)
		if env["WORKER_KEY"] != w.Key || env["WORKER_ID"] != w.ID || env["WORKER_POOL"] != "p" {
			t.Errorf("the worker %s of %q sees WORKER_KEY=%q WORKER_ID=%q WORKER_POOL=%q", w.ID, w.Key, env["WORKER_KEY"],
				env["WORKER_ID"], env["WORKER_POOL"])
		}
		seen[w.Key] = true
	}
	for _, key := range hostileKeys {
		if !seen[key] {
			t.Errorf("there is no worker of %q", key)
		}
	}
	b.mustEnsure("a\x00b", 1) // it may start one without the key, or fail; it must not use another key
	b.drainKey("a\x00b")
	b.drainKey("%41")
	b.waitUntilWorkers(wantWorkers("%41", 0, 0))
	if run, _ := countRunning(b.listWorkers(), "A"); run != 1 {
		t.Error("the worker of A went with that of %41")
	}
}

func numbersAreKept(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	for _, n := range []int{3, 1, 2} {
		b.mustEnsure("k", n)
		b.waitUntilWorkers(wantWorkers("k", n, 0))
	}
}

func drainLetsThemFinish(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	b.mustEnsure("k", 1)
	b.waitUntilWorkers(wantWorkers("k", 1, 0))
	b.orderWorkers("stay")
	b.drainKey("k")
	b.waitUntilWorkers(wantWorkers("k", 0, 1))
	if err := os.Remove(filepath.Join(b.dir, "stay")); err != nil {
		t.Fatal(err)
	}
	b.waitUntilWorkers(wantWorkers("k", 0, 0))
	if left := b.aliveWorkers(); len(left) > 0 {
		t.Errorf("the worker could not finish: %q", left)
	}
}

func freshNextToDraining(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	b.mustEnsure("k", 1)
	old := b.waitUntilWorkers(wantWorkers("k", 1, 0))[0]
	b.orderWorkers("stay")
	b.drainKey("k")
	b.mustEnsure("k", 1)
	for _, w := range b.waitUntilWorkers(wantWorkers("k", 1, 1)) {
		if (w.ID == old.ID) != (w.State == driver.Draining) {
			t.Errorf("after %s drains there is %+v", old.ID, w)
		}
	}
	if err := os.Remove(filepath.Join(b.dir, "stay")); err != nil {
		t.Fatal(err)
	}
	b.waitUntilWorkers(wantWorkers("k", 1, 0))
}

func stubbornAreKilled(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	b.mustEnsure("k", 1)
	w := b.waitUntilWorkers(wantWorkers("k", 1, 0))[0]
	b.orderWorkers("stay")
	began := time.Now()
	b.drainKey("k")
	b.waitUntilWorkers(wantWorkers("k", 0, 0))
	if took := time.Since(began); took < h.Drain {
		t.Errorf("it was killed after %v, before the %v that it has to finish", took, h.Drain)
	}
	if left := b.aliveWorkers(); !slices.Equal(left, []string{w.ID}) {
		t.Errorf("it ended by itself: %q", left)
	}
	_ = os.Remove(filepath.Join(b.dir, w.ID))
}

// crashesAreBounded checks that a worker that ends by itself is restarted with a growing backoff.
func crashesAreBounded(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	b.orderWorkers("crash")
	b.mustEnsure("k", 1)
	list := b.waitUntilWorkers("it was started three times",
		func(workers []driver.Worker) bool { return len(workers) == 1 && workers[0].Starts >= 3 })
	if list[0].LastExit == "" {
		t.Errorf("there is no reason for its end: %+v", list[0])
	}
	b.drainKey("k")
	b.waitUntilWorkers(wantWorkers("k", 0, 0))
	if boots := len(b.aliveWorkers()); boots < 3 || boots > 6 {
		t.Errorf("it was started %d times", boots)
	}
}

func releaseIsHarmless(t *testing.T, h Harness) {
	b := h.newWorkerBench(t)
	b.mustEnsure("k", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.d.Release(ctx); err != nil {
		t.Error(err)
	}
	b.mustEnsure("k", 1) // as after a change of the leader
	if !h.NoWorkers {
		b.waitUntilWorkers(wantWorkers("k", 1, 0))
	}
}
