package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// Evaluations returns the counts of evaluations since the start.
func (e *Engine) Evaluations() Evaluations { return e.settler.evaluations.evaluationCounts() }

// Crowds returns how often the bounds on rows of single timers took effect since the start.
func (e *Engine) Crowds() Crowds { return e.settler.crowds.limitCounts() }

// Violations returns the result of the last check of the invariants.
func (e *Engine) Violations() Violations { return e.inspection.lastViolations() }

// Stats counts the rows in memory.
type Stats struct {
	Window  int // rows in memory
	Bytes   int // size of these rows
	Queued  int // due and waiting in lanes, or for their limits
	Out     int // fires with sinks
	Running int // running calls of Sink.Deliver
	// for how long all of Options.MaxDeliveries have been running, while fires wait, and none has ended
	Full    time.Duration
	Blocked int // namespaces whose fires wait until one of them ends
	Lanes   int
	Missing int // parts of the store that did not answer the last claim
}

// Stats returns the current counts.
func (e *Engine) Stats() Stats {
	s := e.memory.countStats()
	s.Missing = len(e.health.missingParts())
	return s
}

// countStats counts the rows in memory. It takes the mutex itself.
func (m *memory) countStats() Stats {
	m.Lock()
	defer m.Unlock()
	s := Stats{Window: m.window.entries.len() + m.window.orphans, Bytes: m.window.bytes, Out: m.lanes.out,
		Running: m.lanes.running, Blocked: m.lanes.countBlocked(), Lanes: len(m.lanes.byName)}
	if at := m.full.markedAt(); !at.IsZero() {
		s.Full = time.Since(at)
	}
	for _, ln := range m.lanes.byName {
		s.Queued += ln.queued
	}
	for _, l := range m.gates.byName {
		s.Queued += l.waiting
	}
	return s
}

// Idle reports whether no work is left at the store's current time: nothing is due, queued, being sent, or
// unsettled; what waits for a limit that is paused is none of this. If so, next is the earliest time at which
// a row needs attention, or rouse.Never. Idle scans all rows in memory, so it is for tests and development
// servers only.
func (e *Engine) Idle() (next rouse.Instant, idle bool) {
	select {
	case <-e.began:
	default:
		return rouse.Never, false
	}
	next, cursor, idle := e.memory.checkIdle()
	if !idle || next <= cursor.Visible {
		return next, idle
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	first, err := e.firstVisible(ctx, cursor)
	if err != nil {
		return next, false
	}
	return min(next, first), true
}

// Soonest returns the time from which on the first row of this node's buckets is visible that is so at a time
// or later; rouse.Never if there is none.
func (e *Engine) Soonest(ctx context.Context, at rouse.Instant) (rouse.Instant, error) {
	return e.firstVisible(ctx, positionBefore(rouse.Position{Visible: at}))
}

// firstVisible returns when the first row behind a position is visible.
func (e *Engine) firstVisible(ctx context.Context, after rouse.Position) (rouse.Instant, error) {
	batch, err := e.store.Claim(ctx, rouse.Window{Buckets: e.buckets.currentGrant().buckets, After: after,
		Ahead: 1<<63 - 1, Limit: 1})
	if err != nil || len(batch.Rows) == 0 {
		return rouse.Never, err
	}
	return batch.Rows[0].Visible, nil
}

// checkIdle is Engine.Idle for the rows in memory, which are those up to the cursor. It takes the mutex
// itself.
func (m *memory) checkIdle() (next rouse.Instant, cursor rouse.Position, idle bool) {
	m.Lock()
	defer m.Unlock()
	now, w := m.Now(), &m.window
	idle = m.outcomes.countWaiting() == 0 && w.orphans == 0 && m.lanes.out == 0 && m.lanes.running == 0 &&
		w.reading == 0 && w.spilled == never && w.cursor.Visible > now
	next = rouse.Never
	for en := range w.entries.allEntries() {
		if idle && m.gates.isHeld(en) {
			continue
		}
		if idle = idle && en.state == waiting && en.row.Visible > now; !idle {
			break
		}
		next = min(next, en.row.Visible)
	}
	return next, w.cursor, idle
}

// MaxTargets bounds the lanes that Targets returns.
const MaxTargets = 10_000

// Targets returns the lanes that have something to do, and those that had lately; more reports that there are
// others.
func (e *Engine) Targets() (list []rouse.TargetStatus, more bool) {
	m := e.memory
	m.Lock()
	defer m.Unlock()
	now := m.Now()
	for key, ln := range m.lanes.byName {
		if len(list) == MaxTargets {
			return list, true
		}
		t := rouse.TargetStatus{Namespace: key.namespace, Name: key.name, Queued: ln.queued, InFlight: ln.out,
			Deliveries: ln.running,
			Limit:      ln.limit, PerSecond: ln.all.Rate(), Circuit: rouse.CircuitClosed}
		ln.recent.Fill(now, &t)
		list = append(list, t)
	}
	return list, false
}
