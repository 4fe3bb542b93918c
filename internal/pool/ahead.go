package pool

import (
	"container/heap"
	"strings"
	"sync"
	"time"
)

// Coming is a fire that is known before it is due.
type Coming struct {
	Key   string
	Start time.Time // when the group of its key is requested
	Fire  time.Time
}

// Ahead holds fires that are known before they are due, earliest start first. Its zero value is empty. It is
// safe for concurrent use; it calls no other code while it holds its mutex.
type Ahead struct {
	mu   sync.Mutex
	list byStart
}

// maxAhead bounds the fires of a pool that are known ahead. The groups of further fires start when the fire
// is due.
const maxAhead = 1 << 16

// Add adds a fire, unless there are maxAhead already. The key may be a substring of a larger string: Add
// clones it.
func (a *Ahead) Add(c Coming) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) < maxAhead {
		c.Key = strings.Clone(c.Key)
		heap.Push(&a.list, c)
	}
}

// Due removes and returns the fires whose groups must be requested by now.
func (a *Ahead) Due(now time.Time) (fires []Coming) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.list) > 0 && !a.list[0].Start.After(now) {
		fires = append(fires, heap.Pop(&a.list).(Coming))
	}
	return fires
}

// byStart is a heap.
type byStart []Coming

func (b byStart) Len() int           { return len(b) }
func (b byStart) Less(i, j int) bool { return b[i].Start.Before(b[j].Start) }
func (b byStart) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byStart) Push(x any)        { *b = append(*b, x.(Coming)) }

func (b *byStart) Pop() any {
	old := *b
	n := old[len(old)-1]
	old[len(old)-1] = Coming{}
	*b = old[:len(old)-1]
	return n
}
