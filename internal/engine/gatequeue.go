package engine

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/rousehq/rouse"
)

// gated is a row that waits, with its place in the order.
type gated struct {
	en       *entry
	priority rouse.Priority
	class    rouse.Priority
	at       rouse.Instant
}

// setOrder sets the place of the row in an order (rouse.Limit.Order).
func (w *gated) setOrder(order string) {
	if w.class, w.at = -w.priority, w.en.row.Visible; order == rouse.OrderByDue {
		w.class, w.at = 0, w.en.occ.Due
	}
}

// waitsAt reports whether the row still waits at a gate.
func (w *gated) waitsAt(ga *gate) bool { return w.en.waitsAt(ga) }

// placeInOrder returns a row with its place in the order of those that wait.
func (l *limited) placeInOrder(en *entry, p rouse.Priority) gated {
	w := gated{en: en, priority: p}
	w.setOrder(l.is.Order)
	return w
}

// sortQueue sorts the rows that wait by the order of their limit.
func (ga *gate) sortQueue() {
	if ga.queue == nil {
		return
	}
	rows := &ga.queue.rows
	for i := range *rows {
		(*rows)[i].setOrder(ga.limit.is.Order)
	}
	heap.Init(rows)
}

// gateQueue is a heap of the rows that wait at a gate.
type gateQueue []gated

func (q gateQueue) Len() int { return len(q) }

func (q gateQueue) Less(i, j int) bool {
	return q[i].goesBefore(&q[j])
}

func (w *gated) goesBefore(b *gated) bool {
	return cmp.Or(cmp.Compare(w.class, b.class), cmp.Compare(w.at, b.at), w.en.row.Key.Compare(b.en.row.Key)) < 0
}

func (q gateQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *gateQueue) Push(x any) { *q = append(*q, x.(gated)) }

// Pop implements heap.Interface.
func (q *gateQueue) Pop() any { return q.popLast() }

// popLast takes the last element of the slice, which is no earlier than those above it in the heap.
func (q *gateQueue) popLast() gated {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = gated{}
	*q = (*q)[:last]
	return w
}

// maxCounted bounds the rows that countBefore looks at: the mutex is held.
const maxCounted = 10_000

// countBefore returns how many rows wait at a gate that go before one that does; more reports that it has not
// looked at all of them.
func (ga *gate) countBefore(w gated) (n int, more bool) {
	if ga.queue == nil {
		return 0, false
	}
	q := ga.queue.rows[:min(len(ga.queue.rows), maxCounted)]
	for i := range q {
		if q[i].en != w.en && q[i].waitsAt(ga) && q[i].goesBefore(&w) {
			n++
		}
	}
	return n, len(q) < len(ga.queue.rows)
}

// timedGates is a heap of gates by when they are to be looked at.
type timedGates []*gate

func (g *gates) setTimer(ga *gate, until time.Duration) {
	ga.queue.until = until
	if ga.queue.slot >= 0 {
		heap.Fix(&g.timed, int(ga.queue.slot))
		return
	}
	heap.Push(&g.timed, ga)
}

func (g *gates) clearTimer(ga *gate) {
	if ga.queue != nil && ga.queue.slot >= 0 {
		heap.Remove(&g.timed, int(ga.queue.slot))
	}
}

func (q timedGates) Len() int           { return len(q) }
func (q timedGates) Less(i, j int) bool { return q[i].queue.until < q[j].queue.until }

func (q timedGates) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].queue.slot, q[j].queue.slot = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *timedGates) Push(x any) {
	ga := x.(*gate)
	ga.queue.slot = int32(len(*q))
	*q = append(*q, ga)
}

// Pop implements heap.Interface.
func (q *timedGates) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	last.queue.slot = -1
	*q = old[:len(old)-1]
	return last
}
