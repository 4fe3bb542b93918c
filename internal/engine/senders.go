package engine

import (
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// Peer describes a node of the store, this one or another, from its leases.
type Peer struct {
	Grain   int      // of the holds that it writes (Options.Grain); 0 if unknown
	Buckets []uint32 // buckets that it owns
	Claims  bool     // it claims rows, and its holds do not identify it
}

// MaySend reports whether a node may be sending an occurrence of a timer, or may start to within a given
// time. t is the timer, or a row next to one, as read from the store (Get, List). The answer is true if in
// doubt. It is false only if that is certain as long as the row keeps its revision and the bucket its owner.
//
// If nodes own buckets, a visible row belongs to the owner, and a hidden one to the node whose hold ends at
// its Visible. Edits by other nodes move that end, so it is not trusted for a while after an edit.
func (e *Engine) MaySend(t *rouse.Timer, p *Peer, within time.Duration) bool {
	latest := e.clock.latestNow()
	if latest == 0 { // before Run has read the clock, it is not known which rows have come due
		return true
	}
	at, known := e.holds.restsUntil(t)
	switch {
	case known && at > latest.Add(within):
		return e.others == nil && e.Busy(t) // if only one node uses the store, a pause does not record that an attempt is out
	case e.others == nil, p.Claims, p.Grain == 0, !e.holds.holdTells(t):
		return true
	case slices.Contains(p.Buckets, t.Bucket) && t.Visible <= latest.Add(within):
		return true
	case known && at == t.Visible:
		return false // no node holds it
	}
	return grainOf(t.Visible) == p.Grain
}

// restsUntil returns the time before which no attempt starts unless the timer is changed; known is false if
// an attempt may be out.
func (h *holds) restsUntil(t *rouse.Timer) (at rouse.Instant, known bool) {
	switch {
	case t.Key.Fire != "":
		return rouse.Never, !t.Live
	case t.Attempts != 0, len(t.Runs) > 0, h.mayBeOut(t):
		return 0, false
	case !t.Paused:
		return t.SentAt(t.Due), true
	case t.Until != 0:
		return t.Until, true
	}
	return rouse.Never, true
}

// holdTells reports whether the end of a row's hold identifies the node that wrote it. It does not after a
// pause, which ends a hold and leaves the attempt out, nor after recent edits, each of which moves the end. A
// hold is renewed before Hold has passed.
func (h *holds) holdTells(t *rouse.Timer) bool {
	return !t.Paused && (t.Updated == t.Created || t.Updated.Add(h.opts.Hold) < h.Now())
}

// mayBeOut reports whether an attempt of the timer's current occurrence may be out with another node, which
// is so once it has come due.
func (h *holds) mayBeOut(t *rouse.Timer) bool {
	if h.others == nil || t.Key.Fire != "" && !t.Live {
		return false
	}
	return t.Attempts != 0 || len(t.Runs) > 0 || h.dueMayBeOut(t)
}

// dueMayBeOut is mayBeOut for the timer's scheduled occurrence alone, whether or not a manual run is waiting.
func (h *holds) dueMayBeOut(t *rouse.Timer) bool {
	switch {
	case h.others == nil, t.Spec.IsCheck():
		return false
	case t.Attempts != 0:
		return !t.Manual
	case t.Paused:
		// It may have been sent before the pause; then its attempt ends in time.
		return t.Began != 0 || t.SentAt(t.Due) <= t.PausedAt &&
			h.Now() < t.PausedAt.Add(h.opts.Hold+t.Spec.Retry.Effective().Timeout)
	}
	return t.SentAt(t.Due) <= h.clock.latestNow()
}

// outUntil returns until when another node may be sending the scheduled occurrence of a paused timer: the
// pause has ended its hold in the store. It returns 0 if no attempt may be out.
func (h *holds) outUntil(t *rouse.Timer) rouse.Instant {
	switch {
	case !t.Paused || !h.dueMayBeOut(t):
		return 0
	case t.Attempts == 0:
		return max(t.Began, t.PausedAt).Add(h.opts.Hold)
	}
	return t.Updated.Add(h.opts.Hold)
}
