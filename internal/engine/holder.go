package engine

import (
	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// Holder reports which node has a row that an edit has read.
type Holder struct {
	Mine  bool          // this node has it: no other node may be sending it
	Out   bool          // an attempt is out on this node under a hold, which must be kept
	Known bool          // its timer's Visible is when it needs attention, not the end of another node's hold
	Until rouse.Instant // end of the time, exclusive, in which another node may hold and send it; 0 if none does
}

// HolderOf determines which node has a timer that was read from the store, and sets the timer's Visible to
// its real value where that is known: in the store it may be the end of a hold.
func (e *Engine) HolderOf(t *rouse.Timer) (h Holder) {
	e.memory.Lock()
	if en := e.memory.window.entries.entryByKey(t.Key); en != nil && en.row.Revision == t.Revision {
		t.Visible, h.Known = en.row.Visible, !en.held.IsZero()
		h.Mine = !e.holds.isLost(en, boottime.Now()) && (h.Known || en.row.Visible <= e.Now())
	}
	// An older version that is out here is this node's. One whose revision is just being checked is not: the
	// check may fail.
	if en := e.memory.window.entries.entryByKey(t.Key); en != nil && en.isBusy() && en.row.Generation == t.Generation &&
		(en.passed || en.row.Revision == t.Revision) {
		h.Mine, h.Out = true, !en.held.IsZero()
	}
	e.memory.Unlock()
	if h.Mine || e.others == nil {
		return Holder{Mine: true, Known: true, Out: h.Out}
	}
	occ, ok := t.Current()
	switch {
	case t.Token != 0: // no attempt is out: the receiver will report
	case e.holds.mayBeOut(t):
		h.Until = e.holds.outUntil(t)
		if !t.Paused || len(t.Runs) > 0 {
			longest := e.clock.latestNow().Add(e.opts.Hold) + holdGrain // a later time is a deferral, not a hold
			h.Until = max(h.Until, min(t.Visible+1, longest))
		}
	case t.Paused && t.Until != 0:
		t.Visible, h.Known = min(t.Visible, t.Until), true
	case ok && !t.Paused:
		t.Visible, h.Known = min(t.Visible, t.SentAt(occ.Due)), true
	}
	return h
}

// Fit adapts a change of a row that another node has: no attempt may start while one may be out there. It
// reports whether this node must not keep the row.
func (in Holder) Fit(was, to *rouse.Timer) (plain bool) {
	switch {
	case in.Mine || to.Visible == rouse.Never:
		return false
	case in.Until == 0:
		return to.Visible == was.Visible && !in.Known
	}
	to.Visible = max(to.Visible, in.Until)
	return true
}

// Fenced returns the Holder of a timer that this node took over with Fence: no attempt of the previous
// version was sent.
func (in Holder) Fenced(t *rouse.Timer) Holder {
	if occ, ok := t.Current(); ok {
		t.Visible = t.SentAt(occ.Due)
	}
	return Holder{Mine: true, Known: true, Out: in.Out}
}

// MayBeOut reports whether an attempt of the timer's current occurrence may be out with another node, which
// is so once it has come due.
func (e *Engine) MayBeOut(t *rouse.Timer) bool { return e.holds.mayBeOut(t) }
