package engine

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// The following methods are for package timers, whose operations change rows that the loop may be sending.

// Ready waits until Run has started and the store's clock is known.
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

// Latest returns the latest time that the store's clock may show; operations that start now use it as their
// time.
func (e *Engine) Latest() rouse.Instant { return e.clock.latest() }

// Write commits changes in one group commit and returns their results. An error means that all outcomes are
// unknown. The window contains the changes when Write returns.
func (e *Engine) Write(ctx context.Context, items []*Write) ([]Written, error) {
	return e.writer.Do(ctx, items)
}

// Freeze prevents attempts of timers from starting until release is called. An edit that gives up an
// occurrence because no attempt of it is out must be committed before one starts.
func (e *Engine) Freeze(keys ...rouse.Key) (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		e.frozen[key]++
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, key := range keys {
			if e.frozen[key]--; e.frozen[key] == 0 {
				delete(e.frozen, key)
			}
		}
		notify.Send(e.wake)
	}
}

// Underway reports whether an attempt of the timer's current scheduled occurrence is out.
func (e *Engine) Underway(t *rouse.Timer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[t.Key]
	return en != nil && en.busy() && !en.occ.Manual && en.occ.Due == t.Due || e.dueMayBeOut(t)
}

// Sending returns the occurrence of a row of which an attempt is out or about to be.
func (e *Engine) Sending(key rouse.Key) (occ rouse.Occurrence, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if en := e.window.entries[key]; en != nil && en.state == sending {
		return en.occ, true
	}
	return occ, false
}

// Busy reports whether an attempt of the timer's current generation is out on this node, about to be, or not
// settled yet.
func (e *Engine) Busy(t *rouse.Timer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[t.Key]
	return en != nil && en.busy() && en.row.Generation == t.Generation
}

// deadUntil returns the end of a dead letter's retention.
func (e *Engine) deadUntil(t *rouse.Timer) rouse.Instant {
	if e.opts.DeadAge < 0 {
		return rouse.Never
	}
	return t.Updated.Add(e.opts.DeadAge)
}

// StepChange returns the conditional write that performs a step.
func (e *Engine) StepChange(key rouse.Key, read uint64, step rouse.Step) rouse.Change {
	c := rouse.Change{Key: key, If: read, Keep: step.Keep, Log: step.Log}
	for _, t := range [...]*rouse.Timer{step.To, step.Detached} {
		if t != nil && t.Key.Fire != "" && !t.Live {
			t.Visible = e.deadUntil(t) // when it needs attention next, it is deleted
		}
	}
	if step.To != nil {
		row := step.To.Row()
		c.To = &row
	}
	if step.Detached != nil {
		c.Also = []rouse.Row{step.Detached.Row()}
	}
	return c
}

// Progress is how far this node is with the current occurrence of a row.
type Progress struct {
	Sending bool          // an attempt is out, or about to be
	Sent    rouse.Instant // start of that attempt
	Attempt uint32        // its number
	Queued  bool          // due and waiting in a lane
	Waiting int           // fires queued in that lane
	Limit   int           // maximum concurrent deliveries of the lane
	Rates   string        // rates that slow the lane, as text; "" if none does
}

// Progress returns how far this node is with a row.
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
