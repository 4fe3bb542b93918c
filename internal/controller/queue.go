package controller

import (
	"container/heap"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
)

// key names an object of Kubernetes.
type key struct {
	kind      string // "timer" or "calendar"
	namespace string
	name      string
}

// The shortest and longest wait before an object is tried again.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// queue has the objects that need attention, each of them once, in the order in which they do. It is pure:
// time is a parameter. Objects that are gone leave it, so that it is never larger than the cache.
type queue struct {
	items map[key]*item
	due   dueHeap // those that wait
}

type item struct {
	key      key
	at       time.Time
	index    int  // in the heap; -1: it is being worked
	again    bool // it was added while it was worked
	failures int  // in a row
}

func newQueue() *queue { return &queue{items: map[key]*item{}} }

// enqueueAt has an object worked at a time, or earlier if that was asked for before.
func (q *queue) enqueueAt(k key, at time.Time) {
	i := q.items[k]
	switch {
	case i == nil:
		i = &item{key: k, at: at}
		q.items[k] = i
		heap.Push(&q.due, i)
	case i.index < 0:
		i.again = true
	case at.Before(i.at):
		i.at = at
		heap.Fix(&q.due, i.index)
	}
}

// dequeueDue returns an object to work, or how long there is none; that is negative if nothing waits. The
// caller calls done for it.
func (q *queue) dequeueDue(now time.Time) (k key, ok bool, wait time.Duration) {
	if len(q.due) == 0 {
		return k, false, -1
	}
	i := q.due[0]
	if wait := i.at.Sub(now); wait > 0 {
		return k, false, wait
	}
	heap.Pop(&q.due)
	i.index = -1
	return i.key, true, 0
}

// finishWork ends the work on an object, which waits for another try if it failed.
func (q *queue) finishWork(k key, failed bool, now time.Time) {
	i := q.items[k]
	if i == nil || i.index >= 0 {
		return // it was dropped, and perhaps added again
	}
	again := i.again
	i.again = false
	if i.failures++; !failed {
		i.failures = 0
	}
	switch {
	case again:
		i.at = now
	case failed:
		i.at = now.Add(backoff.After(i.failures, firstRetry, lastRetry))
	default:
		delete(q.items, k)
		return
	}
	heap.Push(&q.due, i)
}

// dropKey removes an object that no longer exists.
func (q *queue) dropKey(k key) {
	if i := q.items[k]; i != nil && i.index >= 0 {
		heap.Remove(&q.due, i.index)
	}
	delete(q.items, k)
}

// len returns how many objects wait.
func (q *queue) len() int { return len(q.due) }

type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	i := x.(*item)
	i.index = len(*h)
	*h = append(*h, i)
}
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
