package docker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestEngineThatDoesNotRun checks that a driver can be made without a running engine, and that calls report
// the problem.
func TestEngineThatDoesNotRun(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "no.sock")
	d := unattended(t, place{host: "unix://" + socket, image: imageOfTests}.config(t))
	for what, err := range map[string]error{"ensure": d.Ensure(t.Context(), group("k", 1)), "drain": d.Drain(t.Context(), "k"),
		"list": second(d.List(t.Context())), "release": d.Release(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s returns %v", what, err)
		}
	}
}

// TestEngineThatHangs checks that calls time out if the engine accepts them and does not answer.
func TestEngineThatHangs(t *testing.T) {
	dir, err := os.MkdirTemp("", "rouse-hangs-")
	must(t, err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	defer l.Close()
	c := place{host: "unix://" + l.Addr().String(), image: imageOfTests}.config(t)
	c.CallTimeout = 50 * time.Millisecond
	d := unattended(t, c)
	for what, err := range map[string]error{"ensure": d.Ensure(t.Context(), group("k", 1)), "drain": d.Drain(t.Context(), "k"), "list": second(d.List(t.Context()))} {
		if err == nil || !strings.Contains(err.Error(), l.Addr().String()+" has not answered for") {
			t.Errorf("%s returns %v", what, err)
		}
	}
}

// unattended returns a driver without cleanup, for tests without containers.
func unattended(t *testing.T, c Config) *Driver {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	d, err := New(c)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestEngineComesBack checks that the driver continues after an outage of the engine, and receives events
// again.
func TestEngineComesBack(t *testing.T) {
	p, s := speak(t)
	c := p.config(t)
	w := newRecords(t, &c)
	d := open(t, c)
	must(t, d.Ensure(t.Context(), group("k", 1)))
	one := until(t, d, "it runs", second(runs(1, w)))[0]
	s.stop()
	if list, err := d.List(t.Context()); err == nil {
		t.Errorf("without its engine it lists %v", list)
	}
	s.mu.Lock()
	for _, b := range s.boxes {
		_ = b.cmd.Process.Kill() // no event reports its end
	}
	s.mu.Unlock()
	s.live.Wait()
	s.serve()
	next := strings.TrimSuffix(one.ID, "1") + "2"
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !w.alive(next); <-tick.C { // no call of List that would help the driver
		if time.Now().After(deadline) {
			t.Fatal("it does not run again")
		}
	}
	if again := until(t, d, "it runs again", second(runs(1, w)))[0]; again.ID != next || again.Starts != 2 {
		t.Errorf("of %+v came %+v", one, again)
	}
}

// TestReleaseIsMadeUpFor checks that workers that could not be released during an outage of the engine are
// released after it, but not if the manager leads again by then.
func TestReleaseIsMadeUpFor(t *testing.T) {
	for _, again := range []bool{false, true} {
		p, s := speak(t)
		c := p.config(t)
		w := newRecords(t, &c)
		d := open(t, c)
		must(t, d.Ensure(t.Context(), group("k", 1)))
		until(t, d, "it runs", second(runs(1, w)))
		s.stop()
		if err := d.Release(t.Context()); err == nil {
			t.Error("without its engine, Release reports success")
		}
		if again {
			_ = d.Ensure(t.Context(), group("k", 1)) // it cannot succeed yet
		}
		s.serve()
		if !again {
			untilGone(t, d)
			continue
		}
		must(t, d.sweepContainers(t.Context()))
		until(t, d, "it runs", second(runs(1, w)))
	}
}

// TestRealMachineIsSwitchedOff checks that workers are restarted after a restart of the engine's machine.
func TestRealMachineIsSwitchedOff(t *testing.T) {
	p, server := ownPlace(t)
	c := p.config(t)
	w := newRecords(t, &c)
	d := open(t, c)
	for _, key := range []string{"a", "b"} {
		must(t, d.Ensure(t.Context(), group(key, 1)))
	}
	before := until(t, d, "they run", second(runs(2, w)))
	server.Kill()
	if list, err := d.List(t.Context()); err == nil {
		t.Errorf("without its engine it lists %v", list)
	}
	server.Start()
	after := until(t, d, "they run again", second(runs(2, w)))
	for _, one := range after {
		if one.Starts != 2 || slices.Contains(ids(before), one.ID) {
			t.Errorf("there is %+v, and was %+v", one, before)
		}
	}
}

// TestPull checks that a missing image is pulled once for all keys, in the background, and that workers start
// after that.
func TestPull(t *testing.T) {
	p, s := speak(t)
	c := p.config(t)
	w := newRecords(t, &c)
	c.Image, c.Pull = "far", Missing
	s.registry["far"], s.held = nil, make(chan struct{})
	d := open(t, c)
	for _, key := range []string{"a", "b"} {
		must(t, d.Ensure(t.Context(), group(key, 1)))
	}
	list, err := d.List(t.Context())
	if must(t, err); len(list) != 2 || slices.ContainsFunc(list, func(w driver.Worker) bool { return w.State != driver.Waiting || w.LastExit != errPulling.Error() }) {
		t.Errorf("while the image is pulled, it lists %+v", list)
	}
	must(t, d.Drain(t.Context(), "b"))
	close(s.held)
	if list := until(t, d, "one runs", second(runs(1, w))); list[0].Key != "a" {
		t.Errorf("there is %+v", list)
	}
	if s.pulls != 1 {
		t.Errorf("it was pulled %d times", s.pulls)
	}
}

// TestPullThatFails checks that the reason is reported, that the pull is retried with a backoff, and that
// workers start when it succeeds.
func TestPullThatFails(t *testing.T) {
	p, s := speak(t)
	c := p.config(t)
	w := newRecords(t, &c)
	c.Image, c.Pull = "far", Missing
	s.registry["far"] = errors.New("the registry is on fire")
	d := open(t, c)
	fails := func() error {
		for {
			err := d.Ensure(t.Context(), group("k", 1))
			if err != nil {
				return err
			}
			<-d.Changed()
		}
	}
	for range 20 {
		if err := fails(); !strings.Contains(err.Error(), "on fire") || !strings.Contains(err.Error(), "far") {
			t.Errorf("the error is %v", err)
		}
	}
	s.mu.Lock()
	if s.pulls > 3 {
		t.Errorf("it was pulled %d times", s.pulls)
	}
	s.registry["far"] = nil
	s.mu.Unlock()
	d.image.mu.Lock()
	d.image.retry = time.Time{} // ends the backoff
	d.image.mu.Unlock()
	must(t, d.Ensure(t.Context(), group("k", 1)))
	until(t, d, "it runs", second(runs(1, w)))
}

// TestPullAlways checks that an existing image is pulled as well, but not for each key.
func TestPullAlways(t *testing.T) {
	p, s := speak(t)
	c := p.config(t)
	w := newRecords(t, &c)
	c.Pull = Always
	s.registry[imageOfTests] = nil
	d := open(t, c)
	for i := range 3 {
		must(t, d.Ensure(t.Context(), group(fmt.Sprint(i), 1)))
		until(t, d, "they run", second(runs(i+1, w)))
	}
	if s.pulls != 1 {
		t.Errorf("it was pulled %d times", s.pulls)
	}
}

// TestNetworks checks that a container is connected to all its networks.
func TestNetworks(t *testing.T) {
	p, s := speak(t)
	c := p.config(t)
	w := newRecords(t, &c)
	c.Networks = []string{"a", "b", "c"}
	d := open(t, c)
	must(t, d.Ensure(t.Context(), group("k", 1)))
	until(t, d, "it runs", second(runs(1, w)))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		if b.request.HostConfig.NetworkMode != "a" || !slices.Equal(b.networks, []string{"b", "c"}) {
			t.Errorf("it is in %s and %q", b.request.HostConfig.NetworkMode, b.networks)
		}
	}
}

// TestPausesGrow checks that the backoff of a worker that ends at once grows to its maximum, and is reset
// after a long run.
func TestPausesGrow(t *testing.T) {
	d := unattended(t, Config{Pool: "p", Instance: "i", Template: Template{Image: "w"}, Host: "unix:///nowhere", FirstPause: time.Second, LongestPause: 8 * time.Second})
	for failures, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 8 * time.Second, 1 << 30: 8 * time.Second} {
		for range 20 {
			if pause := d.restartPause(failures); pause < most/2 || pause > most {
				t.Errorf("after %d failures it waits for %v, not about %v", failures, pause, most)
			}
		}
	}
	short := d.recordEnd(&box{id: "a", life: life{failures: 3}}, time.Now(), time.Second, "")
	long := d.recordEnd(&box{id: "b", life: life{failures: 3}}, time.Now(), time.Minute, "")
	if short.failures != 4 || long.failures != 1 {
		t.Errorf("after a short life it has %d failures, after a long one %d", short.failures, long.failures)
	}
	d.Proved("k")
	if e := d.recordEnd(&box{id: "worked", key: "k", life: life{failures: 9}}, time.Now(), time.Second, ""); e.failures != 1 || time.Until(e.due) > time.Second {
		t.Errorf("after a short life in which it has worked it has %d failures, and waits for %v", e.failures, time.Until(e.due))
	}
	if e := d.recordEnd(&box{id: "again", key: "k", life: life{failures: 9}}, time.Now(), time.Second, ""); e.failures != 10 {
		t.Errorf("after a life in which it has not, it has %d failures", e.failures)
	}
	if e := d.recordEnd(&box{id: "c"}, time.Now().Add(time.Hour), 0, ""); time.Until(e.due) > time.Second {
		t.Errorf("with an engine whose clock is fast, it waits for %v", time.Until(e.due))
	}
}

// TestNames checks that names are valid for engines and can be decoded.
func TestNames(t *testing.T) {
	c := Config{Instance: "prod", Pool: "core.1"}
	for _, key := range []string{"", "../../x", "naïve 日本", strings.Repeat("k", 255), "a\x00b\n", "-rf", "\xff"} {
		name := c.containerName(key, life{slot: newSlot(), number: 3})
		if !rightName.MatchString(name) || len(name) > 200 || !strings.HasPrefix(name, "prod-core.1-") {
			t.Errorf("of %q comes the name %q", key, name)
		}
		at := time.Now().Truncate(time.Millisecond)
		if since, ok := drainedSince(drainName(name, at)); !ok || !since.Equal(at) {
			t.Errorf("%q drains since %v, not %v", name, since, at)
		}
		if _, ok := drainedSince(name); ok {
			t.Errorf("%q is parsed as draining", name)
		}
	}
}
