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
func (e *Engine) Latest() rouse.Instant { return e.clock.latestNow() }

// Write commits changes in one group commit and returns their results. An error means that all outcomes are
// unknown. The window contains the changes when Write returns.
func (e *Engine) Write(ctx context.Context, items []*Write) ([]Written, error) {
	return e.commits.commitWrites(ctx, items)
}

// WriteOne makes one write.
func (e *Engine) WriteOne(ctx context.Context, w *Write) (Written, error) {
	return e.commits.commitOne(ctx, w)
}

// Freeze prevents attempts of timers from starting until release is called. An edit that gives up an
// occurrence because no attempt of it is out must be committed before one starts.
func (e *Engine) Freeze(keys ...rouse.Key) (release func()) {
	e.memory.freezer.freezeKeys(keys)
	return func() {
		e.memory.freezer.unfreezeKeys(keys)
		notify.Send(e.memory.wake)
	}
}

// Underway reports whether an attempt of the timer's current scheduled occurrence is out.
func (e *Engine) Underway(t *rouse.Timer) bool {
	e.memory.Lock()
	defer e.memory.Unlock()
	en := e.memory.window.entries.entryByKey(t.Key)
	return en != nil && en.isBusy() && !en.occ.Manual && en.occ.Due == t.Due || e.holds.dueMayBeOut(t)
}

// Sending returns the occurrence of a row's generation of which an attempt is out or about to be, and whether
// that is sure. It is not if memory has an older version of the row: a commit is in the store a moment before
// it is in memory, and the attempt may have ended with it. An attempt that is not made after all is settled
// as deferred from then on, so that the occurrence is recorded if its generation ends in the meantime.
func (e *Engine) Sending(t *rouse.Timer) (occ rouse.Occurrence, ok, sure bool) {
	e.memory.Lock()
	defer e.memory.Unlock()
	if en := e.memory.window.entries.entryByKey(t.Key); en != nil && en.state == sending &&
		en.row.Generation == t.Generation {
		en.awaited = true
		return en.occ, true, en.row.Revision >= t.Revision
	}
	return occ, false, true
}

// Busy reports whether an attempt of the timer's current generation is out on this node, about to be, or not
// settled yet.
func (e *Engine) Busy(t *rouse.Timer) bool {
	e.memory.Lock()
	defer e.memory.Unlock()
	en := e.memory.window.entries.entryByKey(t.Key)
	return en != nil && en.isBusy() && en.row.Generation == t.Generation
}

// Leaving returns which fires are of timers in buckets that this node lost while attempts were out, and which
// it continues under holds; nil if there are none. A sink with long attempts should give back those that it
// can.
func (e *Engine) Leaving() func(*rouse.Fire) bool {
	leaving := e.buckets.unfinishedBuckets()
	if len(leaving) == 0 {
		return nil
	}
	return func(f *rouse.Fire) bool {
		return leaving[f.Bucket]
	}
}

// CountConclusion counts the outcome of an accepted attempt of a timer, after it was stored, for its target.
func (e *Engine) CountConclusion(t *rouse.Timer, o rouse.Outcome) { e.memory.countConclusion(t, o) }

// Progress is how far this node is with the current occurrence of a row.
type Progress struct {
	Sending bool          // an attempt is out, or about to be
	Sent    rouse.Instant // start of that attempt
	Attempt uint32        // its number
	Queued  bool          // due and waiting in a lane
	Waiting int           // fires queued in that lane
	Limit   int           // maximum concurrent deliveries of the lane
	Rates   string        // rates that slow the lane, as text; "" if none does

	AtLimit bool        // due and waiting for its named limit
	Before  int         // rows that wait there and go before it
	Further bool        // so many wait that Before has not all of them
	Running int         // rows that have a place of the limit
	Most    int         // of them on this node
	Named   rouse.Limit // the limit
}

// Progress returns how far this node is with a row.
func (e *Engine) Progress(key rouse.Key) (p Progress) {
	e.memory.Lock()
	defer e.memory.Unlock()
	en := e.memory.window.entries.entryByKey(key)
	if en == nil {
		return p
	}
	p.Sending, p.Queued, p.Sent, p.Attempt = en.state == sending, en.state == queued, en.sent, en.occ.Attempt
	if en.lane != nil {
		p.Waiting, p.Limit, p.Rates = en.lane.queued, en.lane.limit, en.lane.describeRates(en.kind)
	}
	if ga := en.lastGate(); ga != nil {
		p.AtLimit, p.Running, p.Most, p.Named = en.state == atGate, int(ga.running), ga.limit.most, ga.limit.is
		if t, err := e.memory.peekTimer(en); p.AtLimit && err == nil {
			p.Before, p.Further = ga.countBefore(ga.limit.placeInOrder(en, t.Spec.Priority))
		}
	}
	return p
}

// FireDemand returns how many fires of a namespace were sent since the last call, and wait now.
func (e *Engine) FireDemand(namespace string) int {
	e.memory.Lock()
	defer e.memory.Unlock()
	return e.memory.lanes.takeDemand(namespace)
}
