package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// retention deletes rows that are kept for a limited time or up to a limited number: records, dead letters,
// ended timers, and timers whose target is gone.
type retention struct {
	*env
	commits *commits
	crowds  *crowds
	growth  *growth
	gone    chan goneTimer
}

// goneTimer is a timer whose target answered Gone to an occurrence of a generation.
type goneTimer struct {
	key        rouse.Key
	generation uint64
}

func newRetention(v *env, crowds *crowds, c *commits) *retention {
	return &retention{env: v, crowds: crowds, commits: c, growth: c.growth, gone: make(chan goneTimer, 1024)}
}

// recordsLoop deletes old records.
func (r *retention) recordsLoop(ctx context.Context) {
	for wait := time.Minute; ; wait = 10 * time.Minute {
		if !backoff.Sleep(ctx, wait) {
			return
		}
		if r.opts.Leader != nil && !r.opts.Leader() {
			continue
		}
		if _, err := r.store.Trim(ctx, r.Now().Add(-r.opts.RecordAge), r.opts.MaxRecords); err != nil &&
			!errors.Is(err, context.Canceled) {
			r.opts.Events.emitFailed("trim", err)
		}
	}
}

// timersLoop deletes the oldest records of timers that have too many, and deletes timers whose target
// answered Gone to an overlapping occurrence.
func (r *retention) timersLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case g := <-r.gone:
			if err := r.opts.Delete(ctx, g.key, g.generation); err != nil && !errors.Is(err, rouse.ErrNotFound) &&
				ctx.Err() == nil {
				r.opts.Events.emitFailed("settle", err) // the next occurrence gets the same answer
			}
		case key := <-r.crowds.buried:
			if err := r.crowds.trimDead(ctx, key, r.commits); err != nil && ctx.Err() == nil {
				r.opts.Events.emitFailed("trim", err)
			}
		case key := <-r.growth.grown:
			_, err := r.store.TrimTimer(ctx, key.Namespace, key.Name, r.opts.RecordsPerTimer)
			if err != nil && !errors.Is(err, context.Canceled) {
				r.opts.Events.emitFailed("trim", err)
			}
		}
	}
}

// noteGone requests that a timer is deleted because its target answered Gone to an overlapping occurrence.
func (r *retention) noteGone(side *rouse.Timer) {
	select {
	case r.gone <- goneTimer{rouse.Key{Namespace: side.Key.Namespace, Name: side.Key.Name}, side.Generation}:
	default: // the next occurrence gets the same answer
	}
}

// removeExpired deletes a dead letter or an ended timer if its retention is still over.
func (v *env) removeExpired(t *rouse.Timer, now rouse.Instant, _ rouse.Schedule) rouse.Step {
	if t.Key.Fire != "" && !t.Live {
		if until := v.deadUntil(t); until > now { // the retention was raised after this one was written
			to := *t
			return rouse.Step{To: &to}
		}
		return rouse.Step{}
	}
	if !t.Over() || t.Visible > now {
		return rouse.Step{Keep: true}
	}
	return rouse.Step{}
}

// deadUntil returns the end of a dead letter's retention.
func (v *env) deadUntil(t *rouse.Timer) rouse.Instant {
	if v.opts.DeadAge < 0 {
		return rouse.Never
	}
	return t.Updated.Add(v.opts.DeadAge)
}

// StepChange returns the conditional write that performs a step.
func (v *env) StepChange(key rouse.Key, read uint64, step rouse.Step) rouse.Change {
	c := rouse.Change{Key: key, If: read, Keep: step.Keep, Log: step.Log}
	for _, t := range [...]*rouse.Timer{step.To, step.Detached} {
		if t != nil && t.State() == rouse.StateDead {
			t.Visible = v.deadUntil(t) // when it needs attention next, it is deleted
		}
	}
	if step.To != nil {
		row := step.To.Row()
		c.To = &row
	}
	if step.Detached != nil {
		c.Also = []rouse.Row{step.Detached.Row()}
	}
	for i := range step.Also {
		c.Also = append(c.Also, step.Also[i].Row())
	}
	return c
}
