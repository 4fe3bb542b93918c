package relay

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// startReport starts the report of an outcome. The caller holds the mutex.
func (x *Executor) startReport(j *job, o rouse.Outcome) {
	j.state = finishing
	x.work.Go(func() { x.reportUntilStored(j, o) })
}

// reportUntilStored reports an outcome until it is stored or known to be outdated, and only then acknowledges
// the message.
func (x *Executor) reportUntilStored(j *job, o rouse.Outcome) {
	if o.Verdict == rouse.Accepted { // the target reports the outcome itself, with the token that it received
		o = rouse.Outcome{After: o.After}
	}
	for b := backoff.New(5*time.Millisecond, 2*time.Second); ; {
		err := x.reportOnce(j, o)
		if err == nil {
			x.opts.Events.Reported(&j.Fire, o)
			x.acknowledgeJob(j)
			return
		}
		var again bool
		if errors.Is(err, rouse.ErrConflict) || errors.Is(err, rouse.ErrNotFound) {
			again = x.cameEarly(j)
		} else {
			x.opts.Events.Failed("report", err)
			again = x.hasTime(j) // later the scheduler has given it up and sends it again
		}
		if !again {
			x.dropOutdated(j)
			return
		}
		if !b.Pause(x.life) {
			x.settleUnreported(j)
			return
		}
	}
}

// hasTime reports whether the scheduler still waits for a report.
func (x *Executor) hasTime(j *job) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Now().Before(j.until)
}

// settleUnreported returns the message of a fire whose outcome could not be reported before the shutdown.
func (x *Executor) settleUnreported(j *job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.requeueJob(j)
}

// reportOnce makes one report. Without Rows, it finds out here whether the fire belongs to its timer's row or
// to a row of its own.
func (x *Executor) reportOnce(j *job, o rouse.Outcome) error {
	ctx, cancel := context.WithTimeout(x.life, x.opts.Timeout)
	defer cancel()
	x.mu.Lock()
	key := j.key
	x.mu.Unlock()
	err := x.reporter.Report(ctx, key, j.Fire.ID, j.Fire.Token, o)
	if key.Fire != "" || !errors.Is(err, rouse.ErrConflict) && !errors.Is(err, rouse.ErrNotFound) {
		return err
	}
	key.Fire = j.Fire.ID
	own := x.reporter.Report(ctx, key, j.Fire.ID, j.Fire.Token, o)
	if errors.Is(own, rouse.ErrNotFound) {
		return err
	}
	return own
}

// cameEarly reports whether a refused report came before the scheduler had stored that the fire was accepted,
// so that a retry makes sense. If the scheduler crashed in between, it never stores that: the fire is then
// sent again with a new token.
func (x *Executor) cameEarly(j *job) bool {
	if time.Since(j.came) > x.opts.Patience {
		return false
	}
	stands, err := x.readStandings(x.life, []*job{j})
	if err != nil {
		x.opts.Events.Failed("look at timers", err)
		return true
	}
	return stands[0].standing != outdated
}
