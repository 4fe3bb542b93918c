package systemd

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// unit is the state of a unit in systemd's list. The zero value is a unit that is not loaded.
type unit struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            dbus.ObjectPath
	Job                                             uint32 // 0 if it has no job
	JobType                                         string
	JobPath                                         dbus.ObjectPath
}

// phase is the part of a unit's state that matters here.
type phase int

const (
	down   phase = iota // it does not run, and systemd does not start it
	up                  // it runs, or is about to
	pauses              // it has ended, and systemd starts it again
	ends                // it is on its way down
)

func (u unit) unitPhase() phase {
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
		return up // when its dependencies are up
	}
	return down
}

// isStopping reports whether the unit is being stopped, by this pool or by hand.
func (u unit) isStopping() bool { return u.JobType == "stop" }

// details are further properties of a unit and its process.
type details struct {
	invocation string    // of its present or last life
	running    bool      // that one is its present life
	changed    time.Time // when it entered its state
	restarts   int       // by systemd itself, since its last explicit start
	code       int32     // of waitid: how the process ended that was last; 0 if it has not
	status     int32     // exit status, or signal
	result     string    // why systemd holds the unit to have failed; success if it does not
}

// lastExit describes how a worker ended; empty if it has not.
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

// member is a worker of the pool: its record and its unit.
type member struct {
	entry
	unit unit
	more details
}

// workerState returns the state of the worker, and false if it has ended permanently.
func (m member) workerState() (driver.State, bool) {
	p := m.unit.unitPhase()
	switch {
	case !m.asked.IsZero():
		return driver.Draining, p != down
	case p != down && m.unit.isStopping():
		return driver.Draining, true
	case p == up:
		return driver.Running, true
	}
	return driver.Waiting, true
}
