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

// crowds bound how many rows stand next to one timer: overlapping occurrences and dead letters. The node
// keeps the last count plus what it added since. That is never too low, except for rows that other nodes
// added; when it reaches the bound, the rows are counted again.
type crowds struct {
	*env
	buried chan rouse.Key // timers that may have too many dead letters

	mu    sync.Mutex
	live  map[rouse.Key]int
	dead  map[rouse.Key]int
	total Crowds
}

func newCrowds(v *env) *crowds { return &crowds{env: v, buried: make(chan rouse.Key, 1024)} }

// Crowds counts how often the bounds on rows of single timers took effect.
type Crowds struct {
	Overlaps uint64 // evaluations of a timer at its overlap limit, each of which skipped what was due
	Dropped  uint64 // dead letters deleted because their timer had too many
}

// counts returns these counts since the start.
func (c *crowds) counts() Crowds {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

const (
	// maxCrowds bounds the timers whose counts are cached; beyond it the cache is cleared.
	maxCrowds = 100_000
	// crowdedLook is how soon a timer at its overlap limit is evaluated again.
	crowdedLook = 900 * time.Millisecond
	countWait   = 5 * time.Second // timeout of a count in the store
	dropPage    = 500             // dead letters read or deleted at a time
)

// joined adds one row to a timer's count and returns the count; known is false if its rows have not been
// counted.
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

// detach starts the due occurrence next to those in progress, or skips it if there are too many. If that
// needs a count and the meter has a limit, it is left to a later evaluation.
func (c *crowds) detach(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
	if t.Attempts != 0 || len(t.Runs) > 0 || t.Paused || t.Due > now || s == nil {
		return rouse.Step{Keep: true}
	}
	most := c.opts.MaxOverlap
	if most < 0 {
		return t.Detach(now, s)
	}
	c.mu.Lock()
	n, known := c.live[t.Key]
	c.mu.Unlock()
	if !known || n >= most {
		if m, is := s.(*schedulecache.Meter); is && m.Limit > 0 {
			m.Out = true
			return rouse.Step{Keep: true}
		}
		n = c.count(t.Key, rouse.StateFiring)
		c.mu.Lock()
		counted(&c.live, t.Key, n)
		if n >= most {
			c.total.Overlaps++
		}
		c.mu.Unlock()
		if n >= most {
			c.opts.Events.limited("max-overlap", t.Key)
		}
	}
	if n >= most {
		return t.SkipOverLimit(most, now, now.Add(crowdedLook), s)
	}
	return t.Detach(now, s)
}

// note counts the rows that were written next to timers. It runs after the write, because a step may be
// computed several times before it is written.
func (c *crowds) note(items []*Write) {
	for _, w := range items {
		if w.result == nil || !w.result.Applied {
			continue
		}
		for i := range w.Change.Also {
			c.noteRow(&w.Change.Also[i])
		}
		if to := w.Change.To; to != nil && to.State == rouse.StateDead {
			c.noteRow(to)
		}
	}
}

// noteRow counts one row next to a timer.
func (c *crowds) noteRow(row *rouse.Row) {
	key := rouse.Key{Namespace: row.Key.Namespace, Name: row.Key.Name}
	switch row.State {
	case rouse.StateFiring:
		c.mu.Lock()
		joined(&c.live, key)
		c.mu.Unlock()
	case rouse.StateDead:
		c.noteDead(key)
	}
}

// count counts the rows in a state next to a timer. It returns 0 if the store does not answer: the store then
// accepts no new rows either.
func (c *crowds) count(key rouse.Key, st rouse.State) int {
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	n, err := c.store.Count(ctx, rouse.Query{Namespace: key.Namespace, Name: key.Name, States: []rouse.State{st}})
	if err != nil {
		c.opts.Events.failed("count", err)
		return 0
	}
	return int(n)
}

// noteDead counts a new dead letter, and requests trimming if there may be too many.
func (c *crowds) noteDead(key rouse.Key) {
	if c.opts.DeadPerTimer < 0 {
		return
	}
	c.mu.Lock()
	n, known := joined(&c.dead, key)
	c.mu.Unlock()
	if known && n <= c.opts.DeadPerTimer+c.opts.DeadPerTimer/10 {
		return
	}
	select {
	case c.buried <- key:
	default: // the next dead letter requests it again
	}
}

// trimDead deletes the oldest dead letters of a timer that has too many.
func (c *crowds) trimDead(ctx context.Context, key rouse.Key, w *commits) error {
	n := c.count(key, rouse.StateDead)
	if n > c.opts.DeadPerTimer {
		type letter struct {
			key rouse.Key
			due rouse.Instant
		}
		var letters []letter
		q := rouse.Query{Namespace: key.Namespace, Name: key.Name, States: []rouse.State{rouse.StateDead}}
		q.Limit = dropPage
		for {
			page, err := c.store.List(ctx, q)
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
		old := letters[:max(0, len(letters)-c.opts.DeadPerTimer)]
		for len(old) > 0 {
			part := old[:min(len(old), dropPage)]
			old = old[len(part):]
			items := make([]*Write, len(part))
			for i := range part {
				items[i] = &Write{Change: rouse.Change{Key: part[i].key, If: rouse.AnyRevision}}
			}
			if _, err := w.do(ctx, items); err != nil {
				return err
			}
			n -= len(part)
			c.mu.Lock()
			c.total.Dropped += uint64(len(part))
			c.mu.Unlock()
			c.opts.Events.limited("dead-per-timer", key)
		}
	}
	c.mu.Lock()
	counted(&c.dead, key, n)
	c.mu.Unlock()
	return nil
}
