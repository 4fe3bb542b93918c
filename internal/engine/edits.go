package engine

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// What follows is for the operations on timers (package timers), which change rows that the loop may be sending.

// Ready waits until Run has begun and the store's clock is known.
func (e *Engine) Ready(ctx context.Context) error {
	select {
	case <-e.began:
		return nil
	default:
	}
	select {
	case <-e.began:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Latest returns the latest time that it may be by the store's clock: what begins now is dated by it.
func (e *Engine) Latest() rouse.Instant { return e.clock.latest() }

// Write makes changes durable in one group commit, and returns what became of each. An error means that nothing is known of any of them.
// Memory is up to date with the changes when it returns.
func (e *Engine) Write(ctx context.Context, items []*Write) ([]Written, error) {
	return e.writer.Do(ctx, items)
}

// Freeze keeps attempts of timers from starting until release is called: an edit that gives up an occurrence because no attempt of
// it is out must be written before one is.
func (e *Engine) Freeze(keys ...rouse.Key) (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		e.holding[key]++
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, key := range keys {
			if e.holding[key]--; e.holding[key] == 0 {
				delete(e.holding, key)
			}
		}
		notify.Send(e.wake)
	}
}

// Underway reports whether an attempt of the scheduled occurrence that the timer is at is out.
func (e *Engine) Underway(t *rouse.Timer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[t.Key]
	return en != nil && en.busy() && !en.occ.Manual && en.occ.Due == t.Due || e.dueMayBeOut(t)
}

// Sending returns the occurrence of a row of which an attempt is out, or about to be.
func (e *Engine) Sending(key rouse.Key) (occ rouse.Occurrence, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if en := e.window.entries[key]; en != nil && en.state == sending {
		return en.occ, true
	}
	return occ, false
}

// Busy reports whether an attempt of what a timer is at is out here, or about to be, or not settled yet.
func (e *Engine) Busy(t *rouse.Timer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[t.Key]
	return en != nil && en.busy() && en.row.Generation == t.Generation
}

// deadUntil returns until when a dead letter is kept.
func (e *Engine) deadUntil(t *rouse.Timer) rouse.Instant {
	if e.opts.DeadAge < 0 {
		return rouse.Never
	}
	return t.Updated.Add(e.opts.DeadAge)
}

// StepChange returns the one conditional write that makes a step.
func (e *Engine) StepChange(key rouse.Key, read uint64, step rouse.Step) rouse.Change {
	c := rouse.Change{Key: key, If: read, Keep: step.Keep, Log: step.Log}
	for _, t := range [...]*rouse.Timer{step.To, step.Beside} {
		if t != nil && t.Key.Fire != "" && !t.Live {
			t.Visible = e.deadUntil(t) // then it needs attention once more: it is deleted
		}
	}
	if step.To != nil {
		row := step.To.Row()
		c.To = &row
	}
	if step.Beside != nil {
		c.Also = []rouse.Row{step.Beside.Row()}
	}
	return c
}

// Progress is how far this node has come with the occurrence that a row is at.
type Progress struct {
	Sending bool          // an attempt is out, or about to be
	Sent    rouse.Instant // when that attempt began
	Attempt uint32        // its number
	Queued  bool          // it is due and waits in a lane
	Waiting int           // fires in that lane
	Limit   int           // deliveries of the lane at a time
	Rates   string        // of the lane, as text; "" if none holds it back
}

// Progress returns how far this node has come with a row.
func (e *Engine) Progress(key rouse.Key) (p Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[key]
	if en == nil {
		return p
	}
	p.Sending, p.Queued, p.Sent, p.Attempt = en.state == sending, en.state == queued, en.sent, en.occ.Attempt
	if en.lane != nil {
		p.Waiting, p.Limit, p.Rates = en.lane.queued, en.lane.limit, en.lane.rates(en.kind)
	}
	return p
}
