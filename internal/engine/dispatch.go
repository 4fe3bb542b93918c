package engine

import (
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// delivery is one call of Sink.Deliver.
type delivery struct {
	lane  *lane
	taken []*entry
	fires []rouse.Fire
	at    rouse.Instant // when it was taken from its lane
	spend bool          // rouse.Lane.Spend of its lane
	held  bool          // some of it is held until a time that may come
}

// dispatchDeliveries starts as many deliveries as the limits allow.
func (m *memory) dispatchDeliveries() {
	for {
		d, ok := m.nextDelivery()
		if !ok {
			return
		}
		m.send(d)
	}
}

// nextDelivery takes the next delivery in turn.
func (m *memory) nextDelivery() (d delivery, ok bool) {
	if m.stopping.Load() || m.send == nil {
		return d, false
	}
	m.gates.openGates()
	if wait, ok := m.gates.untilNext(); ok && m.Now().Add(wait) < m.looks {
		notify.Send(m.wake)
	}
	d.lane, d.taken = m.lanes.nextBatch(nil)
	if d.lane == nil {
		return d, false
	}
	d.at, d.spend = m.Now(), d.lane.spend
	d.taken = m.decodeTaken(d.lane, d.taken)
	for _, en := range d.taken {
		m.noteTaken(d.lane, en, d.at)
	}
	d.taken = m.expireTaken(d.lane, d.taken, d.at)
	d.taken = m.returnFrozen(d.lane, d.taken)
	d.fires = make([]rouse.Fire, len(d.taken))
	for i, en := range d.taken {
		d.fires[i] = en.timer.Fire(en.occ)
		en.token, en.sent, en.passed, en.awaited = d.fires[i].Token, d.at, false, false
		d.held = d.held || !en.held.IsZero()
	}
	return d, true
}

// decodeTaken decodes the timers of entries that waited without them. A row that could be decoded when it
// came due can be decoded now.
func (m *memory) decodeTaken(ln *lane, taken []*entry) []*entry {
	live := taken[:0]
	for _, en := range taken {
		if _, err := m.decodedTimer(en); err != nil {
			m.window.dropEntry(en)
			m.opts.Events.emitFailed("decode", err)
			m.lanes.endFires(ln, 1, en.load, time.Now())
			continue
		}
		live = append(live, en)
	}
	return live
}

// expireTaken removes entries whose deadline passed while they waited in the lane.
func (m *memory) expireTaken(ln *lane, taken []*entry, now rouse.Instant) []*entry {
	var gone, bytes int
	live := taken[:0]
	for _, en := range taken {
		if en.timer.Spec.Deadline == 0 || !en.timer.Expired(en.occ, now) {
			live = append(live, en)
			continue
		}
		gone++
		bytes += en.load
		en.lane = nil
		m.expireEntry(en, en.timer)
	}
	if gone > 0 {
		m.lanes.endFires(ln, gone, bytes, time.Now())
	}
	return live
}

// tooLate reports whether the deadline of an entry passed after it was taken from its lane.
func (m *memory) tooLate(en *entry, now rouse.Instant) bool {
	t, err := m.decodedTimer(en)
	return err == nil && !en.orphan && t.Spec.Deadline != 0 && t.Expired(en.occ, now)
}

// returnToWheel returns an entry that was not sent to the wheel of a node that stops, which gives it back
// from there.
func (m *memory) returnToWheel(en *entry) {
	en.lane, en.passed = nil, false
	if en.row.Visible == rouse.Never {
		m.window.dropEntry(en)
		return
	}
	m.window.placeOnWheel(en)
}

// returnFrozen moves entries that a running edit has frozen back to the wheel.
func (m *memory) returnFrozen(ln *lane, taken []*entry) []*entry {
	live, frozen := m.freezer.splitFrozen(taken)
	bytes := 0
	for _, en := range frozen {
		en.lane = nil
		bytes += en.load
		m.window.placeOnWheel(en)
	}
	if len(frozen) > 0 {
		m.lanes.endFires(ln, len(frozen), bytes, time.Now())
	}
	return live
}

const (
	// mostShed bounds the rows that are put off at a time.
	mostShed = 4096
	// shedFor and shedMost are for how long.
	shedFor  = 2 * time.Second
	shedMost = 30 * time.Second
)

// shedBacklogs makes room in a full window: the lanes that are furthest behind defer rows that they cannot
// send soon. The rows are written with later visible times, spread over the time that their lane needs.
func (m *memory) shedBacklogs() {
	left := mostShed
	if taken := m.gates.shedWaiting(space{m.window.maxRows, m.window.maxBytes}, left); len(taken) > 0 {
		for i, en := range taken {
			after := shedFor + (shedMost-shedFor)*time.Duration(i)/time.Duration(len(taken))
			m.queueDecision(en, reported{o: rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseLimit, After: after}})
		}
		m.opts.Events.emitShed(len(taken))
		left = max(left-len(taken), 1)
	}
	for _, b := range m.lanes.findBacklogs(time.Now(), space{m.window.maxRows, m.window.maxBytes}) {
		taken := b.lane.popTail(min(b.excess, left))
		least := min(max(b.drain, shedFor), shedMost)
		for i, en := range taken {
			after := least + least*time.Duration(i)/time.Duration(len(taken))
			m.queueDecision(en, reported{o: rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: after}})
		}
		m.opts.Events.emitShed(len(taken))
		if left -= len(taken); left == 0 {
			break
		}
	}
}
