package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// cases run on any engine.
var cases = map[string]func(*testing.T, place){
	"Contract": testContract, "WorkersOutliveTheirManager": outlive, "WhoDrainsIsStillKilled": drainsOn, "InstancesAndPoolsAreApart": apart,
	"ChangedSpecReplaces": changedSpec, "EndedAreAdopted": endedAreAdopted, "ForsakenAreRemoved": forsakenAreRemoved, "RemovedByHand": removedByHand,
	"WhatCannotStart": cannotStart, "ReleaseLetsGo": releaseLetsGo, "CloseWaits": closeWaits, "SettingsArrive": settingsArrive, "NoImage": noImage,
	"OneKeyAtATime": oneReplacement, "HalfReplaced": halfReplaced, "NeverStarted": neverStarted,
	"PausesAreReset": pausesAreReset,
}

func runCases(t *testing.T, p place) {
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases[name](t, p)
		})
	}
}

// crash ends a driver like the end of its process.
func crash(t *testing.T, d *Driver) {
	t.Helper()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.life.Wait()
	if err := d.engine.closeClient(); err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func group(key string, workers int) driver.Group {
	return driver.Group{Key: key, Workers: workers, Vars: map[string]string{"WORKER_KEY": key}}
}

func ids(list []driver.Worker) []string {
	var ids []string
	for _, w := range list {
		ids = append(ids, w.ID)
	}
	slices.Sort(ids)
	return ids
}

func none(list []driver.Worker) bool { return len(list) == 0 }

// containers returns all containers of a pool, in any state.
func containers(t *testing.T, d *Driver) []box {
	t.Helper()
	boxes, err := d.listBoxes(t.Context(), nil)
	must(t, err)
	return boxes
}

// untilGone waits until a pool has no containers, not even stopped ones.
func untilGone(t *testing.T, d *Driver) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		left := containers(t, d)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left over are %+v", left)
		}
	}
}

func outlive(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 2)))
	before := until(t, first, "they run", second(runs(2, w)))
	must(t, first.Close(t.Context()))
	if _, err := first.List(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("after its end it lists, with the error %v", err)
	}
	next := open(t, c)
	must(t, next.Ensure(t.Context(), group("k", 2)))
	if after := until(t, next, "they run", second(runs(2, w))); !slices.Equal(ids(before), ids(after)) {
		t.Errorf("the next manager has %q instead of %q", ids(after), ids(before))
	}
	must(t, next.Drain(t.Context(), "k"))
	until(t, next, "there are none", none)
	untilGone(t, next)
	if w.alive(before[0].ID) || w.alive(before[1].ID) {
		t.Error("they had no time to end")
	}
}

func second[A, B any](_ A, b B) B { return b }

func drainsOn(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 1)))
	one := until(t, first, "it runs", second(runs(1, w)))[0]
	must(t, os.WriteFile(filepath.Join(w.dir, "stay"), nil, 0o644))
	must(t, first.Drain(t.Context(), "k"))
	crash(t, first)
	next := open(t, c)
	list, err := next.List(t.Context())
	if must(t, err); len(list) != 1 || list[0].ID != one.ID || list[0].State != driver.Draining {
		t.Errorf("the next manager has %+v", list)
	}
	until(t, next, "it is killed", none)
	untilGone(t, next)
	if !w.alive(one.ID) {
		t.Error("it has ended by itself")
	}
}

func apart(t *testing.T, p place) {
	a := p.config(t)
	w := newRecords(t, &a)
	b, other := a, a
	b.Instance += ".b"
	other.Pool = "p-k"
	drivers := []*Driver{open(t, a), open(t, b), open(t, other)}
	for _, d := range drivers {
		must(t, d.Ensure(t.Context(), group("k", 1)))
		until(t, d, "it runs", second(runs(1, w)))
	}
	must(t, drivers[0].Drain(t.Context(), "k"))
	until(t, drivers[0], "there are none", none)
	must(t, drivers[0].Release(t.Context()))
	for _, d := range drivers[1:] {
		until(t, d, "it runs", second(runs(1, w)))
	}
}

func changedSpec(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 1)))
	old := until(t, first, "it runs", second(runs(1, w)))[0]
	must(t, os.WriteFile(filepath.Join(w.dir, "stay"), nil, 0o644))
	must(t, first.Close(t.Context()))
	c.Env = maps.Clone(c.Env)
	c.Env["NEW"] = "1"
	next := open(t, c)
	must(t, next.Ensure(t.Context(), group("k", 1)))
	list := until(t, next, "one runs and one drains", func(list []driver.Worker) bool { return len(list) == 2 && w.alive(list[0].ID) && w.alive(list[1].ID) })
	for _, one := range list {
		if (one.ID == old.ID) != (one.State == driver.Draining) || one.ID != old.ID && one.State != driver.Running {
			t.Errorf("after a change there is %+v; the old one was %s", one, old.ID)
		}
	}
	must(t, os.Remove(filepath.Join(w.dir, "stay")))
	fresh := until(t, next, "one runs", second(runs(1, w)))[0]
	changed := group("k", 1)
	changed.Vars["WORKER_AMQP_URI"] = "elsewhere"
	must(t, next.Ensure(t.Context(), changed))
	if again := until(t, next, "one runs", second(runs(1, w)))[0]; again.ID == fresh.ID {
		t.Error("other variables of the group do not replace its worker")
	}
}

// endedAreAdopted checks that a worker that ended while there was no manager is restarted in the same slot.
func endedAreAdopted(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 1)))
	old := until(t, first, "it runs", second(runs(1, w)))[0]
	crash(t, first)
	endAll(t, p, first)
	next := open(t, c)
	list, err := next.List(t.Context())
	if must(t, err); len(list) > 0 {
		t.Errorf("before it is asked for anything, it has %+v", list)
	}
	must(t, next.Ensure(t.Context(), group("k", 1)))
	again := until(t, next, "it runs", second(runs(1, w)))[0]
	if again.ID == old.ID || again.Starts != 2 || again.LastExit != "exit status 137" {
		t.Errorf("of %+v came %+v", old, again)
	}
}

// endAll kills all containers of a pool, and waits until they have ended.
func endAll(t *testing.T, p place, d *Driver) {
	t.Helper()
	p.call(t, func(ctx context.Context, e *engine) error {
		list, err := e.api.ContainerList(ctx, client.ContainerListOptions{Filters: d.poolFilter()})
		for _, s := range list.Items {
			wait := e.api.ContainerWait(ctx, s.ID, client.ContainerWaitOptions{})
			_, failed := e.api.ContainerKill(ctx, s.ID, client.ContainerKillOptions{})
			err = errors.Join(err, failed)
			select {
			case <-wait.Result:
			case failed := <-wait.Error:
				err = errors.Join(err, failed)
			}
		}
		return err
	})
}

func forsakenAreRemoved(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 1)))
	until(t, first, "it runs", second(runs(1, w)))
	crash(t, first)
	endAll(t, p, first)
	next := open(t, c)
	next.forsaken = time.Second
	must(t, next.Ensure(t.Context(), group("other", 1)))
	until(t, next, "only the other one is left", func(list []driver.Worker) bool {
		boxes := containers(t, next)
		return len(boxes) == 1 && boxes[0].key == "other"
	})
}

func removedByHand(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	d := open(t, c)
	must(t, d.Ensure(t.Context(), group("k", 1)))
	one := until(t, d, "it runs", second(runs(1, w)))[0]
	box := containers(t, d)[0]
	p.call(t, func(ctx context.Context, e *engine) error {
		_, err := e.api.ContainerRemove(ctx, box.id, client.ContainerRemoveOptions{Force: true})
		return err
	})
	// The engine reports the end of a container before it is removed, so it may have been restarted by now.
	until(t, d, "it is gone", func(list []driver.Worker) bool { return !slices.Contains(ids(list), one.ID) })
	must(t, d.Ensure(t.Context(), group("k", 1)))
	until(t, d, "another one runs", second(runs(1, w)))
}

// cannotStart checks that workers that cannot start are retried with a growing backoff, and leave nothing
// behind.
func cannotStart(t *testing.T, p place) {
	c := p.config(t)
	c.Entrypoint = []string{"/no/such/program"}
	d := open(t, c)
	must(t, d.Ensure(t.Context(), group("k", 2)))
	list := until(t, d, "they were tried twice", func(list []driver.Worker) bool {
		return len(list) == 2 && list[0].Starts > 1 && list[1].Starts > 1 && list[0].LastExit != "" && list[1].LastExit != ""
	})
	for _, w := range list {
		if w.State != driver.Waiting || !strings.Contains(w.LastExit, "cannot be started") || !strings.Contains(w.LastExit, "no such file") {
			t.Errorf("there is %+v", w)
		}
	}
	must(t, d.Drain(t.Context(), "k"))
	untilGone(t, d)
}

func releaseLetsGo(t *testing.T, p place) {
	for _, shared := range []bool{false, true} {
		c := p.config(t)
		c.Shared = shared
		w := newRecords(t, &c)
		first := open(t, c)
		must(t, first.Ensure(t.Context(), group("k", 1)))
		until(t, first, "it runs", second(runs(1, w)))
		must(t, first.Close(t.Context()))
		d := open(t, c) // it has never led
		must(t, d.Release(t.Context()))
		boxes := containers(t, d)
		if shared && (len(boxes) != 1 || boxes[0].draining || boxes[0].hasStopped()) {
			t.Errorf("with others on its engine, it leaves %+v", boxes)
		}
		if shared {
			must(t, d.sweepContainers(t.Context()))
			if due, _ := d.agenda.takeDue(time.Now()); len(due) > 0 {
				t.Errorf("with others on its engine, it goes on to do %v", due)
			}
		}
		if !shared {
			untilGone(t, d)
			d.mu.Lock()
			if d.letGo {
				t.Error("it would release again, in spite of another manager with workers there")
			}
			d.mu.Unlock()
		}
	}
}

// closeWaits checks that Close waits for drained workers until its context ends, and kills them then.
func closeWaits(t *testing.T, p place) {
	c := p.config(t)
	c.Drain = time.Minute
	w := newRecords(t, &c)
	d := open(t, c)
	must(t, d.Ensure(t.Context(), group("k", 1)))
	until(t, d, "it runs", second(runs(1, w)))
	must(t, os.WriteFile(filepath.Join(w.dir, "stay"), nil, 0o644))
	must(t, d.Drain(t.Context(), "k"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	must(t, d.Close(ctx))
	if ctx.Err() == nil {
		t.Error("it has not waited")
	}
	if left := containers(t, open(t, c)); len(left) > 0 {
		t.Errorf("left over are %+v", left)
	}
}

func settingsArrive(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	c.User, c.Dir = "1:1", "/"
	c.Memory, c.CPUs, c.PidsLimit = 256<<20, 0.5, 100
	c.ExtraHosts, c.Labels = []string{"db:10.0.0.1"}, map[string]string{"team": "maps"}
	c.Mounts = append(c.Mounts, Mount{Type: "tmpfs", Target: "/scratch"}, Mount{Type: "bind", Source: "/etc", Target: "/machine", ReadOnly: true})
	c.ReadOnly, c.CapDrop, c.SecurityOpt = true, []string{"ALL"}, []string{"no-new-privileges"}
	c.LogDriver, c.LogOptions = "json-file", map[string]string{"max-size": "1m"}
	c.PassEnv = []string{"PASSED_TO_WORKERS", "NOT_SET_ANYWHERE"}
	must(t, os.Chmod(w.dir, 0o777))
	d := open(t, c)
	must(t, d.Ensure(t.Context(), group("naïve 日本", 1)))
	one := until(t, d, "it runs", second(runs(1, w)))[0]
	box := containers(t, d)[0]
	var is container.InspectResponse
	p.call(t, func(ctx context.Context, e *engine) error {
		answer, err := e.api.ContainerInspect(ctx, box.id, client.ContainerInspectOptions{})
		is = answer.Container
		return err
	})
	host, config := is.HostConfig, is.Config
	for what, pair := range map[string][2]any{
		"user": {config.User, "1:1"}, "memory": {host.Memory, int64(256 << 20)}, "cpus": {host.NanoCPUs, int64(5e8)}, "pids": {*host.PidsLimit, int64(100)},
		"extra hosts": {host.ExtraHosts, c.ExtraHosts}, "label": {config.Labels["team"], "maps"}, "read only": {host.ReadonlyRootfs, true},
		"security": {host.SecurityOpt, c.SecurityOpt}, "caps": {host.CapDrop, c.CapDrop}, "log": {host.LogConfig.Type, "json-file"}, "log options": {host.LogConfig.Config, c.LogOptions},
		"network": {string(host.NetworkMode), "none"}, "restarts": {host.RestartPolicy.Name, container.RestartPolicyDisabled},
		"read-only mount": {host.Mounts[2].ReadOnly, true}, "name": {is.Name, fmt.Sprintf("/%s-p-na_ve___-%s", c.Instance, strings.TrimPrefix(one.ID, "p-"))},
		"key": {config.Labels[labelKey], "na%C3%AFve%20%E6%97%A5%E6%9C%AC"}, "passed": {slices.Contains(config.Env, "PASSED_TO_WORKERS=yes"), true},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s is %v, not %v", what, pair[0], pair[1])
		}
	}
}

func noImage(t *testing.T, p place) {
	c := p.config(t)
	c.Image = "no-such-image:1"
	d := open(t, c)
	if err := d.Ensure(t.Context(), group("k", 1)); err == nil || !strings.Contains(err.Error(), "no-such-image:1") {
		t.Errorf("without its image the error is %v", err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("it lists %+v, %v", list, err)
	}
}

// oneReplacement checks that two managers that share an engine do not both replace a worker that ended.
func oneReplacement(t *testing.T, p place) {
	c := p.config(t)
	c.FirstPause = 300 * time.Millisecond
	w := newRecords(t, &c)
	drivers := []*Driver{open(t, c), open(t, c)}
	for _, d := range drivers {
		must(t, d.Ensure(t.Context(), group("k", 1)))
	}
	until(t, drivers[1], "it runs", second(runs(1, w)))
	endAll(t, p, drivers[0])
	for _, d := range drivers {
		list := until(t, d, "one runs again", func(list []driver.Worker) bool { return len(list) == 1 && list[0].Starts == 2 && w.alive(list[0].ID) })
		if boxes := containers(t, d); len(boxes) != 1 {
			t.Errorf("of %+v there are %+v", list, boxes)
		}
	}
}

// halfReplaced checks that one container is left of a worker whose manager ended during its replacement.
func halfReplaced(t *testing.T, p place) {
	c := p.config(t)
	w := newRecords(t, &c)
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 2)))
	until(t, first, "they run", second(runs(2, w)))
	crash(t, first)
	endAll(t, p, first)
	next := open(t, c)
	s, err := next.groupSpec(group("k", 2))
	must(t, err)
	must(t, next.startContainer(t.Context(), s, life{slot: containers(t, next)[0].life.slot, number: 2}, nil))
	must(t, next.Ensure(t.Context(), group("k", 2)))
	until(t, next, "two run, and nothing else is left", func(list []driver.Worker) bool {
		return second(runs(2, w))(list) && list[0].Starts == 2 && list[1].Starts == 2 && len(containers(t, next)) == 2
	})
}

// neverStarted checks that a container that was created but not started is left alone for a while, and then
// replaced.
func neverStarted(t *testing.T, p place) {
	for _, patience := range []time.Duration{time.Hour, time.Second} {
		c := p.config(t)
		w := newRecords(t, &c)
		d := open(t, c)
		d.config.CallTimeout = patience // not the case for the calls of the test
		s, err := d.groupSpec(group("k", 1))
		must(t, err)
		p.call(t, func(ctx context.Context, e *engine) error {
			_, err := e.api.ContainerCreate(ctx, d.createOptions(s, life{slot: newSlot(), number: 1}))
			return err
		})
		before := containers(t, d)[0]
		must(t, d.Ensure(t.Context(), group("k", 1)))
		if patience == time.Hour {
			if _, over := d.knownEnd(before.id); over || len(containers(t, d)) != 1 {
				t.Errorf("a container that another manager may be about to start counts as ended; there are %+v", containers(t, d))
			}
			continue
		}
		if one := until(t, d, "it runs", second(runs(1, w)))[0]; one.Starts != 2 {
			t.Errorf("of %+v came %+v", before, one)
		}
	}
}

// pausesAreReset checks that Retry starts a waiting worker, even if its backoff began under an earlier
// manager.
func pausesAreReset(t *testing.T, p place) {
	c := p.config(t)
	c.FirstPause, c.LongestPause = time.Hour, 24*time.Hour
	w := newRecords(t, &c)
	waits := func(list []driver.Worker) bool { return len(list) == 1 && list[0].State == driver.Waiting }
	first := open(t, c)
	must(t, first.Ensure(t.Context(), group("k", 1)))
	until(t, first, "it runs", second(runs(1, w)))
	endAll(t, p, first)
	until(t, first, "it waits", waits)
	first.Retry()
	if again := until(t, first, "it runs again", second(runs(1, w)))[0]; again.Starts != 2 {
		t.Errorf("it runs as %+v", again)
	}

	crash(t, first)
	endAll(t, p, first)
	next := open(t, c)
	must(t, next.Ensure(t.Context(), group("k", 1)))
	until(t, next, "it waits", waits)
	next.Retry()
	if again := until(t, next, "it runs again", second(runs(1, w)))[0]; again.Starts != 3 {
		t.Errorf("it runs as %+v", again)
	}
}
