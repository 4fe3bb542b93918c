package engine

import (
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// A limit of a target (rouse.TargetLimit) applies to timers that do not name it, and that are in all buckets.
// So each node counts its share of it, at a gate that rows meet after that of the limit that they name.

// enterTarget is enterGate for the limit of the target of a row, which has its place at its gate.
func (g *gates) enterTarget(en *entry, t *rouse.Timer, now rouse.Instant) bool {
	if ga := en.target; ga != nil {
		if l := ga.limit; !l.is.Paused && int(ga.running) <= l.most && en.sent == 0 {
			return true
		}
		en.leaveTarget()
	}
	if g.limits == nil || !g.limits.HasTargets(t.Key.Namespace) {
		return true
	}
	// what this node did before it started is not known, whatever happens to its buckets later
	since := now.Add(-g.now())
	ga := g.ensureGate(limitName{t.Key.Namespace, rouse.TargetLimit(t.Spec.Target)}, "", since, now)
	if ga == nil {
		return true
	}
	if en.gate == nil {
		en.sent = 0
	}
	en.target = ga
	return g.passGate(ga, en, t)
}

// leaveTarget is leaveGate for the limit of the target.
func (en *entry) leaveTarget() { en.leavePlace(&en.target) }

// maxHeldSeen bounds the rows that leaveLost looks at: the mutex is held.
const maxHeldSeen = 50_000

// leaveLost removes rows that wait for limits of targets and whose holds have ended: the owners of their
// buckets read them.
func (g *gates) leaveLost() {
	seen := 0
	var lost []*entry
	for _, l := range g.byName {
		if !rouse.IsTargetLimit(l.name) {
			continue
		}
		for _, ga := range l.keys {
			if ga.queue == nil {
				continue
			}
			for i := range ga.queue.rows {
				if seen++; seen > maxHeldSeen {
					break
				}
				if w := &ga.queue.rows[i]; w.waitsAt(ga) && !w.en.held.IsZero() && g.isLost(w.en) {
					lost = append(lost, w.en)
				}
			}
		}
	}
	for _, en := range lost {
		g.lost(en)
	}
}

// applyShare bounds a limit of a target by this node's share, and returns how many may begin at once.
func (l *limited) applyShare(burst int) int {
	most, part := l.of.limits.Share(l.namespace, l.name)
	if part <= 0 {
		l.most = 0
		return 1
	}
	if l.is.Concurrency > 0 {
		l.most = most
	}
	l.interval = time.Duration(float64(l.interval) / part)
	return int(float64(burst) * part)
}

// takeHolds reports whether rows that wait in lanes may have to wait at a gate, once.
func (g *gates) takeHolds() bool {
	if g.limits == nil {
		return false
	}
	had := g.holds
	g.holds = g.limits.Holds()
	return g.holds != had
}

// mustWaitForTarget reports whether a row in a lane is to wait at the gate of its target: it is not from
// there, or that is paused.
func (m *memory) mustWaitForTarget(en *entry) bool {
	if en.target != nil {
		return en.target.limit.is.Paused
	}
	if !m.gates.limits.HasTargets(en.row.Key.Namespace) {
		return false
	}
	t, err := m.peekTimer(en)
	if err != nil {
		return false
	}
	is, _ := m.gates.limits.Limit(t.Key.Namespace, rouse.TargetLimit(t.Spec.Target))
	return is.Revision != 0
}

// requeueHeld moves rows from their lanes to the gates of their targets, if the limit there is new or paused.
func (m *memory) requeueHeld(now rouse.Instant) {
	var held []*entry
	for en := range m.window.entries.allEntries() {
		if en.state == queued && m.mustWaitForTarget(en) {
			held = append(held, en)
		}
	}
	slices.SortFunc(held, func(a, b *entry) int { return a.row.Position().Compare(b.row.Position()) })
	for _, en := range held { // its slot in the lane's queue stays, so a new entry replaces it
		m.window.dropEntry(en)
		if again := m.window.insertRow(&en.row, now); again != nil {
			m.window.takeOffWheel(again)
			again.held, again.hidden, again.timer, again.noted = en.held, en.hidden, en.timer, en.noted
			m.enqueueDue(again, now)
		}
	}
}
