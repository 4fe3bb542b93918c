//go:build linux

package systemd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// talk returns a driver that is connected to a pretender.
func talk(t *testing.T, p *pretender, change func(*Config)) *Driver {
	t.Helper()
	c := p.config()
	if change != nil {
		change(&c)
	}
	d := open(t, c)
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestConversation checks the calls to systemd during the life of a worker, and the handling of its answers.
func TestConversation(t *testing.T) {
	p := newPretender(t)
	d := talk(t, p, nil)
	p.set("w@other.service", "active", "running", "", nil)
	p.set("w@p-k-2.service", "active", "running", "", nil) // started by hand
	ensure(t, d, "k", 2)
	ensure(t, d, "k", 2)
	const first, second = "w@p-k-1.service", "w@p-k-3.service"
	if got := p.called("StartUnit"); !slices.Equal(got, []string{first + " replace", second + " replace"}) {
		t.Fatalf("it started %q", got)
	}
	what, holds := states("running", "running")
	until(t, d, what, holds)

	p.set(first, "activating", "auto-restart", "", func(d *details) { d.code, d.status, d.result = 1, 3, "exit-code" })
	list := until(t, d, "one waits", func(list []driver.Worker) bool { return len(list) == 2 && list[0].State == driver.Waiting })
	if list[0].LastExit != "exit status 3" || list[0].Starts != 1 {
		t.Errorf("it is %+v", list[0])
	}
	p.set(first, "failed", "failed", "", func(d *details) { d.restarts = 5 })
	poll.Until(t, "it is started again", func() bool { return len(p.called("StartUnit")) == 3 })
	if got := p.called("ResetFailedUnit"); !slices.Equal(got, []string{first}) || p.called("StartUnit")[2] != first+" replace" {
		t.Errorf("it has reset %q, and started %q", got, p.called("StartUnit"))
	}
	if list = until(t, d, what, holds); list[0].Starts != 6 {
		t.Errorf("it is %+v", list[0])
	}

	ensure(t, d, "k", 1)
	if got := p.called("StopUnit"); !slices.Equal(got, []string{second + " replace"}) {
		t.Errorf("it stopped %q", got)
	}
	what, holds = states("draining", "running")
	until(t, d, what, holds)
	p.remove(second)
	what, holds = states("running")
	until(t, d, what, holds)
	drain(t, d, "k")
	p.set(first, "failed", "failed", "", nil) // it was killed after the grace period
	until(t, d, "it has ended", func(list []driver.Worker) bool { return len(list) == 0 })
	poll.Until(t, "it is reset", func() bool { return len(p.called("ResetFailedUnit")) == 2 })
	for _, method := range []string{"StartUnit", "StopUnit", "ResetFailedUnit"} {
		for _, args := range p.called(method) {
			if strings.Contains(args, "other") || strings.Contains(args, "p-k-2") {
				t.Errorf("it has called %s of %s, which is not its own", method, args)
			}
		}
	}
}

// TestKill checks that a worker that exceeds its grace period is killed, also by a driver that has not
// drained it.
func TestKill(t *testing.T) {
	p := newPretender(t)
	first := open(t, p.config())
	ensure(t, first, "k", 1)
	drain(t, first, "k")
	what, holds := states("draining")
	until(t, first, what, holds)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.called("KillUnit"); len(got) > 0 {
		t.Errorf("it has killed %q without a grace period", got)
	}
	second := talk(t, p, func(c *Config) { c.Drain = time.Millisecond })
	until(t, second, "it has ended", func(list []driver.Worker) bool { return len(list) == 0 })
	if got := p.called("KillUnit"); !slices.Equal(got, []string{"w@p-k-1.service all 9"}) {
		t.Errorf("it has killed %q", got)
	}
}

// TestRefusals checks the errors after systemd has refused a call, and that a refused worker leaves nothing
// behind.
func TestRefusals(t *testing.T) {
	for name, words := range map[string][]string{
		"org.freedesktop.DBus.Error.AccessDenied":                     {"does not let user", "polkit"},
		"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired": {"does not let user", "polkit"},
		"org.freedesktop.systemd1.NoSuchUnit":                         {"start w@p-k-1.service", "in other words"},
	} {
		p := newPretender(t)
		p.fail("StartUnit", name)
		d := talk(t, p, nil)
		wantError(t, d.Ensure(t.Context(), group("k", 1)), words...)
		if list, err := d.List(t.Context()); len(list) > 0 || err != nil {
			t.Errorf("it lists %v, %v", list, err)
		}
	}
	d := open(t, Config{Pool: "p", Unit: "w@.service", Bus: newBus(t), Dir: t.TempDir()})
	defer d.Close(context.Background()) //nolint:errcheck // there is nothing to release
	wantError(t, d.Ensure(t.Context(), group("k", 1)), "there is no systemd on the D-Bus")
}

// TestNoAnswer checks that a call ends with its context, and that a worker which may have been started is
// neither dropped nor started twice.
func TestNoAnswer(t *testing.T) {
	p := newPretender(t)
	p.mu.Lock()
	p.hangs = make(chan struct{})
	p.mu.Unlock()
	d := talk(t, p, nil)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() { asked <- d.Ensure(ctx, group("k", 1)) }()
	poll.Until(t, "it starts a unit", func() bool { return len(p.called("StartUnit")) == 1 })
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	p.mu.Lock()
	close(p.hangs)
	p.hangs = nil
	p.mu.Unlock()
	ensure(t, d, "k", 1)
	what, holds := states("running")
	for _, w := range until(t, d, what, holds) {
		if !strings.HasPrefix(w.ID, "p-k-1.") {
			t.Errorf("there is %+v", w)
		}
	}
	for _, args := range p.called("StartUnit") {
		if args != "w@p-k-1.service replace" {
			t.Errorf("it has started %s", args)
		}
	}
}

// TestSystemdComesBack checks that a driver uses the systemd that currently owns the name.
func TestSystemdComesBack(t *testing.T) {
	p := newPretender(t)
	d := talk(t, p, nil)
	ensure(t, d, "k", 1)
	if err := p.conn.Close(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "it cannot list", func() bool { _, err := d.List(t.Context()); return err != nil })
	subscribed := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(slices.DeleteFunc(slices.Clone(p.calls), func(c string) bool { return c != "Subscribe" }))
	}
	before := subscribed()
	p.appear()
	poll.Until(t, "it has subscribed again", func() bool { return subscribed() > before })
	what, holds := states("running")
	until(t, d, what, holds)
}
