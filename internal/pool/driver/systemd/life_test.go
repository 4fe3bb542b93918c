//go:build linux

package systemd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// harness is a systemd with a template of workers.
type harness struct {
	*instance
	orders string // where workers record that they are alive, and find their orders
	config Config
}

// newHarness starts a systemd. Further lines are added to the [Service] section of its template.
func newHarness(t *testing.T, more ...string) *harness {
	t.Helper()
	i := newInstance(t)
	h := &harness{instance: i, orders: t.TempDir()}
	h.config = i.config(i.private(), i.template(map[string]string{"DRIVERTEST_DIR": h.orders, "GORACE": "atexit_sleep_ms=0"}, more...))
	return h
}

// open returns a driver, which is closed at the end of the test.
func (h *harness) open() *Driver {
	h.t.Helper()
	d := open(h.t, h.config)
	h.t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			h.t.Error(err)
		}
	})
	return d
}

func (h *harness) order(what string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.orders, what), nil, 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) revoke(what string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.orders, what)); err != nil {
		h.t.Fatal(err)
	}
}

// saw returns the environment of a worker.
func (h *harness) saw(id string) []string {
	h.t.Helper()
	var env []string
	body, err := os.ReadFile(filepath.Join(h.orders, id))
	if err == nil {
		err = json.Unmarshal(body, &env)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return env
}

// unit returns the name of the unit of a worker.
func (h *harness) unit(w driver.Worker) string {
	instance, _, _ := strings.Cut(w.ID, ".")
	return strings.Replace(h.config.Unit, "@", "@"+instance, 1)
}

func group(key string, workers int) driver.Group {
	return driver.Group{Key: key, Workers: workers, Vars: map[string]string{"WORKER_KEY": key, "WORKER_POOL": "p"}}
}

func ensure(t *testing.T, d *Driver, key string, workers int) {
	t.Helper()
	if err := d.Ensure(t.Context(), group(key, workers)); err != nil {
		t.Fatal(err)
	}
}

func drain(t *testing.T, d *Driver, key string) {
	t.Helper()
	if err := d.Drain(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// until waits until the list of a driver matches a condition.
func until(t *testing.T, d *Driver, what string, holds func([]driver.Worker) bool) []driver.Worker {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; {
		list, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if holds(list) {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("workers are %+v, and not: %s", list, what)
		}
		select {
		case <-tick.C:
		case <-d.Changed():
		}
	}
}

// states returns a condition: workers are in these states, in any order.
func states(want ...driver.State) (string, func([]driver.Worker) bool) {
	slices.Sort(want)
	words := []string{}
	for _, s := range want {
		words = append(words, string(s))
	}
	return "they are " + strings.Join(words, ", "), func(list []driver.Worker) bool {
		var have []driver.State
		for _, w := range list {
			have = append(have, w.State)
			if w.State == driver.Running && !strings.Contains(w.ID, ".") {
				return false // systemd is about to start it
			}
		}
		slices.Sort(have)
		return slices.Equal(have, want)
	}
}

func one(what string, holds func(driver.Worker) bool) (string, func([]driver.Worker) bool) {
	return what, func(list []driver.Worker) bool { return len(list) == 1 && holds(list[0]) }
}

// TestWorkersOutliveTheirManager checks that workers continue without a driver, and that the next driver
// knows them and their variables.
func TestWorkersOutliveTheirManager(t *testing.T) {
	h := newHarness(t)
	first := open(t, h.config)
	ensure(t, first, "stays", 2)
	ensure(t, first, "goes", 1)
	until(t, first, "three run", func(list []driver.Worker) bool {
		_, holds := states("running", "running", "running")
		return holds(list) && h.live(list)
	})
	h.order("stay")
	drain(t, first, "goes")
	before := until(t, first, "one drains", func(list []driver.Worker) bool {
		_, holds := states("running", "running", "draining")
		return holds(list)
	})
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	second := h.open()
	after := until(t, second, "it is as before", func(list []driver.Worker) bool { return len(list) == 3 })
	for i := range before {
		a, b := before[i], after[i]
		if a.ID != b.ID || a.Key != b.Key || a.State != b.State || !a.Since.Equal(b.Since) || b.Starts != 1 {
			t.Errorf("%+v has become %+v", a, b)
		}
	}
	ensure(t, second, "stays", 2)
	h.revoke("stay")
	if list := until(t, second, "the one that was asked to has ended", func(list []driver.Worker) bool { return len(list) == 2 }); list[0].ID != before[0].ID && list[0].ID != before[1].ID {
		t.Errorf("others have taken the place of %v: %v", before, list)
	}
	drain(t, second, "stays")
	until(t, second, "all have ended", func(list []driver.Worker) bool { return len(list) == 0 })
	poll.Until(t, "nothing is written down any more", func() bool { return len(h.files()) == 0 })
}

// live reports whether all workers of a list have come up.
func (h *harness) live(list []driver.Worker) bool {
	return !slices.ContainsFunc(list, func(w driver.Worker) bool { _, err := os.Stat(filepath.Join(h.orders, w.ID)); return err != nil })
}

// files returns the names of the files of workers.
func (h *harness) files() []string {
	h.t.Helper()
	there, err := os.ReadDir(h.config.Dir)
	if err != nil {
		h.t.Fatal(err)
	}
	var list []string
	for _, e := range there {
		if !strings.HasSuffix(e.Name(), ".lock") {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestWhatEndsInBetweenComesBack checks that a worker that ended for good while there was no driver is
// started by the next one.
func TestWhatEndsInBetweenComesBack(t *testing.T) {
	h := newHarness(t, "Restart=no")
	first := open(t, h.config)
	ensure(t, first, "k", 1)
	w := until(t, first, "it runs", func(list []driver.Worker) bool { _, holds := states("running"); return holds(list) && h.live(list) })[0]
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.systemctl("kill", "-s", "KILL", h.unit(w))
	poll.Until(t, "it has failed", func() bool { return strings.Contains(h.systemctl("show", "-p", "ActiveState", h.unit(w)), "failed") })
	second := h.open()
	what, holds := one("it runs again", func(n driver.Worker) bool {
		return n.State == driver.Running && n.ID != w.ID && n.LastExit == "signal: killed"
	})
	until(t, second, what, holds)
}

// TestPeopleStopAWorker checks that a worker that is stopped by hand is replaced immediately, even if it
// takes its time to end, and that workers can be killed by hand.
func TestPeopleStopAWorker(t *testing.T) {
	h := newHarness(t)
	d := h.open()
	ensure(t, d, "k", 1)
	w := until(t, d, "it runs", func(list []driver.Worker) bool { _, holds := states("running"); return holds(list) && h.live(list) })[0]
	h.order("stay")
	h.systemctl("stop", "--no-block", h.unit(w))
	what, holds := states("draining")
	until(t, d, what, holds)
	ensure(t, d, "k", 1)
	what, holds = states("draining", "running")
	until(t, d, what, holds)
	h.revoke("stay")
	what, holds = states("running")
	w = until(t, d, what, holds)[0]
	h.systemctl("kill", "-s", "KILL", h.unit(w))
	what, holds = one("it is back", func(n driver.Worker) bool { return n.State == driver.Running && n.Starts == 2 && n.ID != w.ID })
	until(t, d, what, holds)
}

// TestPausesGrow checks that a worker that systemd no longer restarts is started again with a doubling
// backoff, whatever the unit's start limit, and also if it exits with status 0.
func TestPausesGrow(t *testing.T) {
	for name, more := range map[string]string{"TooOften": "", "Never": "Restart=no", "InGoodOrder": "ExecStart=\nExecStart=/bin/true", "CannotStart": "ExecStart=\nExecStart=/no/such/program"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, more)
			h.order("crash")
			d := h.open()
			ensure(t, d, "k", 1)
			what, holds := one("it was started again and again", func(w driver.Worker) bool { return w.Starts >= 6 && w.LastExit != "" })
			until(t, d, what, holds)
			failures := 0
			if err := d.withTurn(t.Context(), func() error { failures = d.lives["p-k-1"].failures; return nil }); err != nil {
				t.Fatal(err)
			}
			if failures < 2 {
				t.Errorf("the pauses do not grow: %d failures", failures)
			}
			drain(t, d, "k")
			until(t, d, "it has ended", func(list []driver.Worker) bool { return len(list) == 0 })
			poll.Until(t, "systemd knows nothing of it any more", func() bool {
				return len(h.files()) == 0 && !strings.Contains(h.systemctl("list-units", "--all", "--failed"), "p-k-1")
			})
		})
	}
}

// TestForeignUnits checks that units of the same template that the driver has not started are left alone, and
// do not conflict with its own.
func TestForeignUnits(t *testing.T) {
	h := newHarness(t)
	prefix, _, _ := strings.Cut(h.config.Unit, "@")
	if err := os.MkdirAll(h.config.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := []string{"p-k-1", "other", "p-k", "p2-k-1", "p-z-9"}
	for i, instance := range foreign {
		body := []string{"A=b\n", "", header + "p/other\n", header + "p2/k\n", header + "p/_zz\n"}[i]
		if err := os.WriteFile(filepath.Join(h.config.Dir, instance+".env"), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		h.systemctl("start", prefix+"@"+instance+".service")
	}
	d := h.open()
	if list, err := d.List(t.Context()); len(list) > 0 || err != nil {
		t.Errorf("it lists %v, %v", list, err)
	}
	ensure(t, d, "k", 1)
	what, holds := one("there is one with another number", func(w driver.Worker) bool { return strings.HasPrefix(w.ID, "p-k-2.") })
	until(t, d, what, holds)
	drain(t, d, "k")
	drain(t, d, "z")
	until(t, d, "it has ended", func(list []driver.Worker) bool { return len(list) == 0 })
	if err := d.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for _, instance := range foreign {
		if got := h.systemctl("is-active", prefix+"@"+instance+".service"); got != "active\n" {
			t.Errorf("%s is %s", instance, got)
		}
	}
}

// TestRelease checks that workers are drained when another process leads, unless that process is on this
// machine and manages them.
func TestRelease(t *testing.T) {
	h := newHarness(t)
	leader, other := h.open(), h.open()
	ensure(t, leader, "k", 2)
	what, holds := states("running", "running")
	until(t, leader, what, holds)
	if err := other.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := leader.List(t.Context()); err != nil || !holds(list) {
		t.Errorf("the standby has let the workers of the leader go: %v, %v", list, err)
	}
	if err := leader.Release(t.Context()); err != nil {
		t.Error(err)
	}
	poll.Until(t, "all have ended, and nothing is left of them", func() bool { return len(h.files()) == 0 })
	ensure(t, other, "k", 1) // as the new leader
	what, holds = states("running")
	until(t, other, what, holds)
}

// TestOtherVariables checks that a worker with outdated variables is replaced, and finishes its requests.
func TestOtherVariables(t *testing.T) {
	h := newHarness(t)
	first := open(t, h.config)
	ensure(t, first, "k", 1)
	what, holds := states("running")
	old := until(t, first, what, func(list []driver.Worker) bool { return holds(list) && h.live(list) })[0]
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.order("stay")
	second := h.open()
	g := group("k", 1)
	g.Vars["WORKER_AMQP_URI"] = "amqp://elsewhere"
	for range 2 {
		if err := second.Ensure(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	what, both := states("running", "draining")
	for _, w := range until(t, second, what, func(list []driver.Worker) bool { return both(list) && h.live(list) }) {
		if (w.ID == old.ID) != (w.State == driver.Draining) {
			t.Errorf("there is %+v", w)
		}
		if w.ID != old.ID && !slices.Contains(h.saw(w.ID), "WORKER_AMQP_URI=amqp://elsewhere") {
			t.Errorf("the new one sees %q", h.saw(w.ID))
		}
	}
	h.revoke("stay")
	until(t, second, what, holds)
}

// TestValuesArrive checks that workers see variables unchanged, whatever they contain.
func TestValuesArrive(t *testing.T) {
	h := newHarness(t)
	d := h.open()
	var all strings.Builder
	for c := range 0x7f {
		all.WriteByte(byte(c + 1))
	}
	values := map[string]string{"ALL": all.String(), "TEXT": "\n  naïve 日本 \\\n$HOME ${HOME} $(id) `id` %i %% ' \" # ; \r\n\\", "EMPTY": "", "LONG": strings.Repeat("x \"", 30_000), "LAST": "\\"}
	g := group("k", 1)
	for name, value := range values {
		g.Vars[name] = value
	}
	if err := d.Ensure(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	what, holds := states("running")
	w := until(t, d, what, func(list []driver.Worker) bool { return holds(list) && h.live(list) })[0]
	env := h.saw(w.ID)
	for name, value := range values {
		if !slices.Contains(env, name+"="+value) {
			t.Errorf("%s is not %.200q", name, value)
		}
	}
}

// TestDocumentedTemplate checks that the documented template works with the documented defaults.
func TestDocumentedTemplate(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/pools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```ini\n# /etc/systemd/system/core-worker@.service\n")
	text, _, found := strings.Cut(text, "```")
	if !found || !strings.Contains(text, "/usr/local/bin/core-worker") {
		t.Fatal("there is no template in the documentation")
	}
	h := newHarness(t)
	h.write("core-worker@.service", strings.Replace(text, "/usr/local/bin/core-worker", os.Args[0], 1)+"Environment=DRIVERTEST_DIR="+h.orders+"\n")
	t.Setenv("XDG_RUNTIME_DIR", h.dir)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	h.config = Config{Pool: "core", Unit: "core-worker@.service", Bus: User, Log: h.config.Log}
	d := h.open()
	ensure(t, d, "42", 1)
	what, holds := one("it runs, with its name", func(w driver.Worker) bool {
		return w.State == driver.Running && strings.HasPrefix(w.ID, "core-42-1.") && h.live([]driver.Worker{w})
	})
	w := until(t, d, what, holds)[0]
	if _, err := os.Stat(filepath.Join(h.dir, "rouse/core-worker/core-42-1.env")); err != nil {
		t.Error(err)
	}
	h.systemctl("kill", "-s", "KILL", h.unit(w))
	what, holds = one("it runs again, with another name", func(n driver.Worker) bool {
		return n.State == driver.Running && n.ID != w.ID && h.live([]driver.Worker{n})
	})
	until(t, d, what, holds)
	drain(t, d, "42")
	until(t, d, "it has ended", func(list []driver.Worker) bool { return len(list) == 0 })
}
