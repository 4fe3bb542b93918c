//go:build linux

package systemd

import (
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestStates checks the meaning of each state of a unit for a wanted worker, and for one that was asked to
// end.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		active, sub, job string
		wanted, asked    driver.State
	}{
		{"active", "running", "", driver.Running, driver.Draining},
		{"active", "exited", "", driver.Running, driver.Draining},
		{"reloading", "reload", "", driver.Running, driver.Draining},
		{"refreshing", "refresh", "", driver.Running, driver.Draining},
		{"active", "running", "stop", driver.Draining, driver.Draining},
		{"activating", "start-pre", "start", driver.Running, driver.Draining},
		{"activating", "start", "", driver.Running, driver.Draining},
		{"activating", "auto-restart", "", driver.Waiting, driver.Draining},
		{"activating", "auto-restart-queued", "start", driver.Waiting, driver.Draining},
		{"activating", "auto-restart", "stop", driver.Draining, driver.Draining},
		{"deactivating", "stop-sigterm", "stop", driver.Draining, driver.Draining},
		{"deactivating", "final-sigterm", "", driver.Waiting, driver.Draining},
		{"deactivating", "stop-sigterm", "restart", driver.Waiting, driver.Draining},
		{"inactive", "dead", "start", driver.Running, driver.Draining},
		{"inactive", "dead", "", driver.Waiting, ""},
		{"failed", "failed", "", driver.Waiting, ""},
		{"", "", "", driver.Waiting, ""}, // it is not loaded
	} {
		m := member{unit: unit{Active: c.active, Sub: c.sub, JobType: c.job}}
		if state, ok := m.workerState(); state != c.wanted || !ok {
			t.Errorf("%s (%s, %s) means %s, %v", c.active, c.sub, c.job, state, ok)
		}
		m.asked = time.Now()
		if state, ok := m.workerState(); ok && state != c.asked || ok != (c.asked != "") {
			t.Errorf("asked to end, %s (%s, %s) means %s, %v", c.active, c.sub, c.job, state, ok)
		}
	}
}

// TestLastExits checks the descriptions of the end of a worker.
func TestLastExits(t *testing.T) {
	for want, d := range map[string]details{
		"":                              {result: "success"},
		"exit status 0":                 {code: 1, result: "success"},
		"exit status 3":                 {code: 1, status: 3, result: "exit-code"},
		"signal: killed":                {code: 2, status: 9, result: "signal"},
		"signal: aborted (core dumped)": {code: 3, status: 6, result: "core-dump"},
		"timeout, signal: killed":       {code: 2, status: 9, result: "timeout"},
		"oom-kill, signal: killed":      {code: 2, status: 9, result: "oom-kill"},
		"exit status 1, too often":      {code: 1, status: 1, result: "start-limit-hit"},
		"it could not be started: see journalctl for why": {result: "resources"},
	} {
		if got := d.lastExit(); got != want {
			t.Errorf("%+v is %q, not %q", d, got, want)
		}
	}
}

// TestStartsAreCounted checks that each start is counted once, whenever systemd is asked.
func TestStartsAreCounted(t *testing.T) {
	l := &life{since: 1}
	for i, c := range []struct {
		d    details
		want int
	}{
		{details{invocation: "a", running: true}, 1},
		{details{invocation: "a"}, 1},
		{details{invocation: "a", restarts: 1}, 1}, // it is about to be restarted
		{details{invocation: "b", restarts: 1, running: true}, 2},
		{details{invocation: "b", restarts: 1, running: true}, 2},
		{details{invocation: "e", restarts: 4, running: true}, 5}, // not all were seen
		{details{invocation: "e", restarts: 5}, 5},                // it is not started again: that was too often
	} {
		if l.countStarts(c.d); l.before+l.since != c.want {
			t.Errorf("%d: after %+v there are %d starts, not %d", i, c.d, l.before+l.since, c.want)
		}
	}
}
