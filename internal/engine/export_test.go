package engine

import (
	"github.com/rousehq/rouse"
)

// What the tests of the whole see of the inside.

const (
	QuickSteps = quickSteps
	Recently   = recently
	MaxEdits   = maxEdits
)

// DropRow takes a row out of memory, as a fault would.
func (e *Engine) DropRow(key rouse.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window.drop(e.window.entries[key])
}

// WheelRows returns how many rows wait in memory for their time, and how many have a place on the wheel.
func (e *Engine) WheelRows() (waits, placed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, en := range e.window.entries {
		if en.state == waiting {
			waits++
		}
	}
	for _, en := range e.window.slots {
		if en != nil {
			placed++
		}
	}
	return waits, placed
}

// LaneRoom returns the places and the fires of the lane with the most places.
func (e *Engine) LaneRoom() (places, fires int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ln := range e.lanes.byName {
		if n := len(ln.queues[normal].fifo); n > places {
			places, fires = n, ln.queued
		}
	}
	return places, fires
}

// InProgress returns how many occurrences next to a timer are counted.
func (e *Engine) InProgress(key rouse.Key) int {
	e.crowds.mu.Lock()
	defer e.crowds.mu.Unlock()
	return e.crowds.live[key]
}
