package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
)

// Violations counts broken invariants, of the last check and in total. All must be zero.
type Violations struct {
	Looks     uint64 // checks made
	Unclaimed int    // rows long overdue that are not in memory although there is room
	Stuck     int    // rows long overdue that still wait in memory
	HeldOver  int    // rows in memory whose hold expired long ago but that were not given up
	Total     uint64 // of all kinds, over all checks
	// overdue rows in namespaces that no live node claims, at most a thousand; not this node's fault and not
	// in Total
	Homeless int
}

// inspection checks the invariants: a due row is in memory and makes progress, or memory is full.
type inspection struct {
	*env
	buckets *ownership
	memory  *memory
	rescans *rescans

	mu   sync.Mutex
	last Violations
}

// overdue is how late a row must be to be checked: a row that is less late may be on its way.
const overdue = 30 * time.Second

// inspectLoop makes the checks.
func (in *inspection) inspectLoop(ctx context.Context) {
	if in.opts.Look < 0 {
		return
	}
	for backoff.Sleep(ctx, in.opts.Look) {
		if err := in.checkInvariants(ctx); err != nil && !errors.Is(err, context.Canceled) {
			in.opts.Events.emitFailed("inspect", err)
		}
	}
}

// suspect is a row that breaks an invariant unless it changes shortly.
type suspect struct {
	key      rouse.Key
	revision uint64
	what     func(*Violations) *int
}

// checkInvariants finds the oldest long overdue rows, waits, and counts those that have not changed.
func (in *inspection) checkInvariants(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	grant := in.buckets.currentGrant()
	var found []suspect
	if len(grant.buckets) > 0 && grant.span == 0 {
		batch, err := in.store.Claim(ctx, rouse.Window{Buckets: grant.buckets, Ahead: -overdue, Limit: 1000})
		if err != nil {
			return err
		}
		found = in.findSuspects(batch.Rows)
	}
	found = append(found, in.heldOver()...)
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
		if rows, err = in.store.Get(ctx, keys); err != nil {
			return err
		}
	}
	var v Violations
	var worst rouse.Key
	if v.Homeless, err = in.countHomeless(ctx); err != nil {
		return err
	}
	for i, s := range found {
		if rows[i].Revision == s.revision && in.stillSuspect(&s) {
			*s.what(&v)++
			worst = s.key
		}
	}
	in.mu.Lock()
	v.Looks, v.Total = in.last.Looks+1, in.last.Total+uint64(v.Unclaimed+v.Stuck+v.HeldOver)
	in.last = v
	in.mu.Unlock()
	if v.Unclaimed > 0 {
		in.rescans.requestFullRescan()
	}
	if n := v.Unclaimed + v.Stuck + v.HeldOver; n > 0 {
		in.opts.Events.emitFailed("invariants",
			fmt.Errorf(
				"%d rows are overdue and do not move (%d unclaimed, %d stuck, %d held over), such as %s/%s: please report this",
				n, v.Unclaimed, v.Stuck, v.HeldOver, worst.Namespace, worst.Name))
	}
	return nil
}

// countHomeless counts overdue rows in namespaces that no live node claims.
func (in *inspection) countHomeless(ctx context.Context) (n int, err error) {
	if in.opts.Claims == nil || in.opts.Claims.All() {
		return 0, nil
	}
	all := make([]uint32, in.opts.Buckets)
	for i := range all {
		all[i] = uint32(i)
	}
	batch, err := in.store.Claim(ctx, rouse.Window{Buckets: all, Ahead: -overdue, Limit: 1000})
	if err != nil {
		return 0, err
	}
	of := map[string]int{}
	for i := range batch.Rows {
		if ns := batch.Rows[i].Key.Namespace; in.Unclaimed(ns) {
			of[ns]++
			n++
		}
	}
	for ns, overdue := range of {
		in.opts.Events.emitUnclaimed(ns, overdue)
	}
	return n, nil
}

// findSuspects returns the overdue rows that are not where they should be.
func (in *inspection) findSuspects(rows []rouse.Row) (found []suspect) {
	in.memory.Lock()
	defer in.memory.Unlock()
	for i := range rows {
		row := &rows[i]
		if what := in.brokenInvariant(row.Key, row.Visible); what != nil {
			found = append(found, suspect{row.Key, row.Revision, what})
		}
	}
	return found
}

// brokenInvariant returns the invariant that an overdue row breaks, or nil. The mutex is held.
func (in *inspection) brokenInvariant(key rouse.Key, visible rouse.Instant) func(*Violations) *int {
	en := in.memory.window.entries.entryByKey(key)
	switch {
	case en == nil && !in.memory.window.isFullForReads() && in.memory.window.spilled == never &&
		in.memory.window.cursor.Visible > visible:
		return func(v *Violations) *int { return &v.Unclaimed }
	case en != nil && (en.state == waiting || en.state == nowhere):
		return func(v *Violations) *int { return &v.Stuck }
	}
	return nil
}

func (in *inspection) heldOver() (found []suspect) {
	now := boottime.Now()
	in.memory.Lock()
	defer in.memory.Unlock()
	for en := range in.memory.window.entries.allEntries() {
		if !en.held.IsZero() && now.Sub(en.held) > overdue && !en.isBusy() && len(found) < 1000 {
			found = append(found, suspect{en.row.Key, en.row.Revision, func(v *Violations) *int { return &v.HeldOver }})
		}
	}
	return found
}

func (in *inspection) stillSuspect(s *suspect) bool {
	in.memory.Lock()
	defer in.memory.Unlock()
	en := in.memory.window.entries.entryByKey(s.key)
	return en == nil || en.state == waiting || en.state == nowhere || en.state == queued && !en.held.IsZero()
}

// lastViolations returns the result of the last check.
func (in *inspection) lastViolations() Violations {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.last
}
