package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
)

const (
	// lookTimeout bounds a revision check, including the wait for other checks before it.
	lookTimeout = 5 * time.Second
	// lookAgain is when a row is retried whose revision could not be checked.
	lookAgain = 500 * time.Millisecond
)

// markChecked records that the store confirmed this revision at the given time. If the row was already due
// then, no further revision check is needed before it is sent.
func (en *entry) markChecked(asked time.Time, store rouse.Instant) {
	if store >= en.row.Visible {
		en.checked = asked
	}
}

// unchanged removes entries that another node changed or may fire by now. It checks their revisions once
// more, after they came due and just before they are sent. This check detects rows that were deleted or
// replaced before they came due; a later delete is told that an attempt may be out (MayBeOut). So no attempt
// starts after a delete that reported none.
func (e *Engine) unchanged(ln *lane, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	revisions, err := e.revisionsOf(taken)
	if err != nil {
		e.opts.Events.failed("look", err)
		e.hindrances.answered(false, e.Now(), e.Now())
	}
	now := time.Now()
	var stale []*entry
	live, left = taken[:0], fires[:0]
	e.memory.Lock()
	for i, en := range taken {
		if en.orphan {
			e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred}, fire: true})
			continue
		}
		switch {
		case revisions[i] == notSeen || revisions[i] == 0 && err != nil:
			en.lane = nil
			e.memory.window.placeAt(en, e.Now().Add(lookAgain))
		case en.row.Revision != en.token: // changed on this node since
			en.lane = nil
			e.memory.relocate(en, e.Now())
		case revisions[i] != en.token:
			en.lane = nil
			e.memory.window.drop(en)
			stale = append(stale, en)
		case e.holds.lost(en, now):
			e.memory.giveUp(en)
		default:
			en.passed = true
			live, left = append(live, en), append(left, fires[i])
			continue
		}
		e.memory.lanes.reported(ln, 1, now)
	}
	e.memory.Unlock()
	if len(stale) > 0 {
		e.refresh(stale)
	}
	return live, left
}

// recently is the maximum age of a revision known from a commit or a claim that needs no further check.
const recently = 500 * time.Millisecond

// revisionsOf returns the current revisions of the entries' rows; for recently checked entries, the known
// one. On an error, revisions that could not be read are 0.
func (e *Engine) revisionsOf(taken []*entry) (revisions []uint64, err error) {
	revisions = make([]uint64, len(taken))
	var keys []rouse.Key
	var at []int
	now := time.Now()
	e.memory.Lock()
	for i, en := range taken {
		if !en.checked.IsZero() && now.Sub(en.checked) < recently && en.row.Revision == en.token {
			revisions[i] = en.token
			continue
		}
		keys, at = append(keys, en.row.Key), append(at, i)
	}
	e.memory.Unlock()
	if len(keys) == 0 {
		return revisions, nil
	}
	ctx, cancel := context.WithTimeout(e.deliver, lookTimeout)
	defer cancel()
	seen, err := e.checks.Do(ctx, keys)
	if err != nil {
		return revisions, err
	}
	for i, r := range seen {
		revisions[at[i]] = r
	}
	return revisions, nil
}

// notSeen is the revision of a row in a part of the store that did not answer.
const notSeen = rouse.AnyRevision

// readRevisions reads the revisions that several deliveries need in one call.
func (e *Engine) readRevisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
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

// refresh reads rows that others changed and keeps those that are still this node's: in its buckets or under
// its hold. Rows that cannot be read now are found by a rescan or when the hold expires.
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
		e.rescanAll() // the change may be older than what the next rescan reads
		return
	}
	e.memory.Lock()
	defer e.memory.Unlock()
	now := e.Now()
	for i := range rows {
		row := rows[i]
		if row.Revision == 0 || e.memory.window.entries[row.Key] != nil {
			continue
		}
		hidden := row.Visible
		e.memory.take(&row, e.holds.heldOn(stale[i], &row), now)
		if en := e.memory.window.entries[row.Key]; en != nil {
			en.hidden = hidden
		} else if e.mayReturn(stale[i], &row) {
			e.memory.recheckLater(stale[i], now)
		}
	}
}

// mayReturn reports whether a row that this node held and another node fenced may come back under that hold:
// hidden, at the same occurrence.
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
