package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Timing of the goroutine that keeps workers running.
const (
	patience = 10 * time.Second // timeout of a pass
	again    = time.Second      // from a pass that failed to the next; it doubles
	longest  = time.Minute      // up to this
	killing  = 5 * time.Second  // between attempts to kill a worker

	// Shortest interval of passes, so that the many signals of systemd do not keep it busy with answers.
	rest = 50 * time.Millisecond
)

// life is the history of a worker as seen by this process.
type life struct {
	asked    time.Time     // when it was asked to end, if by this process
	killed   time.Time     // when it was killed the last time
	began    time.Time     // since when it is up; zero if it is not
	ended    time.Time     // since when it is down; zero if it is not
	ran      time.Duration // how long it ran the last time
	due      time.Time     // when it is started again; zero if that is not settled
	failures int           // times that it ended without having been up for long
	before   int           // starts before the last one that was not systemd's own doing
	since    int           // starts since, that one included
	seen     int           // invocations that were seen since
	invoked  string        // the last one
	last     details       // last answer of systemd while the unit was loaded
	lastExit string
}

func (d *Driver) lifeOf(instance string) *life {
	l := d.lives[instance]
	if l == nil {
		l = &life{since: 1}
		d.lives[instance] = l
	}
	return l
}

// recordState records the state of a worker.
func (l *life) recordState(m member) {
	now := time.Now()
	if m.unit.Path != "" {
		if m.more.restarts != l.last.restarts {
			l.began = time.Time{} // the start belonged to an earlier process
		}
		l.countStarts(m.more)
		l.last = m.more
		if words := m.more.lastExit(); words != "" {
			l.lastExit = words
		} else if m.more.restarts > 0 && l.lastExit == "" {
			l.lastExit = "it ended by itself"
		}
	}
	switch m.unit.unitPhase() {
	case up:
		if l.ended = (time.Time{}); l.began.IsZero() {
			l.began = now
		}
	case pauses, ends:
		l.began, l.ended = time.Time{}, time.Time{}
	case down:
		if !l.ended.IsZero() {
			return
		}
		if l.ended, l.ran = now, 0; !l.began.IsZero() {
			l.ran = now.Sub(l.began)
		}
		if l.began = (time.Time{}); l.lastExit == "" {
			l.lastExit = "it ended in good order, or was stopped"
		}
	}
}

// countStarts records how often the worker was started. Systemd counts a restart before it executes it, and
// also restarts that it refuses. So its count is right while the worker runs, and otherwise may be one too
// high. A short run may not be seen at all.
func (l *life) countStarts(d details) {
	if d.invocation != l.invoked && d.invocation != "" {
		l.invoked = d.invocation
		l.seen++
	}
	if d.running {
		l.since = max(l.since, d.restarts+1)
	}
	l.since = max(l.since, l.seen, d.restarts)
}

// asWorker returns the worker for List.
func (l *life) asWorker(m member, state driver.State) driver.Worker {
	w := driver.Worker{ID: m.instance, Key: m.key, State: state, Since: l.last.changed, Starts: l.before + l.since,
		LastExit: l.lastExit}
	if l.last.invocation != "" {
		w.ID += "." + l.last.invocation
	}
	switch {
	case state == driver.Draining && !m.asked.IsZero():
		w.Since = m.asked
	case w.Since.IsZero() && l.ended.IsZero():
		w.Since = l.began
	case w.Since.IsZero():
		w.Since = l.ended
	}
	return w
}

// maintainWorkers manages the workers until ctx ends: it restarts those that systemd no longer restarts,
// kills those that exceed their grace period, and removes the records of those that have ended.
func (d *Driver) maintainWorkers(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	b := backoff.New(again, longest)
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
		next, err := d.passMembers(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			pause := b.Next()
			d.config.Log.Warn("cannot manage the workers of the pool", "error", err, "again_in", pause)
			next = time.Now().Add(pause)
		} else {
			b.Reset()
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

// passMembers looks at all workers. It returns when the next pass is due without further changes; zero means
// never.
func (d *Driver) passMembers(ctx context.Context) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = d.withTurn(ctx, func() error {
		if !d.used {
			return nil
		}
		if err := d.ensureSession(ctx); err != nil {
			return err
		}
		members, _, err := d.recordedMembers(ctx, d.names.poolPrefix())
		if err != nil {
			return err
		}
		there := map[string]bool{}
		var errs []error
		for _, m := range members {
			there[m.instance] = true
			var at time.Time
			if !m.asked.IsZero() {
				at, err = d.finishDraining(ctx, m)
				errs = append(errs, err)
			} else if d.files.lock != nil {
				at = d.restartEnded(ctx, m)
			}
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		maps.DeleteFunc(d.lives, func(instance string, _ *life) bool { return !there[instance] })
		return errors.Join(errs...)
	})
	return next, err
}

// finishDraining handles a worker that was asked to end.
func (d *Driver) finishDraining(ctx context.Context, m member) (next time.Time, err error) {
	l := d.lifeOf(m.instance)
	log := d.config.Log.With("key", driver.GroupName(m.key), "unit", d.names.unitName(m.instance))
	if m.unit.unitPhase() == down {
		if m.unit.Active == "failed" {
			if err := d.session.callSystemd(ctx, "ResetFailedUnit", nil, m.unit.Name); err != nil && !isNotLoaded(err) {
				return next, fmt.Errorf("reset %s: %w", m.unit.Name, err)
			}
		}
		log.Info("worker ended", "how", l.lastExit)
		delete(d.lives, m.instance)
		return next, d.files.removeFiles(m.instance)
	}
	if err := d.askToEnd(ctx, m); err != nil || d.config.Drain == 0 {
		return next, err
	}
	asked := m.asked
	if !l.asked.IsZero() {
		asked = l.asked // monotonic: independent of clock changes
	}
	due := asked.Add(d.config.Drain)
	if !l.killed.IsZero() {
		due = l.killed.Add(killing)
	}
	if time.Now().Before(due) {
		return due, nil
	}
	log.Warn("a worker exceeds its drain timeout and is killed", "after", d.config.Drain)
	if err := d.session.callSystemd(ctx, "KillUnit", nil, m.unit.Name, "all", int32(syscall.SIGKILL)); err != nil &&
		!isNotLoaded(err) {
		return next, fmt.Errorf("kill %s: %w", m.unit.Name, err)
	}
	l.killed = time.Now()
	return l.killed.Add(killing), nil
}

// restartEnded handles a worker that should run: if systemd does not restart it any more, it is started after
// a backoff.
func (d *Driver) restartEnded(ctx context.Context, m member) (next time.Time) {
	l := d.lifeOf(m.instance)
	if m.unit.unitPhase() != down || m.unit.isStopping() {
		l.due = time.Time{}
		return next
	}
	log := d.config.Log.With("key", driver.GroupName(m.key), "unit", d.names.unitName(m.instance))
	if l.due.IsZero() {
		if l.failures++; l.ran >= d.config.Stable {
			l.failures = 1
		}
		pause := backoff.After(l.failures, d.config.FirstPause, d.config.LongestPause)
		l.due = l.ended.Add(pause)
		log.Warn("a worker has ended, and systemd does not restart it", "how", l.lastExit, "again_in", pause)
	}
	if time.Now().Before(l.due) {
		return l.due
	}
	var err error
	if m.unit.Active == "failed" { // it may have reached systemd's limit of starts
		if err = d.session.callSystemd(ctx, "ResetFailedUnit", nil, m.unit.Name); isNotLoaded(err) {
			err = nil
		}
	}
	if err == nil {
		err = d.startUnit(ctx, m.instance)
	}
	l.due, l.ran = time.Time{}, 0
	if err != nil {
		log.Warn("cannot restart a worker", "error", err)
		l.ended = time.Now()
		return l.ended // decides when to retry
	}
	l.ended, l.last = time.Time{}, details{}
	l.before, l.since, l.seen = l.before+l.since, 1, 0
	return next
}
