package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// Violations counts what must be zero, as the last look found it and in all.
type Violations struct {
	Looks     uint64 // how many looks there were
	Unclaimed int    // rows long overdue that are not in memory, though there is room
	Stuck     int    // rows long overdue that wait in memory for their time, which has passed
	HeldOver  int    // rows in memory whose hold has ended long ago, and which nobody gave up
	Total     uint64 // of all kinds, over all looks
	Homeless  int    // overdue rows in namespaces that no live node claims, up to a thousand; no fault of this node's, and not in Total
}

// watch is what the looks came to.
type watch struct {
	mu   sync.Mutex
	last Violations
}

// overdue is how late a row must be to be looked at: what is less late may be on its way.
const overdue = 30 * time.Second

// watchLoop looks at the invariants: a row that is due is in memory and moves, or memory is full.
func (e *Engine) watchLoop(ctx context.Context) {
	if e.opts.Look < 0 {
		return
	}
	for backoff.Sleep(ctx, e.opts.Look) {
		if err := e.inspect(ctx); err != nil && !errors.Is(err, context.Canceled) {
			e.opts.Events.failed("inspect", err)
		}
	}
}

// Violations returns what the last look at the invariants found.
func (e *Engine) Violations() Violations {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	return e.watch.last
}

// suspect is a row that breaks an invariant, unless it has changed a moment later.
type suspect struct {
	key      rouse.Key
	revision uint64
	what     func(*Violations) *int
}

// inspect looks at the oldest rows that are long overdue, waits, and counts those that are still as they were.
func (e *Engine) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	grant := e.grant.Load()
	var found []suspect
	if len(grant.buckets) > 0 && grant.span == 0 {
		batch, err := e.store.Claim(ctx, rouse.Window{Buckets: grant.buckets, Ahead: -overdue, Limit: 1000})
		if err != nil {
			return err
		}
		found = e.suspects(batch.Rows)
	}
	found = append(found, e.heldOver()...)
	if len(found) > 0 && !backoff.Sleep(ctx, 5*time.Second) {
		return ctx.Err()
	}
	keys := make([]rouse.Key, len(found))
	for i := range found {
		keys[i] = found[i].key
	}
	var rows []rouse.Row
	var err error
	if len(keys) > 0 {
		if rows, err = e.store.Get(ctx, keys); err != nil {
			return err
		}
	}
	var v Violations
	var worst rouse.Key
	if v.Homeless, err = e.homeless(ctx); err != nil {
		return err
	}
	for i, s := range found {
		if rows[i].Revision == s.revision && e.stillSuspect(&s) {
			*s.what(&v)++
			worst = s.key
		}
	}
	e.watch.mu.Lock()
	v.Looks, v.Total = e.watch.last.Looks+1, e.watch.last.Total+uint64(v.Unclaimed+v.Stuck+v.HeldOver)
	e.watch.last = v
	e.watch.mu.Unlock()
	if v.Unclaimed > 0 {
		e.sweepAll()
	}
	if n := v.Unclaimed + v.Stuck + v.HeldOver; n > 0 {
		e.opts.Events.failed("invariants", fmt.Errorf("%d rows are overdue and do not move (%d unclaimed, %d stuck, %d held over), such as %s/%s: please report this",
			n, v.Unclaimed, v.Stuck, v.HeldOver, worst.Namespace, worst.Name))
	}
	return nil
}

// homeless counts overdue rows in namespaces that no live node claims.
func (e *Engine) homeless(ctx context.Context) (n int, err error) {
	if e.opts.Claims == nil || e.opts.Claims.All() {
		return 0, nil
	}
	all := make([]uint32, e.opts.Buckets)
	for i := range all {
		all[i] = uint32(i)
	}
	batch, err := e.store.Claim(ctx, rouse.Window{Buckets: all, Ahead: -overdue, Limit: 1000})
	if err != nil {
		return 0, err
	}
	of := map[string]int{}
	for i := range batch.Rows {
		if ns := batch.Rows[i].Key.Namespace; e.Unclaimed(ns) {
			of[ns]++
			n++
		}
	}
	for ns, overdue := range of {
		e.opts.Events.unclaimed(ns, overdue)
	}
	return n, nil
}

// suspects returns which of the overdue rows are not where they should be.
func (e *Engine) suspects(rows []rouse.Row) (found []suspect) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range rows {
		row := &rows[i]
		if what := e.amiss(row.Key, row.Visible); what != nil {
			found = append(found, suspect{row.Key, row.Revision, what})
		}
	}
	return found
}

// amiss says what is wrong with an overdue row, or nil. The mutex is held.
func (e *Engine) amiss(key rouse.Key, visible rouse.Instant) func(*Violations) *int {
	en := e.window.entries[key]
	switch {
	case en == nil && !e.window.filled() && e.window.spilled == never && e.window.cursor.Visible > visible:
		return func(v *Violations) *int { return &v.Unclaimed }
	case en != nil && (en.state == waiting || en.state == nowhere):
		return func(v *Violations) *int { return &v.Stuck }
	}
	return nil
}

func (e *Engine) heldOver() (found []suspect) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, en := range e.window.entries {
		if !en.held.IsZero() && now.Sub(en.held) > overdue && !en.busy() && len(found) < 1000 {
			found = append(found, suspect{key, en.row.Revision, func(v *Violations) *int { return &v.HeldOver }})
		}
	}
	return found
}

func (e *Engine) stillSuspect(s *suspect) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[s.key]
	return en == nil || en.state == waiting || en.state == nowhere || en.state == queued && !en.held.IsZero()
}
