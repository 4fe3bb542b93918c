package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/batch"
	"github.com/rousehq/rouse/internal/boottime"
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

// rechecks look at the revisions of rows once more before they are sent.
type rechecks struct {
	*env
	memory   *memory
	holds    *holds
	outcomes *outcomes
	rescans  *rescans
	batch    *batch.Writer[rouse.Key, uint64]
}

func newRechecks(m *memory, s *rescans) *rechecks {
	r := &rechecks{env: m.env, memory: m, holds: m.holds, outcomes: m.outcomes, rescans: s}
	r.batch = batch.New(batch.Options{MaxItems: r.opts.MaxCommit, MaxBytes: 8 << 20, Queue: r.opts.Queue},
		func(k rouse.Key) int { return len(k.Namespace) + len(k.Name) + len(k.Fire) }, r.readRevisions, nil)
	return r
}

// recheckTaken removes entries that another node changed or may fire by now. It checks their revisions once
// more, after they came due and just before they are sent. This check detects rows that were deleted or
// replaced before they came due; a later delete is told that an attempt may be out (MayBeOut). So no attempt
// starts after a delete that reported none.
func (r *rechecks) recheckTaken(ctx context.Context, ln *lane, taken []*entry,
	fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	revisions, err := r.revisionsOf(ctx, taken)
	if err != nil {
		r.opts.Events.emitFailed("look", err)
	}
	now, relied := time.Now(), boottime.Now()
	var stale []*entry
	live, left = taken[:0], fires[:0]
	r.memory.Lock()
	for i, en := range taken {
		unseen, lost := revisions[i] == notSeen || revisions[i] == 0 && err != nil, r.holds.isLost(en, relied)
		switch {
		case en.orphan, en.awaited && (unseen || lost || en.row.Revision != en.token):
			o := rouse.Outcome{Verdict: rouse.Deferred}
			if unseen {
				o.Cause = rouse.CauseStoreUnavailable
			}
			r.outcomes.addOutcome(reported{en: en, o: o, fire: true})
			continue
		case unseen:
			en.lane = nil
			r.memory.window.placeAt(en, r.Now().Add(lookAgain))
		case en.row.Revision != en.token: // changed on this node since
			en.lane = nil
			r.memory.relocateEntry(en, r.Now())
		case revisions[i] != en.token:
			en.lane = nil
			r.memory.window.dropEntry(en)
			stale = append(stale, en)
		case lost:
			r.memory.giveUpEntry(en)
		default:
			en.passed = true
			live, left = append(live, en), append(left, fires[i])
			continue
		}
		r.memory.lanes.endFires(ln, 1, en.load, now)
	}
	r.memory.Unlock()
	if len(stale) > 0 {
		r.refreshStale(ctx, stale)
	}
	return live, left
}

// recently is the maximum age of a revision known from a commit or a claim that needs no further check.
const recently = 500 * time.Millisecond

// revisionsOf returns the current revisions of the entries' rows; for recently checked entries, the known
// one. On an error, revisions that could not be read are 0.
func (r *rechecks) revisionsOf(ctx context.Context, taken []*entry) (revisions []uint64, err error) {
	revisions = make([]uint64, len(taken))
	var keys []rouse.Key
	var at []int
	now := boottime.Now()
	r.memory.Lock()
	for i, en := range taken {
		if !en.checked.IsZero() && now.Sub(en.checked) < recently && en.row.Revision == en.token {
			revisions[i] = en.token
			continue
		}
		keys, at = append(keys, en.row.Key), append(at, i)
	}
	r.memory.Unlock()
	if len(keys) == 0 {
		return revisions, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	seen, err := r.batch.Do(ctx, keys)
	if err != nil {
		return revisions, err
	}
	for i, revision := range seen {
		revisions[at[i]] = revision
	}
	return revisions, nil
}

// notSeen is the revision of a row in a part of the store that did not answer.
const notSeen = rouse.AnyRevision

// readRevisions reads the revisions that several deliveries need in one call.
func (r *rechecks) readRevisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	end := r.beginCall()
	revisions, err := r.others.Revisions(ctx, keys)
	end(err == nil)
	if partial, ok := errors.AsType[*rouse.Partial](err); ok {
		for _, n := range partial.Unknown {
			revisions[n] = notSeen
		}
		return revisions, nil
	}
	return revisions, err
}

// refreshStale reads rows that others changed and keeps those that are still this node's: in its buckets or
// under its hold. Rows that cannot be read now are found by a rescan or when the hold expires.
func (r *rechecks) refreshStale(ctx context.Context, stale []*entry) {
	r.opts.Events.emitConflict(len(stale))
	keys := make([]rouse.Key, len(stale))
	for i, en := range stale {
		keys[i] = en.row.Key
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	rows, err := r.store.Get(ctx, keys)
	if err != nil {
		r.opts.Events.emitFailed("get", err)
		r.rescans.requestFullRescan() // the change may be older than the changes that the next rescan reads
		return
	}
	r.memory.Lock()
	defer r.memory.Unlock()
	now := r.Now()
	for i := range rows {
		row := rows[i]
		if row.Revision == 0 || r.memory.window.entries.entryByKey(row.Key) != nil {
			continue
		}
		hidden := row.Visible
		r.memory.takeRow(&row, r.holds.heldOn(stale[i], &row), now)
		if en := r.memory.window.entries.entryByKey(row.Key); en != nil {
			en.hidden = hidden
		} else if r.mayReturn(stale[i], &row) {
			r.memory.recheckLater(stale[i], now)
		}
	}
}

// mayReturn reports whether a row that this node held and another node fenced may come back under that hold:
// hidden, at the same occurrence.
func (r *rechecks) mayReturn(was *entry, row *rouse.Row) bool {
	if !boottime.Now().Before(was.held) || row.Visible <= r.Now() || row.Generation != was.row.Generation {
		return false
	}
	t, err := r.opts.Read(row)
	if err != nil || t.Attempts != 0 {
		return false
	}
	occ, ok := t.Current()
	return ok && occ == was.occ
}
