package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// An edit checks whether an attempt may be out with another node, and is written after that. If the
// occurrence comes due in between, the other node sends it by the version that the edit replaces. So a timer
// that another node has and that comes due soon is fenced first: this node takes it over by a write that
// changes nothing else, and checks again after the commit. If the commit was before the due time, the other
// node's revision check fails, and this node has the timer. If not, the timer goes back to the other node,
// and the edit leaves it there like any edit during an attempt.

// fenceAhead is how long before the due time an edit fences a timer: longer than a commit normally takes.
const fenceAhead = 5 * time.Second

// Contested reports whether another node may start an attempt of this version of a timer during an edit on
// this node. stored is the row's Visible in the store.
func (e *Engine) Contested(t *rouse.Timer, stored rouse.Instant, in Holder) bool {
	if e.others == nil || in.Mine || in.Until != 0 || t.Paused || t.Token != 0 || t.Key.Fire != "" && !t.Live {
		return false
	}
	occ, ok := t.Current()
	if !ok {
		return false
	}
	due := t.SentAt(occ.Due)
	if h := e.buckets.currentGrant(); stored <= due &&
		(h.span != 0 || h.ownsBucket(t.Bucket) && !h.hasLapsed(boottime.Now())) {
		return false // no node holds it: the node that takes it either writes a hold or is this one
	}
	return due <= e.clock.latestNow().Add(fenceAhead)
}

// Fence takes over a contested timer and returns its new revision; 0 if the timer has to be read and checked
// again.
func (e *Engine) Fence(ctx context.Context, t *rouse.Timer, stored rouse.Instant) (revision uint64, err error) {
	occ, _ := t.Current()
	row := t.Row()
	w := &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, fence: t.SentAt(occ.Due)}
	r, err := e.commits.commitOne(ctx, w)
	if err != nil || !r.Applied {
		return 0, err
	}
	if !w.late {
		return r.Revision, nil
	}
	back := row
	back.Visible = max(stored, w.fence) + 1 // the end of the other node's hold, as an edit leaves it
	_, err = e.commits.commitOne(ctx, &Write{Change: rouse.Change{Key: row.Key, If: r.Revision, To: &back}, Plain: true})
	return 0, err
}

// tooLate reports whether a fence was committed only after its occurrence may have come due.
func (w *Write) tooLate(c *clock) bool {
	w.late = w.fence != 0 && w.fence <= c.latestNow()
	return w.late
}
