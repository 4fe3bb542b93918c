package front

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/store/postgres"
)

// maintainIndex does the background work, one task after another: reach the index, renew its beat, repair
// entries, fill it, look for overdue rows. Only it enters the index.
func (s *Store) maintainIndex(ctx context.Context) {
	defer close(s.kept)
	b := backoff.New(s.pace.again/16, s.pace.again)
	for ctx.Err() == nil {
		wait, err := s.doDueWork(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("maintaining the index of due times failed; will retry", "error", err)
		}
		if err == nil && !s.state.currentView().isIndexAway() {
			b.Reset()
			backoff.SleepOr(ctx, wait, s.pending.wake)
			continue
		}
		b.Pause(ctx)
	}
}

// doDueWork does the work that is due, and returns the time until more is due.
func (s *Store) doDueWork(ctx context.Context) (wait time.Duration, err error) {
	v := s.state.currentView()
	if v.isIndexAway() {
		s.establishIndex(ctx)
		return 0, nil
	}
	if _, overflow := s.pending.countPendingKeys(); overflow {
		s.suspendIndex(v, errBehind)
		return 0, nil
	}
	if wait, err = s.heartbeatWhenDue(ctx, v); err != nil {
		return 0, err
	}
	if keys := s.pending.takeSome(chunk); len(keys) > 0 {
		wait = 0 // there may be more keys, and these must be marked as repaired
		if _, err := s.correctEntries(ctx, v, keys); err != nil {
			s.pending.addPending(keys...)
			return 0, ignoreIndex(err)
		}
	}
	step := s.netStep
	if v.level > 0 {
		step = s.syncStep
	}
	pause, err := step(ctx, v)
	return min(wait, pause), err
}

// correctEntries corrects the entries of keys, and returns how many it added or moved. It marks their rows as
// written, so that a reader that has skipped them finds them with its token; again and again, until the index
// has them in time. It deletes an entry only if the entry existed before its row was looked up and found
// missing.
func (s *Store) correctEntries(ctx context.Context, v view, keys []rouse.Key) (repaired int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	var before []entry
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		before, err = s.index.lookupEntries(ctx, v.id, keys)
		return err
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	rows, err := s.SyncKeys(ctx, v.id, s.owner, keys)
	if err != nil {
		return 0, err
	}
	seen := make([]string, len(before))
	for i := range before {
		seen[i] = before[i].value
	}
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		repaired, err = s.index.repairEntries(ctx, v.id, rows, seen)
		return err
	})
	if err == nil && s.arrivedLate(began) {
		s.pending.addPending(keys...)
	}
	return repaired, err
}

// establishIndex determines the state of the index. It creates a missing index, and replaces one that cannot
// be trusted.
func (s *Store) establishIndex(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	now, err := s.tryEstablish(ctx)
	if err != nil {
		s.state.mu.Lock()
		s.state.was = err
		s.state.mu.Unlock()
		return
	}
	period := s.state.recordReturn(now)
	s.tokens.beginPeriod(period)
	s.o.Log.Info("the index of due times is available", "level", now.level, "id", now.id)
}

func (s *Store) tryEstablish(ctx context.Context) (now stand, err error) {
	short, cancel := context.WithTimeout(ctx, 2*s.o.Timeout)
	defer cancel()
	if err := s.index.refuseEviction(short); err != nil {
		return now, err
	}
	for try := 0; ; try++ {
		if now, err = s.index.openOrCreate(short, 0, 0); err != nil {
			return now, err
		}
		kept, err := s.IndexBeat(ctx, s.o.Prefix)
		if err != nil {
			return now, err
		}
		_, overflow := s.pending.countPendingKeys()
		switch {
		case now.id != 0 && now.id == kept.ID && now.beat >= kept.Beat-s.pace.beats.Milliseconds() && !overflow:
			return now, nil
		case now.id != 0 && now.id != kept.ID && !overflow && try < 3: // the node that created it has not recorded that yet
			backoff.Sleep(short, s.o.Timeout/4)
			continue
		}
		id := rand.Int64N(math.MaxInt64-1) + 1
		if now, err = s.index.openOrCreate(short, id, now.id); err != nil {
			return now, err
		}
		if now.id != id {
			continue // another node was faster
		}
		s.pending.clearOverflow()
		for {
			set, err := s.SetIndexBeat(ctx, s.o.Prefix, postgres.IndexBeat{ID: now.id, Beat: now.beat}, kept)
			if err != nil || set {
				return now, err
			}
			if kept, err = s.IndexBeat(ctx, s.o.Prefix); err != nil {
				return now, err
			}
		}
	}
}

// heartbeatWhenDue renews the beat when it is due, and returns the time until the next one.
func (s *Store) heartbeatWhenDue(ctx context.Context, v view) (time.Duration, error) {
	y := &s.sync
	if left := time.Until(y.beat.Add(s.pace.beat)); left > 0 {
		return left, nil
	}
	now, _, err := s.sendHeartbeat(ctx, v, nil)
	if err != nil {
		return 0, ignoreIndex(err)
	}
	y.beat = time.Now()
	if time.Since(y.copied) < s.pace.copy {
		return s.pace.beat, nil
	}
	old, err := s.IndexBeat(ctx, s.o.Prefix)
	switch {
	case err != nil:
		return 0, err
	case old.ID != now.id: // another node created a new index
		s.suspendIndex(v, errReplaced)
		return 0, nil
	case now.beat-old.Beat >= s.pace.copy.Milliseconds()/2:
		if _, err := s.SetIndexBeat(ctx, s.o.Prefix, postgres.IndexBeat{ID: now.id, Beat: now.beat}, old); err != nil {
			return 0, err
		}
	}
	y.copied = time.Now()
	return s.pace.beat, nil
}

// ignoreIndex drops the error that the index is unavailable: suspendIndex has logged it.
func ignoreIndex(err error) error {
	if errors.Is(err, errIndex) {
		return nil
	}
	return err
}

// sendHeartbeat sends a beat with the criticalities of which this store found all rows marked. It may begin a
// batch.
func (s *Store) sendHeartbeat(ctx context.Context, v view, b *batch) (now stand, dead []string, err error) {
	y := &s.sync
	clean, least := rouse.MaxCriticality+1, int64(0)
	if y.id == v.id {
		clean = y.clean
	}
	if y.period == v.period {
		least = y.last - s.pace.beats.Milliseconds()
	}
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		now, dead, err = s.index.recordHeartbeat(ctx, v.id, least, clean, s.pace.given, b)
		return err
	})
	if err == nil {
		y.period, y.last = v.period, now.beat
	}
	if err == nil && s.state.recordLevel(v.id, now.level) {
		s.o.Log.Info("the index of due times is complete", "rows added by this node", s.counts.synced.Load())
	}
	return now, dead, err
}
