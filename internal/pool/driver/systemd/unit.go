package systemd

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// unit is what systemd says of a unit in its list; the zero unit is one that it has not loaded.
type unit struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            dbus.ObjectPath
	Job                                             uint32 // 0 if there is none
	JobType                                         string
	JobPath                                         dbus.ObjectPath
}

// phase is what a unit does, as far as it matters here.
type phase int

const (
	down   phase = iota // it does not run, and systemd leaves it like that
	up                  // it runs, or is about to
	pauses              // it has ended, and systemd starts it again
	ends                // it is on its way down
)

func (u unit) phase() phase {
	switch u.Active {
	case "active", "reloading", "refreshing":
		return up
	case "activating":
		if strings.HasPrefix(u.Sub, "auto-restart") {
			return pauses
		}
		return up
	case "deactivating":
		return ends
	}
	if u.JobType == "start" || u.JobType == "restart" {
		return up // as soon as what it waits for is
	}
	return down
}

// stopped reports whether somebody wants the unit to end: this pool, or people.
func (u unit) stopped() bool { return u.JobType == "stop" }

// details is what systemd says of a unit and its process beside.
type details struct {
	invocation string    // of its present or last life
	running    bool      // that one is its present life
	changed    time.Time // when it came to its state
	restarts   int       // by systemd itself, since somebody started it
	code       int32     // of waitid: how the process ended that was last; 0 if it has not
	status     int32     // exit status, or signal
	result     string    // why systemd holds the unit to have failed; success if it does not
}

// lastExit says in words how a worker ended; nothing if it has not.
func (d details) lastExit() string {
	var words string
	switch d.code {
	case 1: // CLD_EXITED
		words = fmt.Sprintf("exit status %d", d.status)
	case 2: // CLD_KILLED
		words = fmt.Sprintf("signal: %v", syscall.Signal(d.status))
	case 3: // CLD_DUMPED
		words = fmt.Sprintf("signal: %v (core dumped)", syscall.Signal(d.status))
	}
	switch d.result {
	case "", "success", "exit-code", "signal", "core-dump":
		return words
	case "resources":
		return "it could not be started: see journalctl for why"
	case "start-limit-hit":
		return strings.TrimPrefix(words+", too often", ", ")
	}
	return strings.TrimSuffix(d.result+", "+words, ", ")
}

// member is a worker of the pool: what is written down of it, and its unit.
type member struct {
	entry
	unit unit
	more details
}

// state returns what the worker does, and false if it has ended for good.
func (m member) state() (driver.State, bool) {
	p := m.unit.phase()
	switch {
	case !m.asked.IsZero():
		return driver.Draining, p != down
	case p != down && m.unit.stopped():
		return driver.Draining, true
	case p == up:
		return driver.Running, true
	}
	return driver.Waiting, true
}
