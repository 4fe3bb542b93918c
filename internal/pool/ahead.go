package pool

import (
	"container/heap"
	"strings"
	"sync"
	"time"
)

// Coming is a fire that is known ahead.
type Coming struct {
	Key   string
	Start time.Time // when the group of its key is to be asked for
	Fire  time.Time
}

// Ahead are fires that are known ahead, earliest start first. The zero value has none. It is safe for concurrent use, calls nobody
// back, and its mutex is the last one taken.
type Ahead struct {
	mu   sync.Mutex
	list byStart
}

// maxAhead bounds the fires of a pool that are known ahead; groups of others start when the time has come.
const maxAhead = 1 << 16

// Add notes a fire, unless there are too many. The key may be a part of something larger.
func (a *Ahead) Add(c Coming) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) < maxAhead {
		c.Key = strings.Clone(c.Key)
		heap.Push(&a.list, c)
	}
}

// Due takes out the fires whose groups are to be asked for by now.
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
