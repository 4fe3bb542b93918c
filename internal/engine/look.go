package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
)

const (
	// lookTimeout bounds a look at revisions, with the wait for others' looks before it.
	lookTimeout = 5 * time.Second
	// lookAgain is when a row is tried again whose revision could not be looked at.
	lookAgain = 500 * time.Millisecond
)

// lookedAt notes that an answer of the store showed the entry's row, or wrote it, no earlier than a moment by this process' clock and
// the store's: if it was due by then, that was a look after it came due.
func (en *entry) lookedAt(asked time.Time, store rouse.Instant) {
	if store >= en.row.Visible {
		en.looked = asked
	}
}

// unchanged takes out what another node changed, or may fire by now: it looks at the rows' revisions once more after they came due
// and just before they are sent. What was deleted or replaced before it came due is seen by that look, and what is deleted
// later is told that an attempt may be out (MayBeOut): so no attempt starts after a delete that said that none was.
func (e *Engine) unchanged(ln *lane, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	revisions, err := e.revisionsOf(taken)
	if err != nil {
		e.opts.Events.failed("look", err)
		e.answered(false, e.Now())
	}
	now := time.Now()
	var stale []*entry
	live, left = taken[:0], fires[:0]
	e.mu.Lock()
	for i, en := range taken {
		if en.orphan {
			e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred}, fire: true})
			continue
		}
		switch {
		case revisions[i] == notSeen || revisions[i] == 0 && err != nil:
			en.lane = nil
			e.window.placeAt(en, e.Now().Add(lookAgain))
		case en.row.Revision != en.token: // it was changed here meanwhile
			en.lane = nil
			e.settleInPlace(en, e.Now())
		case revisions[i] != en.token:
			en.lane = nil
			e.window.drop(en)
			stale = append(stale, en)
		case e.lost(en, now):
			e.giveUp(en)
		default:
			en.passed = true
			live, left = append(live, en), append(left, fires[i])
			continue
		}
		e.lanes.reported(ln, 1, now)
	}
	e.mu.Unlock()
	if len(stale) > 0 {
		e.refresh(stale)
	}
	return live, left
}

// recently is how old a look may be that came by itself, with a commit or a claim, before the row is looked at again.
const recently = 500 * time.Millisecond

// revisionsOf returns the revisions that entries' rows have now, those of entries that were looked at just now as they were. With an
// error, those are 0 that could not be looked at.
func (e *Engine) revisionsOf(taken []*entry) (revisions []uint64, err error) {
	revisions = make([]uint64, len(taken))
	var keys []rouse.Key
	var at []int
	now := time.Now()
	e.mu.Lock()
	for i, en := range taken {
		if !en.looked.IsZero() && now.Sub(en.looked) < recently && en.row.Revision == en.token {
			revisions[i] = en.token
			continue
		}
		keys, at = append(keys, en.row.Key), append(at, i)
	}
	e.mu.Unlock()
	if len(keys) == 0 {
		return revisions, nil
	}
	ctx, cancel := context.WithTimeout(e.deliver, lookTimeout)
	defer cancel()
	seen, err := e.looks.Do(ctx, keys)
	if err != nil {
		return revisions, err
	}
	for i, r := range seen {
		revisions[at[i]] = r
	}
	return revisions, nil
}

// notSeen is the revision of a row whose part of the store did not answer.
const notSeen = rouse.AnyRevision

// lookAt asks the store for the revisions that several deliveries want to know of.
func (e *Engine) lookAt(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	revisions, err := e.others.Revisions(ctx, keys)
	var partial *rouse.Partial
	if errors.As(err, &partial) {
		for _, n := range partial.Unknown {
			revisions[n] = notSeen
		}
		return revisions, nil
	}
	return revisions, err
}

// lost says whether this node may not send an entry any more: too little of its hold is left, or the node's ownership may have ended. The
// mutex is held.
func (e *Engine) lost(en *entry, now time.Time) bool {
	if held := !en.held.IsZero(); held && en.held.Sub(now) >= e.enough() || !held && e.others == nil {
		return false
	}
	h := e.grant.Load()
	return !h.owns(en.row.Bucket) || h.lapsed(now)
}

// giveUp takes an entry that is lost, and neither on the wheel nor in a lane, out of memory. One of a bucket that may still be this
// node's stays: no sweep would find its row again if the ownership is renewed before anybody else had the bucket. The mutex is held.
func (e *Engine) giveUp(en *entry) {
	en.lane = nil
	if e.grant.Load().owns(en.row.Bucket) {
		e.window.placeAt(en, e.Now().Add(lookAgain))
		return
	}
	e.window.drop(en)
}

// refresh reads rows that others have changed, and keeps those that are this node's: of its buckets, or under its hold still. What
// cannot be read now is found by a sweep, or when the hold has ended.
func (e *Engine) refresh(stale []*entry) {
	e.opts.Events.conflicted(len(stale))
	keys := make([]rouse.Key, len(stale))
	for i, en := range stale {
		keys[i] = en.row.Key
	}
	ctx, cancel := context.WithTimeout(e.deliver, lookTimeout)
	defer cancel()
	rows, err := e.store.Get(ctx, keys)
	if err != nil {
		e.opts.Events.failed("get", err)
		e.sweepAll() // the change may lie before what the next sweep would read
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for i := range rows {
		row := rows[i]
		if row.Revision == 0 || e.window.entries[row.Key] != nil {
			continue
		}
		hidden := row.Visible
		e.take(&row, e.heldOn(stale[i], &row), now)
		if en := e.window.entries[row.Key]; en != nil {
			en.hidden = hidden
		} else if e.mayReturn(stale[i], &row) {
			e.lookLater(stale[i], now)
		}
	}
}

// mayReturn says whether a row that this node held, and another one has fenced, may come back under that hold: at what it was at, hidden.
func (e *Engine) mayReturn(was *entry, row *rouse.Row) bool {
	if !time.Now().Before(was.held) || row.Visible <= e.Now() || row.Generation != was.row.Generation {
		return false
	}
	t, err := e.opts.Read(row)
	if err != nil || t.Attempts != 0 {
		return false
	}
	occ, ok := t.Current()
	return ok && occ == was.occ
}

// lookLater keeps a row in memory as this node held it, to look in a moment whether it is back. The mutex is held.
func (e *Engine) lookLater(was *entry, now rouse.Instant) {
	en := e.window.add(&was.row, now)
	if en == nil {
		return
	}
	en.held, en.hidden = was.held, was.hidden
	e.window.lift(en)
	e.window.placeAt(en, now.Add(lookAgain))
}

// heldOn returns until when this node holds a row that another node has changed, and gives it the Visible that it really has: an edit
// leaves the hold of an occurrence alone that may be out (Fit). It is zero if this node's hold is over.
func (e *Engine) heldOn(was *entry, row *rouse.Row) (held time.Time) {
	if was.held.IsZero() || row.Visible <= was.hidden || row.Visible > was.hidden+maxEdits || row.Generation != was.row.Generation {
		return held
	}
	t, err := e.opts.Read(row)
	if err != nil {
		return held
	}
	occ, ok := t.Current()
	switch {
	case !ok || occ != was.occ:
		return held
	case t.Attempts != 0: // its retry: no edit moves that
		row.Visible = was.row.Visible
	case occ.Manual:
		row.Visible = occ.Due
	default:
		row.Visible = t.SentAt(occ.Due)
	}
	return was.held
}

// MayBeOut reports whether an attempt of the occurrence that a timer is at may be out with another node: one that has come due may.
func (e *Engine) MayBeOut(t *rouse.Timer) bool {
	if e.others == nil {
		return false
	}
	if t.Key.Fire != "" && !t.Live {
		return false
	}
	return t.Attempts != 0 || len(t.Runs) > 0 || e.dueMayBeOut(t)
}

// dueMayBeOut says the same of the scheduled occurrence that a timer is at, be there a run beside it or not.
func (e *Engine) dueMayBeOut(t *rouse.Timer) bool {
	switch {
	case e.others == nil:
		return false
	case t.Attempts != 0:
		return !t.Manual
	case t.Paused:
		return t.Began != 0 // it may have been sent before the pause
	}
	return t.SentAt(t.Due) <= e.clock.latest()
}

// outUntil returns until when an attempt may be out with another node of the scheduled occurrence that a paused timer is at: the pause
// has ended the hold that it had there. It is 0 if there is none.
func (e *Engine) outUntil(t *rouse.Timer) rouse.Instant {
	switch {
	case !t.Paused || !e.dueMayBeOut(t):
		return 0
	case t.Attempts == 0:
		return t.Began.Add(e.opts.Hold)
	}
	return t.Updated.Add(e.opts.Hold)
}
