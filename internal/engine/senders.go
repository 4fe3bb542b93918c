package engine

import (
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// Peer is a node of the store, this one or another, as its leases describe it.
type Peer struct {
	Grain   int      // of the holds that it writes: see Options; 0 is not known
	Buckets []uint32 // that it owns
	Claims  bool     // it takes rows by claims, whose holds do not tell whose they are
}

// MaySend reports whether a node may be sending an occurrence of a timer, or begin to within a time. The timer, or row beside one, is as the
// store has it (Get, List). The answer is true in doubt, and false only if it is certain as long as the row keeps its revision and the
// bucket its owner.
//
// Of nodes that share the buckets a row is with its owner when it is visible, and until then with the node whose hold ends at its Visible.
// Edits by other nodes move that end on, so it is not trusted for a while after one.
func (e *Engine) MaySend(t *rouse.Timer, p *Peer, within time.Duration) bool {
	latest := e.clock.latest()
	at, known := e.restsUntil(t)
	switch {
	case known && at > latest.Add(within):
		return e.others == nil && e.Busy(t) // a pause of a store's only node does not note that an attempt is out
	case e.others == nil, p.Claims, p.Grain == 0, !e.holdTells(t):
		return true
	case slices.Contains(p.Buckets, t.Bucket) && t.Visible <= latest.Add(within):
		return true
	case known && at == t.Visible:
		return false // no node holds it
	}
	return grainOf(t.Visible) == p.Grain
}

// restsUntil returns before which time nothing of a timer is sent, unless it is changed; known is false if something may be out.
func (e *Engine) restsUntil(t *rouse.Timer) (at rouse.Instant, known bool) {
	switch {
	case t.Key.Fire != "":
		return rouse.Never, !t.Live
	case t.Attempts != 0, len(t.Runs) > 0, e.MayBeOut(t):
		return 0, false
	case !t.Paused:
		return t.SentAt(t.Due), true
	case t.Until != 0:
		return t.Until, true
	}
	return rouse.Never, true
}

// holdTells reports whether the end of a row's hold, if it has one, tells which node wrote it. A pause ends a hold and leaves the attempt out, and each
// edit takes the end nearer to those of another node. A hold is written again before it has lasted for as long as it is meant to.
func (e *Engine) holdTells(t *rouse.Timer) bool {
	return !t.Paused && (t.Updated == t.Created || t.Updated.Add(e.opts.Hold) < e.Now())
}
