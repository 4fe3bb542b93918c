package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// crowds bound how many rows stand next to one timer, and next to all timers of a namespace with a quota:
// overlapping occurrences and dead letters. The node keeps the last count plus the rows it added since. That
// is never too low, except for rows that other nodes added; when it reaches the bound, the rows are counted
// again. The key of a namespace's count has no name.
type crowds struct {
	*env
	buried chan rouse.Key // timers and namespaces that may have too many dead letters

	mu    sync.Mutex
	live  map[rouse.Key]int
	dead  map[rouse.Key]int
	space map[string]*allowance // of the overlapping occurrences of namespaces with a quota
	total Crowds

	notices map[rouse.Key]noticeCount // that wait, of timers and namespaces
}

// allowance is how many occurrences this node may start in a namespace before it counts them again: other
// nodes start some, too.
type allowance struct {
	until time.Time
	most  int
	begun map[rouse.Key]time.Time // occurrences that are not written yet, since when
}

func newCrowds(v *env) *crowds { return &crowds{env: v, buried: make(chan rouse.Key, 1024)} }

// Crowds counts how often the bounds on rows of single timers took effect.
type Crowds struct {
	Overlaps uint64 // evaluations of a timer at an overlap limit, each of which skipped a due occurrence
	Dropped  uint64 // dead letters deleted because their timer or namespace had too many
	Notices  uint64 // notices and callbacks that were skipped because too many waited
}

// limitCounts returns these counts since the start.
func (c *crowds) limitCounts() Crowds {
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
	countPage   = 100             // occurrences read at a time, with their payloads
	dropPage    = 500             // dead letters read or deleted at a time
	maxDrop     = 5000            // dead letters that one trim deletes
	// spaceAge is how long a count of a namespace is used where other nodes write, too, and how long an
	// occurrence counts that begins and is not written.
	spaceAge = time.Second
)

// incrementCount adds one row to a timer's count and returns the count; known is false if its rows have not
// been counted.
func incrementCount(m *map[rouse.Key]int, key rouse.Key) (n int, known bool) {
	n, known = (*m)[key]
	if known {
		(*m)[key] = n + 1
	}
	return n + 1, known
}

func cacheCount(m *map[rouse.Key]int, key rouse.Key, n int) {
	if *m == nil || len(*m) >= maxCrowds {
		*m = map[rouse.Key]int{}
	}
	(*m)[key] = n
}

// detachOrSkip starts the due occurrence next to those in progress, or skips it if there are too many. If
// that needs a count and the meter has a limit, it is left to a later evaluation.
func (c *crowds) detachOrSkip(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
	if t.Attempts != 0 || len(t.Runs) > 0 || t.Paused || t.Due > now || s == nil {
		return rouse.Step{Keep: true}
	}
	for _, bound := range c.overlapBounds(t.Key) {
		if c.hasRoom(bound) {
			continue
		}
		m, metered := s.(*schedulecache.Meter)
		if metered && m.Limit > 0 {
			m.Out = true
			return rouse.Step{Keep: true}
		}
		n, looks := c.recountFiring(bound)
		if metered {
			m.Steps += looks // a namespace pays for the steps that others wait for
		}
		if n >= bound.most {
			c.mu.Lock()
			c.total.Overlaps++
			c.mu.Unlock()
			c.opts.Events.emitLimited(bound.name, t.Key)
			return t.SkipOverLimit(bound.most, now, now.Add(crowdedLook), s)
		}
	}
	step := t.Detach(now, s)
	if side := step.Detached; side != nil {
		c.mu.Lock()
		if a := c.space[t.Key.Namespace]; a != nil {
			a.begun[side.Key] = time.Now()
		}
		c.mu.Unlock()
	}
	return step
}

// bound is how many rows there may be next to a timer or in a namespace.
type bound struct {
	key  rouse.Key
	most int
	name string // of the setting or quota
}

// overlapBounds returns the bounds of overlapping occurrences of a timer.
func (c *crowds) overlapBounds(key rouse.Key) (list []bound) {
	if c.opts.MaxOverlap >= 0 {
		list = append(list, bound{key, c.opts.MaxOverlap, "max-overlap"})
	}
	if most := c.namespaceQuotas(key.Namespace).Overlaps; most > 0 {
		list = append(list, bound{rouse.Key{Namespace: key.Namespace}, int(most), rouse.QuotaOverlaps})
	}
	return list
}

// namespaceQuotas returns the quotas of a namespace.
func (c *crowds) namespaceQuotas(namespace string) rouse.Quotas {
	if c.opts.Quotas == nil {
		return rouse.Quotas{}
	}
	return c.opts.Quotas(namespace)
}

// nodeCount returns how many nodes start occurrences in a namespace.
func (c *crowds) nodeCount() int {
	if c.others == nil || c.opts.Nodes == nil {
		return 1
	}
	return max(1, c.opts.Nodes())
}

// hasRoom reports whether there is room for another occurrence by the last count.
func (c *crowds) hasRoom(b bound) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.live[b.key]
	if b.key.Name != "" {
		return known && n < b.most
	}
	a := c.space[b.key.Namespace]
	return known && a != nil && n+len(a.begun) < min(a.most, b.most) && (c.others == nil || time.Now().Before(a.until))
}

// recountFiring counts the occurrences in progress; those of one timer without those that clients asked for.
// Of the room left in a namespace, this node may take half of its part before it counts again, and at least
// one. looks is how many rows it read.
func (c *crowds) recountFiring(b bound) (n, looks int) {
	n = c.countRowsInState(b.key, rouse.StateFiring)
	if b.key.Name != "" && n >= b.most {
		n, looks = c.countFiring(b, func(t *rouse.Timer) bool { return !t.Asked })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cacheCount(&c.live, b.key, n)
	if b.key.Name != "" {
		return n, looks
	}
	if c.space == nil || len(c.space) >= maxCrowds {
		c.space = map[string]*allowance{}
	}
	a, now := c.space[b.key.Namespace], time.Now()
	if a == nil {
		a = &allowance{begun: map[rouse.Key]time.Time{}}
		c.space[b.key.Namespace] = a
	}
	maps.DeleteFunc(a.begun, func(_ rouse.Key, since time.Time) bool { return now.Sub(since) > spaceAge })
	n += len(a.begun)
	a.until, a.most = now.Add(spaceAge), b.most
	if nodes := c.nodeCount(); nodes > 1 {
		a.most = n + max(1, (b.most-n)/(2*nodes))
	}
	return n, looks
}

// countFiring counts the rows in progress next to a timer that counts is true for, and those that cannot be
// decoded, up to the bound. It returns 0 if the store does not answer.
func (c *crowds) countFiring(b bound, counts func(*rouse.Timer) bool) (n, looks int) {
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	q := rouse.Query{Namespace: b.key.Namespace, Name: b.key.Name, States: []rouse.State{rouse.StateFiring},
		Limit: countPage}
	for {
		page, err := c.store.List(ctx, q)
		if err != nil {
			c.opts.Events.emitFailed("count", err)
			return 0, looks
		}
		looks += len(page.Rows)
		for i := range page.Rows {
			if t, err := c.opts.Read(&page.Rows[i]); err != nil || counts(&t) {
				n++
			}
		}
		if page.Next == nil || n >= b.most {
			return n, looks
		}
		q.After = *page.Next
	}
}

// countWritten counts the rows that were written next to timers. It runs after the write, because a step may
// be computed several times before it is written.
func (c *crowds) countWritten(items []*Write) {
	for _, w := range items {
		if w.result == nil || !w.result.Applied {
			continue
		}
		for i := range w.Change.Also {
			c.noteRow(&w.Change.Also[i])
		}
		for i := range w.Change.Log {
			if w.Change.Log[i].Cause == rouse.CauseNoticeLimit {
				c.noteSkippedNotice(w.Change.Key)
			}
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
		incrementCount(&c.live, key)
		incrementCount(&c.live, rouse.Key{Namespace: key.Namespace})
		if a := c.space[key.Namespace]; a != nil {
			delete(a.begun, row.Key)
		}
		c.mu.Unlock()
	case rouse.StateDead:
		c.noteDead(key)
		c.noteDead(rouse.Key{Namespace: key.Namespace})
	}
}

// noteSkippedNotice counts a notice or a callback that was skipped.
func (c *crowds) noteSkippedNotice(key rouse.Key) {
	c.mu.Lock()
	c.total.Notices++
	c.mu.Unlock()
	c.opts.Events.emitLimited("notices-per-timer", rouse.Key{Namespace: key.Namespace, Name: key.Name})
}

// countRowsInState counts the rows in a state next to a timer. It returns 0 if the store does not answer: the
// store then accepts no new rows either.
func (c *crowds) countRowsInState(key rouse.Key, st rouse.State) int {
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	n, err := c.store.Count(ctx, rouse.Query{Namespace: key.Namespace, Name: key.Name, States: []rouse.State{st}})
	if err != nil {
		c.opts.Events.emitFailed("count", err)
		return 0
	}
	return int(n)
}

// maxDead returns how many dead letters a timer or a namespace keeps; 0 is unlimited.
func (c *crowds) maxDead(key rouse.Key) (most int, name string) {
	if key.Name == "" {
		return int(c.namespaceQuotas(key.Namespace).DeadLetters), rouse.QuotaDeadLetters
	}
	return max(c.opts.DeadPerTimer, 0), "dead-per-timer"
}

// noteDead counts a new dead letter, and requests trimming if there may be too many.
func (c *crowds) noteDead(key rouse.Key) {
	most, _ := c.maxDead(key)
	if most == 0 {
		return
	}
	c.mu.Lock()
	n, known := incrementCount(&c.dead, key)
	c.mu.Unlock()
	if slack := most / 10 / c.nodeCount(); known && n <= most+slack { // all nodes together exceed it by a tenth
		return
	}
	select {
	case c.buried <- key:
	default: // the next dead letter requests it again
	}
}

// letter is a dead letter that may be deleted.
type letter struct {
	key      rouse.Key
	revision uint64
	due      rouse.Instant
}

// oldestDead returns up to n dead letters of a timer or a namespace, the oldest ones, in memory of up to
// maxDrop. It leaves most of those that it has seen: another node may have deleted some since they were
// counted.
func (c *crowds) oldestDead(ctx context.Context, key rouse.Key, n, most int) (letters []letter, seen int, err error) {
	n = min(n, maxDrop)
	keep := func() {
		slices.SortFunc(letters, func(a, b letter) int { return cmp.Compare(a.due, b.due) })
		letters = letters[:min(n, len(letters))]
	}
	q := rouse.Query{Namespace: key.Namespace, Name: key.Name, States: []rouse.State{rouse.StateDead}, Limit: dropPage}
	for {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		seen += len(page.Rows)
		for i := range page.Rows {
			letters = append(letters, letter{page.Rows[i].Key, page.Rows[i].Revision, page.Rows[i].Due})
		}
		if len(letters) >= n+maxDrop {
			keep()
		}
		if page.Next == nil {
			n = max(0, min(n, seen-most))
			keep()
			return letters, seen, nil
		}
		q.After = *page.Next
	}
}

// trimDead deletes the oldest dead letters of a timer or a namespace that has too many.
func (c *crowds) trimDead(ctx context.Context, key rouse.Key, w *commits) error {
	most, name := c.maxDead(key)
	if most == 0 {
		return nil
	}
	n := c.countRowsInState(key, rouse.StateDead)
	if n > most {
		old, seen, err := c.oldestDead(ctx, key, n-most, most)
		if err != nil {
			return err
		}
		n = seen
		for part := range slices.Chunk(old, dropPage) {
			items := make([]*Write, len(part))
			for i := range part {
				items[i] = &Write{Change: rouse.Change{Key: part[i].key, If: part[i].revision}} // else it was redriven
			}
			out, err := w.commitWrites(ctx, items)
			if err != nil {
				return err
			}
			dropped := 0
			for i := range out {
				if out[i].Applied {
					dropped++
				}
			}
			n -= len(part)
			c.mu.Lock()
			c.total.Dropped += uint64(dropped)
			c.mu.Unlock()
			c.opts.Events.emitLimited(name, key)
		}
	}
	c.mu.Lock()
	cacheCount(&c.dead, key, n)
	c.mu.Unlock()
	return nil
}
