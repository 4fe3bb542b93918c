package relay

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
)

// tick is the interval of the executor's maintenance.
const tick = 100 * time.Millisecond

// tickLoop resumes lanes whose rates allow more, frees room, and extends the deadlines of fires.
func (x *Executor) tickLoop(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		x.mu.Lock()
		now := time.Now()
		for _, ln := range x.lanes {
			x.pumpLane(ln, now)
			x.deferBacklog(ln, now)
			x.dropIdle(ln)
		}
		x.startHeartbeats(now)
		x.mu.Unlock()
	}
}

// startHeartbeats extends the deadlines of fires that have used half of their time. The caller holds the
// mutex.
func (x *Executor) startHeartbeats(now time.Time) {
	for _, j := range x.jobs {
		if j.beating || j.state != waiting && j.state != running || j.until.Sub(now) > j.Allowance/2 {
			continue
		}
		j.beating = true
		x.work.Go(func() { x.extendJobDeadline(j) })
	}
}

// extendJobDeadline extends one deadline.
func (x *Executor) extendJobDeadline(j *job) {
	err := x.reportOnce(j, rouse.Outcome{After: j.Allowance})
	x.mu.Lock()
	defer x.mu.Unlock()
	j.beating = false
	switch {
	case err == nil:
		j.until = time.Now().Add(j.Allowance)
	case !errors.Is(err, rouse.ErrConflict) && !errors.Is(err, rouse.ErrNotFound):
		x.opts.Events.Failed("heartbeat", err) // the next tick retries
	default:
		// give up: a fire that has begun continues, and its report is refused if it is outdated
		j.until = time.Now().Add(j.Allowance)
	}
}
