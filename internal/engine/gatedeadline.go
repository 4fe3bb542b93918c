package engine

import (
	"container/heap"
	"slices"

	"github.com/rousehq/rouse"
)

// A row with a deadline that waits at a gate ends when its deadline passes: the gate may open hours later.

// gateDeadlines are rows with deadlines that wait at gates. Those that have left are taken out when they may
// be half of all.
type gateDeadlines struct {
	list  gateDeadlineHeap
	prune int // the length at which those that have left are taken out
}

// gateDeadline is a row at a gate, and the last time at which it may begin.
type gateDeadline struct {
	en   *entry
	ga   *gate
	last rouse.Instant
}

func (d *gateDeadline) hasLeft() bool { return !d.en.waitsAt(d.ga) }

// watchDeadline adds a row that waits at its gate, if it has a deadline.
func (d *gateDeadlines) watchDeadline(en *entry, t *rouse.Timer) {
	if t.Spec.Deadline == 0 || en.occ.Manual || t.Asked { // see rouse.Timer.Expired
		return
	}
	if len(d.list) >= d.prune {
		d.list = slices.DeleteFunc(d.list, func(one gateDeadline) bool { return one.hasLeft() })
		heap.Init(&d.list)
		d.prune = 2*len(d.list) + 1024
	}
	heap.Push(&d.list, gateDeadline{en, en.lastGate(), t.SentAt(en.occ.Due).Add(t.Spec.Deadline)})
}

// takeOverdue takes a row that still waits and whose deadline has passed; nil if there is none.
func (d *gateDeadlines) takeOverdue(now rouse.Instant) *entry {
	for len(d.list) > 0 && d.list[0].last < now {
		if first := heap.Pop(&d.list).(gateDeadline); !first.hasLeft() {
			return first.en
		}
	}
	return nil
}

// expireAtGates ends the rows that wait at gates and whose deadlines have passed.
func (m *memory) expireAtGates(now rouse.Instant) {
	for en := m.gates.ends.takeOverdue(now); en != nil; en = m.gates.ends.takeOverdue(now) {
		m.noteLimited(en, now)
		en.leaveGate()
		m.enqueueDue(en, now)
	}
}

// leavePlaces takes the places from rows that kept them until they are tried again, if the order of their
// limit is another one now.
func (m *memory) leavePlaces() {
	for en := range m.window.entries.allEntries() {
		if en.state == waiting && !en.keepsPlace() {
			en.leaveGate()
		}
	}
}

type gateDeadlineHeap []gateDeadline

func (h gateDeadlineHeap) Len() int           { return len(h) }
func (h gateDeadlineHeap) Less(i, j int) bool { return h[i].last < h[j].last }
func (h gateDeadlineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *gateDeadlineHeap) Push(x any) { *h = append(*h, x.(gateDeadline)) }

// Pop implements heap.Interface.
func (h *gateDeadlineHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = gateDeadline{}
	*h = old[:len(old)-1]
	return last
}
