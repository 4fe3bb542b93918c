package relay

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// conclude has an outcome reported. The mutex is held.
func (x *Executor) conclude(j *job, o rouse.Outcome) {
	j.state = finishing
	x.work.Go(func() { x.finish(j, o) })
}

// finish reports an outcome until the report is written or is seen to be out of date, and only then lets the message go.
func (x *Executor) finish(j *job, o rouse.Outcome) {
	if o.Verdict == rouse.Accepted { // the target has it and reports by itself, with the token that it was given
		o = rouse.Outcome{After: o.After}
	}
	for b := backoff.New(5*time.Millisecond, 2*time.Second); ; {
		err := x.report(j, o)
		if err == nil {
			x.opts.Events.Reported(&j.Fire, o)
			x.done(j)
			return
		}
		var again bool
		if errors.Is(err, rouse.ErrConflict) || errors.Is(err, rouse.ErrNotFound) {
			again = x.early(j)
		} else {
			x.opts.Events.Failed("report", err)
			again = x.hasTime(j) // later the scheduler has given it up, and it is sent again
		}
		if !again {
			x.drop(j)
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

// settleUnreported gives back the message of a fire whose outcome could not be reported before the executor had to stop.
func (x *Executor) settleUnreported(j *job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.giveBack(j)
}

// report is one report. Without a look, it finds out here whether the fire is of its timer or of a row beside it.
func (x *Executor) report(j *job, o rouse.Outcome) error {
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
	beside := x.reporter.Report(ctx, key, j.Fire.ID, j.Fire.Token, o)
	if errors.Is(beside, rouse.ErrNotFound) {
		return err
	}
	return beside
}

// early reports whether a report that was refused came before the scheduler had written that the fire is accepted, so that it is
// worth another try. A scheduler that died in between never writes it: then the fire is sent again, with a new token.
func (x *Executor) early(j *job) bool {
	if time.Since(j.came) > x.opts.Patience {
		return false
	}
	stands, err := x.stand(x.life, []*job{j})
	if err != nil {
		x.opts.Events.Failed("look at timers", err)
		return true
	}
	return stands[0].standing != outdated
}
