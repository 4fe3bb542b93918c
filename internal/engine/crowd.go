package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// crowds bound how many rows stand next to one timer: occurrences that overlap, and dead letters. What this node knows of a timer is
// the number at the last count and what it has added since, which is never too low, but for what other nodes have added; a timer is
// counted again when that reaches its bound.
type crowds struct {
	mu    sync.Mutex
	live  map[rouse.Key]int
	dead  map[rouse.Key]int
	total Crowds
}

// Crowds counts what bounds on the rows of single timers came to.
type Crowds struct {
	Overlaps uint64 // looks at a timer with as many occurrences in progress as it may have, which skipped what was due
	Dropped  uint64 // dead letters that were dropped because their timer had too many
}

// Crowds returns what bounds on the rows of single timers came to so far.
func (e *Engine) Crowds() Crowds {
	e.crowds.mu.Lock()
	defer e.crowds.mu.Unlock()
	return e.crowds.total
}

const (
	// maxCrowds bounds the timers that are known; if there are more, they are counted again.
	maxCrowds = 100_000
	// crowdedLook is how soon a timer with as many occurrences in progress as it may have is looked at again.
	crowdedLook = 900 * time.Millisecond
	countWait   = 5 * time.Second // for the store to count
	dropPage    = 500             // dead letters that are read, or dropped, at a time
)

// joined notes one more row of a timer, and returns how many there may be; it is false if they have not been counted.
func joined(m *map[rouse.Key]int, key rouse.Key) (n int, known bool) {
	n, known = (*m)[key]
	if known {
		(*m)[key] = n + 1
	}
	return n + 1, known
}

func counted(m *map[rouse.Key]int, key rouse.Key, n int) {
	if *m == nil || len(*m) >= maxCrowds {
		*m = map[rouse.Key]int{}
	}
	(*m)[key] = n
}

// detach starts the occurrence of a timer that is due next to those in progress, or skips what is due if there are too many. Where
// that needs a count, and the meter has a limit, it is for another turn.
func (e *Engine) detach(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
	if t.Attempts != 0 || len(t.Runs) > 0 || t.Paused || t.Due > now || s == nil {
		return rouse.Step{Keep: true}
	}
	most := e.opts.MaxOverlap
	if most < 0 {
		return t.Detach(now, s)
	}
	e.crowds.mu.Lock()
	n, known := e.crowds.live[t.Key]
	e.crowds.mu.Unlock()
	if !known || n >= most {
		if m, is := s.(*schedulecache.Meter); is && m.Limit > 0 {
			m.Out = true
			return rouse.Step{Keep: true}
		}
		n = e.crowd(t.Key, rouse.StateFiring)
		e.crowds.mu.Lock()
		counted(&e.crowds.live, t.Key, n)
		if n >= most {
			e.crowds.total.Overlaps++
		}
		e.crowds.mu.Unlock()
		if n >= most {
			e.opts.Events.limited("max-overlap", t.Key)
		}
	}
	if n >= most {
		return t.Crowded(most, now, now.Add(crowdedLook), s)
	}
	return t.Detach(now, s)
}

// noteCrowds counts the rows next to timers that were written, once for each: a step may be made several times before it is.
func (e *Engine) noteCrowds(items []*Write) {
	for _, w := range items {
		if w.result == nil || !w.result.Applied {
			continue
		}
		for i := range w.Change.Also {
			e.noteCrowd(&w.Change.Also[i])
		}
		if to := w.Change.To; to != nil && to.State == rouse.StateDead {
			e.noteCrowd(to)
		}
	}
}

// noteCrowd counts one row next to a timer.
func (e *Engine) noteCrowd(row *rouse.Row) {
	key := rouse.Key{Namespace: row.Key.Namespace, Name: row.Key.Name}
	switch row.State {
	case rouse.StateFiring:
		e.crowds.mu.Lock()
		joined(&e.crowds.live, key)
		e.crowds.mu.Unlock()
	case rouse.StateDead:
		e.noteDead(key)
	}
}

// crowd counts the rows of a state next to a timer; none if the store does not answer, which then refuses more anyway.
func (e *Engine) crowd(key rouse.Key, st rouse.State) int {
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	n, err := e.store.Count(ctx, rouse.Query{Namespace: key.Namespace, Name: key.Name, States: []rouse.State{st}})
	if err != nil {
		e.opts.Events.failed("count", err)
		return 0
	}
	return int(n)
}

// noteDead asks for a look at a timer's dead letters when there is one more, and there may be too many.
func (e *Engine) noteDead(key rouse.Key) {
	if e.opts.DeadPerTimer < 0 {
		return
	}
	e.crowds.mu.Lock()
	n, known := joined(&e.crowds.dead, key)
	e.crowds.mu.Unlock()
	if known && n <= e.opts.DeadPerTimer+e.opts.DeadPerTimer/10 {
		return
	}
	select {
	case e.buried <- key:
	default: // the next one asks again
	}
}

// trimDead drops the oldest dead letters of a timer that has too many.
func (e *Engine) trimDead(ctx context.Context, key rouse.Key) error {
	n := e.crowd(key, rouse.StateDead)
	if n > e.opts.DeadPerTimer {
		type letter struct {
			key rouse.Key
			due rouse.Instant
		}
		var letters []letter
		q := rouse.Query{Namespace: key.Namespace, Name: key.Name, States: []rouse.State{rouse.StateDead}}
		q.Limit = dropPage
		for {
			page, err := e.store.List(ctx, q)
			if err != nil {
				return err
			}
			for i := range page.Rows {
				letters = append(letters, letter{page.Rows[i].Key, page.Rows[i].Due})
			}
			if page.Next == nil {
				break
			}
			q.After = *page.Next
		}
		slices.SortFunc(letters, func(a, b letter) int { return cmp.Compare(a.due, b.due) })
		old := letters[:max(0, len(letters)-e.opts.DeadPerTimer)]
		for len(old) > 0 {
			part := old[:min(len(old), dropPage)]
			old = old[len(part):]
			items := make([]*Write, len(part))
			for i := range part {
				items[i] = &Write{Change: rouse.Change{Key: part[i].key, If: rouse.AnyRevision}}
			}
			if _, err := e.writer.Do(ctx, items); err != nil {
				return err
			}
			n -= len(part)
			e.crowds.mu.Lock()
			e.crowds.total.Dropped += uint64(len(part))
			e.crowds.mu.Unlock()
			e.opts.Events.limited("dead-per-timer", key)
		}
	}
	e.crowds.mu.Lock()
	counted(&e.crowds.dead, key, n)
	e.crowds.mu.Unlock()
	return nil
}
