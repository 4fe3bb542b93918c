package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// An edit judges whether an attempt of a timer's occurrence may be out with another node, and is written after that. If the occurrence comes
// due in between, the node that has it sends it by the version that the edit replaces. So what comes due soon, and another node has, is
// fenced first: this node takes it over by a write that changes nothing else, and judges again when that is committed. If that was before the
// occurrence came due, the other node's look finds another revision, and this node has the timer. If not, the timer goes back to the other
// node, and the edit leaves it there, as any that comes while an attempt may be out.

// fenceAhead is how soon an occurrence comes due for an edit to fence it: longer than a commit takes where nothing is wrong.
const fenceAhead = 5 * time.Second

// Contested reports whether another node may begin an attempt of a timer, by the version that was read, while this one edits it. stored is its
// Visible in the store.
func (e *Engine) Contested(t *rouse.Timer, stored rouse.Instant, in Hands) bool {
	if e.others == nil || in.Mine || in.Until != 0 || t.Paused || t.Token != 0 || t.Key.Fire != "" && !t.Live {
		return false
	}
	occ, ok := t.Current()
	if !ok {
		return false
	}
	due := t.SentAt(occ.Due)
	if h := e.grant.Load(); stored <= due && (h.span != 0 || h.owns(t.Bucket) && !h.lapsed(time.Now())) {
		return false // no node holds it: who takes it writes that, or is this one
	}
	return due <= e.clock.latest().Add(fenceAhead)
}

// Fence takes a timer over, as Contested asks, and returns its revision then; 0 if it has to be judged by what the store has now.
func (e *Engine) Fence(ctx context.Context, t *rouse.Timer, stored rouse.Instant) (revision uint64, err error) {
	occ, _ := t.Current()
	row := t.Row()
	w := &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, fence: t.SentAt(occ.Due)}
	r, err := e.WriteOne(ctx, w)
	if err != nil || !r.Applied {
		return 0, err
	}
	if !w.late {
		return r.Revision, nil
	}
	back := row
	back.Visible = max(stored, w.fence) + 1 // the end of the other node's hold, as an edit leaves it
	_, err = e.WriteOne(ctx, &Write{Change: rouse.Change{Key: row.Key, If: r.Revision, To: &back}, Plain: true})
	return 0, err
}

// Fenced returns the Hands of a timer that this node has taken over by a fence: nothing of it was sent by the version before.
func (e *Engine) Fenced(t *rouse.Timer, in Hands) Hands {
	if occ, ok := t.Current(); ok {
		t.Visible = t.SentAt(occ.Due)
	}
	return Hands{Mine: true, Known: true, Out: in.Out}
}

// WriteOne makes one write.
func (e *Engine) WriteOne(ctx context.Context, w *Write) (Written, error) {
	out, err := e.writer.Do(ctx, []*Write{w})
	if err != nil {
		return Written{}, err
	}
	return out[0], out[0].Err
}

// tooLate says whether a fence was committed only when its occurrence may have come due. The mutex is held.
func (e *Engine) tooLate(w *Write) bool {
	w.late = w.fence != 0 && w.fence <= e.clock.latest()
	return w.late
}
