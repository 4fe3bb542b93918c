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

// keep does what no call waits for, one after another: reach the index, keep its beat, mend entries, fill it, look for overdue rows. It
// alone enters the index.
func (s *Store) keep(ctx context.Context) {
	defer close(s.kept)
	b := backoff.New(s.pace.again/16, s.pace.again)
	for ctx.Err() == nil {
		wait, err := s.tend(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("keeping the index of due times failed, will try again", "error", err)
		}
		if err == nil && !s.state.view().away() {
			b.Reset()
			backoff.SleepOr(ctx, wait, s.pending.wake)
			continue
		}
		b.Pause(ctx)
	}
}

// tend does what is due, and says how long there is nothing to do.
func (s *Store) tend(ctx context.Context) (wait time.Duration, err error) {
	v := s.state.view()
	if v.away() {
		s.enter(ctx)
		return 0, nil
	}
	if _, overflow := s.pending.len(); overflow {
		s.lose(v, errBehind)
		return 0, nil
	}
	if wait, err = s.beating(ctx, v); err != nil {
		return 0, err
	}
	if keys := s.pending.some(chunk); len(keys) > 0 {
		wait = 0 // there may be more, and these are to be seen off
		if _, err := s.heal(ctx, v, keys); err != nil {
			s.pending.add(keys...)
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

// heal puts the entries of keys right, and returns how many it added or moved. Their rows count as written by it, so that who has passed
// them finds them by a token. An entry goes only if it was there before its row was looked for, and found missing.
func (s *Store) heal(ctx context.Context, v view, keys []rouse.Key) (mended int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	var before []entry
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		before, err = s.index.look(ctx, v.id, keys)
		return err
	})
	if err != nil {
		return 0, err
	}
	rows, err := s.SyncKeys(ctx, v.id, s.owner, keys)
	if err != nil {
		return 0, err
	}
	seen := make([]string, len(before))
	for i := range before {
		seen[i] = before[i].value
	}
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		mended, err = s.index.mend(ctx, v.id, rows, seen)
		return err
	})
	return mended, err
}

// enter finds out how the index is. One that is not there is begun; one that cannot be trusted is thrown away, and another begun.
func (s *Store) enter(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	now, err := s.entered(ctx)
	if err != nil {
		s.state.mu.Lock()
		s.state.was = err
		s.state.mu.Unlock()
		return
	}
	period := s.state.back(now)
	s.tokens.begin(period)
	s.o.Log.Info("the index of due times is there", "level", now.level, "id", now.id)
}

func (s *Store) entered(ctx context.Context) (now stand, err error) {
	short, cancel := context.WithTimeout(ctx, 2*s.o.Timeout)
	defer cancel()
	if err := s.index.fit(short); err != nil {
		return now, err
	}
	for try := 0; ; try++ {
		if now, err = s.index.enter(short, 0, 0); err != nil {
			return now, err
		}
		kept, err := s.IndexBeat(ctx, s.o.Prefix)
		if err != nil {
			return now, err
		}
		_, overflow := s.pending.len()
		switch {
		case now.id != 0 && now.id == kept.ID && now.beat >= kept.Beat-s.pace.beats.Milliseconds() && !overflow:
			return now, nil
		case now.id != 0 && now.id != kept.ID && !overflow && try < 3: // who has begun it is about to say so
			backoff.Sleep(short, s.o.Timeout/4)
			continue
		}
		id := rand.Int64N(math.MaxInt64-1) + 1
		if now, err = s.index.enter(short, id, now.id); err != nil {
			return now, err
		}
		if now.id != id {
			continue // another one was faster
		}
		s.pending.clear()
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

// beating keeps the beat, and says how long until the next.
func (s *Store) beating(ctx context.Context, v view) (time.Duration, error) {
	y := &s.sync
	if left := time.Until(y.beat.Add(s.pace.beat)); left > 0 {
		return left, nil
	}
	now, _, err := s.report(ctx, v, nil)
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
	case old.ID != now.id: // somebody has begun another one
		s.lose(v, errReplaced)
		return 0, nil
	case now.beat-old.Beat >= s.pace.copy.Milliseconds()/2:
		if _, err := s.SetIndexBeat(ctx, s.o.Prefix, postgres.IndexBeat{ID: now.id, Beat: now.beat}, old); err != nil {
			return 0, err
		}
	}
	y.copied = time.Now()
	return s.pace.beat, nil
}

// ignoreIndex forgets that the index is away: lose has said it.
func ignoreIndex(err error) error {
	if errors.Is(err, errIndex) {
		return nil
	}
	return err
}

// report is a beat: it says which rows this store found to be marked, and may begin a batch.
func (s *Store) report(ctx context.Context, v view, b *batch) (now stand, dead []string, err error) {
	y := &s.sync
	clean, least := rouse.MaxCriticality+1, int64(0)
	if y.id == v.id {
		clean = y.clean
	}
	if y.period == v.period {
		least = y.last - s.pace.beats.Milliseconds()
	}
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		now, dead, err = s.index.beat(ctx, v.id, least, clean, s.pace.given, b)
		return err
	})
	if err == nil {
		y.period, y.last = v.period, now.beat
	}
	if err == nil && s.state.reached(v.id, now.level) {
		s.o.Log.Info("the index of due times is complete", "rows put in here", s.counts.synced.Load())
	}
	return now, dead, err
}
