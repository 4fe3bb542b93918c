package server

import (
	"sync"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// Calls tracks which callers wait for the end of which request to a pool. The owner of the server calls
// Answered for answers before they are written, and Recorded for records when they are.
type Calls struct {
	target func(pool, key string) (string, error)

	waiting atomic.Int64 // length of byKey
	mu      sync.Mutex
	byKey   map[rouse.Key]*wait
}

// wait is shared by all callers that wait for one request.
type wait struct {
	users  int
	answer *rouse.Answer
	record rouse.Record
	ended  chan struct{} // closed when record is set
	over   bool
}

// NewCalls returns the Calls of pools; target returns the target of their requests.
func NewCalls(target func(pool, key string) (string, error)) *Calls {
	return &Calls{target: target, byKey: map[rouse.Key]*wait{}}
}

// registerWait registers a caller that waits for a request. It is called before the request is created.
func (c *Calls) registerWait(key rouse.Key) *wait {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.byKey[key]
	if w == nil {
		w = &wait{ended: make(chan struct{})}
		c.byKey[key] = w
		c.waiting.Add(1)
	}
	w.users++
	return w
}

// unregisterWait unregisters a caller.
func (c *Calls) unregisterWait(key rouse.Key, w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.users--; w.users == 0 && c.byKey[key] == w {
		delete(c.byKey, key)
		c.waiting.Add(-1)
	}
}

// Answered reports the answer to a fire. It does not block.
func (c *Calls) Answered(f *rouse.Fire, a *rouse.Answer) {
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.byKey[rouse.Key{Namespace: f.Namespace, Name: f.Name}]; w != nil && !w.over {
		w.answer = a
	}
}

// Recorded reports how occurrences ended. It does not block.
func (c *Calls) Recorded(records []rouse.Record) {
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range records {
		key := rouse.Key{Namespace: records[i].Namespace, Name: records[i].Name}
		w := c.byKey[key]
		if w == nil {
			continue
		}
		w.record, w.over = records[i], true
		close(w.ended)
		delete(c.byKey, key) // later callers wait for a new request
		c.waiting.Add(-1)
	}
}
