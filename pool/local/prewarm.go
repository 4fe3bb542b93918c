package local

import (
	"container/heap"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// maxComing bounds the fires of a pool that are known to come; groups of others start when the time has come.
const maxComing = 1 << 16

// lateFire is how long after its time a fire may be on its way: its group is there until then.
const lateFire = time.Second

// coming are the fires of a pool that are known ahead, by when their groups are to be there. Its mutex is the last one taken.
type coming struct {
	mu   sync.Mutex
	list byStart
}

// near is a fire that comes.
type near struct {
	key string
	at  rouse.Instant
}

// byStart is a heap of fires by their time.
type byStart []near

func (b byStart) Len() int           { return len(b) }
func (b byStart) Less(i, j int) bool { return b[i].at < b[j].at }
func (b byStart) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byStart) Push(x any)        { *b = append(*b, x.(near)) }

func (b *byStart) Pop() any {
	old := *b
	n := old[len(old)-1]
	old[len(old)-1] = near{}
	*b = old[:len(old)-1]
	return n
}

// Near tells the sink of a timer that fires at a time to come, if nothing happens to it: pools that prewarm start its group before.
// It is quick, and calls nobody back.
func (s *Sink) Near(target string, at rouse.Instant) {
	name, _, ok := split(target)
	if !ok {
		return
	}
	p := s.pool(name)
	if p == nil || p.prewarm == 0 {
		return
	}
	_, key, err := Parse(target)
	if err != nil {
		return
	}
	p.coming.mu.Lock()
	defer p.coming.mu.Unlock()
	if len(p.coming.list) < maxComing {
		heap.Push(&p.coming.list, near{clone(key), at})
	}
}

// due takes out the fires whose groups are to be there now.
func (c *coming) due(until rouse.Instant) (fires []near) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.list) > 0 && c.list[0].at <= until {
		fires = append(fires, heap.Pop(&c.list).(near))
	}
	return fires
}

// preheat keeps the groups there whose fires are near.
func (p *Pool) preheat() {
	if p.prewarm == 0 {
		return
	}
	now := p.sink.opts.Now()
	for _, f := range p.coming.due(now.Add(p.prewarm)) {
		p.keepWarm(f.key, time.Now().Add(f.at.Sub(now)+lateFire))
	}
}

// keepWarm has the group of a key there until a time.
func (p *Pool) keepWarm(key string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.warm[key]) {
		p.warm[key] = until
	}
}
