package engine

import (
	"time"

	"github.com/rousehq/rouse"
)

// Access to unexported state for the tests of package engine_test.

const (
	QuickSteps = quickSteps
	Recently   = recently
	MaxEdits   = maxEdits

	DecodedMost = decodedMost
)

// DropRow removes a row from memory, to simulate a fault.
func (e *Engine) DropRow(key rouse.Key) {
	e.memory.Lock()
	defer e.memory.Unlock()
	e.memory.window.dropEntry(e.memory.window.entries.entryByKey(key))
}

// WheelRows returns the number of rows that wait in memory, and of those that are on the wheel.
func (e *Engine) WheelRows() (waits, placed int) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for en := range e.memory.window.entries.allEntries() {
		if en.state == waiting {
			waits++
		}
	}
	for _, en := range e.memory.window.slots {
		if en != nil {
			placed++
		}
	}
	return waits, placed
}

// LaneRoom returns the queue capacity and the queued fires of the lane with the largest queue.
func (e *Engine) LaneRoom() (places, fires int) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for _, ln := range e.memory.lanes.byName {
		if n := len(ln.queues[normal].fifo); n > places {
			places, fires = n, ln.queued
		}
	}
	return places, fires
}

// InProgress returns the cached number of occurrences next to a timer.
func (e *Engine) InProgress(key rouse.Key) int {
	e.settler.crowds.mu.Lock()
	defer e.settler.crowds.mu.Unlock()
	return e.settler.crowds.live[key]
}

// Decoded returns how many rows in memory have decoded timers.
func (e *Engine) Decoded() (n int) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for en := range e.memory.window.entries.allEntries() {
		if en.timer != nil {
			n++
		}
	}
	return n
}

// LeftInLanes returns how many entries the queues of lanes refer to outside of the part that is queued.
func (e *Engine) LeftInLanes() (n int) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for _, ln := range e.memory.lanes.byName {
		for k := range ln.queues {
			q := &ln.queues[k]
			for i, en := range q.fifo[:cap(q.fifo)] {
				if en != nil && (i < q.head || i >= len(q.fifo)) {
					n++
				}
			}
		}
	}
	return n
}

// Suspended returns what hinders a node that was suspended for a minute during a call of the store.
func Suspended(now rouse.Instant, answered bool) rouse.Cause {
	h := &hindrances{}
	h.noteLoop(now)
	h.loops = h.loops.Add(-time.Minute)
	h.recordAnswer(answered, now, now.Add(time.Minute))
	h.noteLoop(now.Add(time.Minute))
	return h.causeBetween(now, now.Add(time.Minute))
}

// LimitAges returns how many rows are kept by since when they wait for limits.
func (e *Engine) LimitAges() (n int) {
	e.memory.Lock()
	defer e.memory.Unlock()
	for _, l := range e.memory.gates.byName {
		n += len(l.ages)
	}
	return n
}

// Gates returns how many keys of limits are in use on this node.
func (e *Engine) Gates() int {
	e.memory.Lock()
	defer e.memory.Unlock()
	return e.memory.gates.keys
}
