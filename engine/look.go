package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

const (
	// lookTimeout bounds a look at revisions, with the wait for others' looks before it.
	lookTimeout = 5 * time.Second
	// lookAgain is when a row is tried again whose revision could not be looked at.
	lookAgain = 500 * time.Millisecond
)

// unchanged takes out what another node changed, or may fire by now: it looks at the rows' revisions once more after they came due
// and just before they are sent. What was deleted or replaced before it came due is seen by that look, and what is deleted
// later is told that an attempt may be out (mayBeOut): so no attempt starts after a delete that said that none was.
func (e *Engine) unchanged(ln *lane, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	keys := make([]rouse.Key, len(taken))
	e.mu.Lock()
	for i, en := range taken {
		keys[i] = en.row.Key
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(e.deliver, lookTimeout)
	revisions, err := e.looks.Do(ctx, keys)
	cancel()
	if err != nil {
		e.opts.Events.failed("look", err)
	}
	now := time.Now()
	var stale []rouse.Key
	e.mu.Lock()
	for i, en := range taken {
		if en.orphan {
			e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred}, fire: true})
			continue
		}
		switch {
		case err != nil:
			en.lane = nil
			e.window.placeAt(en, e.Now().Add(lookAgain))
		case en.row.Revision != en.token: // it was changed here meanwhile
			en.lane = nil
			e.settleInPlace(en, e.Now())
		case revisions[i] != en.token:
			en.lane = nil
			e.window.drop(en)
			stale = append(stale, keys[i])
		case e.lost(en, now):
			en.lane = nil
			e.window.drop(en)
		default:
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

// lookAt asks the store for the revisions that several deliveries want to know of.
func (e *Engine) lookAt(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return e.others.Revisions(ctx, keys)
}

// lost says whether this node may not send an entry any more: too little of its hold is left, or the node's ownership may have ended. The
// mutex is held.
func (e *Engine) lost(en *entry, now time.Time) bool {
	if !en.held.IsZero() {
		return en.held.Sub(now) < e.enough()
	}
	if e.others == nil {
		return false
	}
	h := e.grant.Load()
	return !h.owns(en.row.Bucket) || h.lapsed(now)
}

// refresh reads rows that others have changed, and keeps those that are this node's. What cannot be read now is found by a sweep.
func (e *Engine) refresh(keys []rouse.Key) {
	e.opts.Events.conflicted(len(keys))
	ctx, cancel := context.WithTimeout(e.deliver, lookTimeout)
	defer cancel()
	rows, err := e.store.Get(ctx, keys)
	if err != nil {
		e.opts.Events.failed("get", err)
		e.mu.Lock()
		e.swept.since = 0 // the change may lie before what the next sweep would read
		e.mu.Unlock()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for i := range rows {
		if row := &rows[i]; row.Revision != 0 && e.window.entries[row.Key] == nil {
			e.take(row, time.Time{}, now)
		}
	}
}

// mayBeOut says whether an attempt of the occurrence that a timer is at may be out with another node: one that has come due may.
func (e *Engine) mayBeOut(t *rouse.Timer) bool {
	if e.others == nil {
		return false
	}
	occ, ok := t.Current()
	if t.Paused && t.Attempts == 0 {
		return t.SentAt(t.Due) <= t.Updated // it may have been sent before the pause
	}
	return ok && (t.Attempts != 0 || occ.Manual || t.SentAt(occ.Due) <= e.clock.latest())
}
