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

// Violations counts broken invariants, of the last check and in total. All must be zero.
type Violations struct {
	Looks     uint64 // checks made
	Unclaimed int    // rows long overdue that are not in memory although there is room
	Stuck     int    // rows long overdue that still wait in memory
	HeldOver  int    // rows in memory whose hold expired long ago but that were not given up
	Total     uint64 // of all kinds, over all checks
	Homeless  int    // overdue rows in namespaces that no live node claims, at most a thousand; not this node's fault and not in Total
}

// watch is the result of the checks.
type watch struct {
	mu   sync.Mutex
	last Violations
}

// overdue is how late a row must be to be checked: a row that is less late may be on its way.
const overdue = 30 * time.Second

// watchLoop checks the invariants: a due row is in memory and makes progress, or memory is full.
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

// Violations returns the result of the last check.
func (e *Engine) Violations() Violations {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	return e.watch.last
}

// suspect is a row that breaks an invariant unless it changes shortly.
type suspect struct {
	key      rouse.Key
	revision uint64
	what     func(*Violations) *int
}

// inspect finds the oldest long overdue rows, waits, and counts those that have not changed.
func (e *Engine) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	grant := e.buckets.current()
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
		e.rescanAll()
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

// suspects returns the overdue rows that are not where they should be.
func (e *Engine) suspects(rows []rouse.Row) (found []suspect) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for i := range rows {
		row := &rows[i]
		if what := e.violation(row.Key, row.Visible); what != nil {
			found = append(found, suspect{row.Key, row.Revision, what})
		}
	}
	return found
}

// violation returns the invariant that an overdue row breaks, or nil. The mutex is held.
func (e *Engine) violation(key rouse.Key, visible rouse.Instant) func(*Violations) *int {
	en := e.memory.window.entries[key]
	switch {
	case en == nil && !e.memory.window.filled() && e.memory.window.spilled == never && e.memory.window.cursor.Visible > visible:
		return func(v *Violations) *int { return &v.Unclaimed }
	case en != nil && (en.state == waiting || en.state == nowhere):
		return func(v *Violations) *int { return &v.Stuck }
	}
	return nil
}

func (e *Engine) heldOver() (found []suspect) {
	now := time.Now()
	e.memory.Lock()
	defer e.memory.Unlock()
	for key, en := range e.memory.window.entries {
		if !en.held.IsZero() && now.Sub(en.held) > overdue && !en.busy() && len(found) < 1000 {
			found = append(found, suspect{key, en.row.Revision, func(v *Violations) *int { return &v.HeldOver }})
		}
	}
	return found
}

func (e *Engine) stillSuspect(s *suspect) bool {
	e.memory.Lock()
	defer e.memory.Unlock()
	en := e.memory.window.entries[s.key]
	return en == nil || en.state == waiting || en.state == nowhere || en.state == queued && !en.held.IsZero()
}
