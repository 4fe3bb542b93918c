package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/target"
)

// Pool is the transport of one pool: its Manager's pool.Queues.
type Pool struct {
	sink    *Sink
	name    string
	manager *pool.Manager
	address func() string
	prewarm time.Duration
	stall   time.Duration
	token   func(group string) string
	gone    func(group string)
	lines   pool.Sparse
	ahead   pool.Ahead

	mu     sync.Mutex
	term   *pool.Term // nil if the pool is not managed
	queues map[string]*queue
	warm   map[string]time.Time // keys whose groups are kept, until when
}

// PoolOptions configure one pool of a sink.
type PoolOptions struct {
	Address func() string // where workers reach the API of this process
	Prewarm time.Duration // how long before an announced fire its group is started
	Stall   time.Duration // workers that hold requests without activity for so long are replaced; 0 means never

	// Token returns the credential of the workers of a group, which Ended ends: the group is gone. Both may
	// be nil.
	Token func(group string) string
	Ended func(group string)
}

// Add adds the pool of a manager to the sink.
func (s *Sink) Add(m *pool.Manager, o PoolOptions) (*Pool, error) {
	name := m.Config().Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools[name] != nil {
		return nil, rouse.Refuse("name", name, "is that of another pool", "give each pool a name of its own")
	}
	p := &Pool{sink: s, name: name, manager: m, address: o.Address, prewarm: o.Prewarm, stall: o.Stall, token: o.Token,
		gone: o.Ended, queues: map[string]*queue{}, warm: map[string]time.Time{}}
	s.pools[name] = p
	return p, nil
}

// Begin starts to manage the pool; after that, requests are accepted. The caller calls the returned function,
// which runs until ctx ends.
func (p *Pool) Begin(ctx context.Context) (run func(), err error) {
	term, err := p.manager.Begin(ctx, p)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.term = term
	p.mu.Unlock()
	return func() {
		p.manager.Metrics().Leads(true)
		p.countPeriodically(ctx, term)
		p.mu.Lock()
		p.term = nil
		p.mu.Unlock()
		p.manager.Metrics().Leads(false)
		term.Wait()
	}, nil
}

// separatesNamespaces reports whether each namespace has groups of its own.
func (p *Pool) separatesNamespaces() bool {
	c := p.manager.Config()
	return c.Apart()
}

// groupOfKey returns the group of the requests of a namespace for a key.
func (p *Pool) groupOfKey(namespace, key string) string {
	c := p.manager.Config()
	return c.Group(namespace, key)
}

// Manager returns the manager of the pool.
func (p *Pool) Manager() *pool.Manager { return p.manager }

// State returns whether the pool is managed.
func (p *Pool) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == nil {
		return pool.StateConnecting
	}
	return pool.StateLeading
}

// Leader returns an empty string: each node leads for the keys whose requests it fires.
func (p *Pool) Leader() string { return "" }

// List returns the existing queues.
func (p *Pool) List(context.Context) ([]pool.Queue, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []pool.Queue
	for key, q := range p.queues {
		if q.there {
			list = append(list, pool.Queue{Key: key, Bound: q.bound})
		}
	}
	return list, nil
}

// Open creates the queue of a key and binds it.
func (p *Pool) Open(_ context.Context, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil {
		q = &queue{}
		p.queues[key] = q
	}
	q.there, q.bound = true, true
	return nil
}

// Unbind turns new requests of the key into orphans.
func (p *Pool) Unbind(_ context.Context, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil || !q.there {
		return pool.ErrNoQueue
	}
	q.bound = false
	return nil
}

// Load returns the content of the queue of a key.
func (p *Pool) Load(_ context.Context, key string) (pool.Load, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[key]; q == nil || !q.there {
		return pool.Load{}, pool.ErrNoQueue
	}
	l := p.sink.streams.Load(p.name, key)
	return pool.Load{Ready: l.Waiting, Held: l.Held, Consumers: l.Subscribers}, nil
}

// Delete removes the queue of a key if it is empty, so no request can be lost.
func (p *Pool) Delete(_ context.Context, key string) (lost int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil || !q.there {
		return 0, nil
	}
	if l := p.sink.streams.Load(p.name, key); l.Waiting+l.Held+l.Subscribers > 0 {
		return 0, fmt.Errorf("%w: %d requests wait, %d are held, and %d workers are there", pool.ErrInUse, l.Waiting, l.Held,
			l.Subscribers)
	}
	q.there, q.bound = false, false
	p.dropQueueEntry(key, q)
	if p.gone != nil {
		p.gone(key)
	}
	return 0, nil
}

// Vars returns the variables by which a worker finds its requests. Workers need not report activity; the
// variable for that is set for workers that require it.
func (p *Pool) Vars(key string) map[string]string {
	vars := map[string]string{"WORKER_REQUESTS_QUEUE": target.Channel(p.name, key),
		"WORKER_ACTIVITY_EXCHANGE": target.Scheme + p.name, "WORKER_ROUSE_ADDRESS": p.address()}
	if p.token != nil {
		vars["WORKER_TOKEN"] = p.token(key)
	}
	return vars
}

// requireActiveGroup makes the group of a key Active, without waiting for its queue.
func (p *Pool) requireActiveGroup(term *pool.Term, key string) { _ = term.Await(ended, key, false) }

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// recallObsolete checks requests that workers have held for recallAfter, at most recallMost at a time.
const (
	recallAfter = time.Second
	recallMost  = 1000
)

// recallObsolete cancels requests at workers if their timers were deleted or replaced.
func (p *Pool) recallObsolete(ctx context.Context) {
	if p.sink.opts.Alive == nil {
		return
	}
	p.sink.streams.Recall(p.name, recallAfter, recallMost, func(fires []rouse.Fire) []bool {
		alive, err := p.sink.opts.Alive(ctx, fires)
		if err != nil { // unknown: try again later
			alive = make([]bool, len(fires))
			for i := range alive {
				alive[i] = true
			}
		}
		return alive
	})
}

// longestLook is the longest interval between two looks at the queues.
const longestLook = 2 * time.Second

// countPeriodically counts the requests in the queues until ctx ends: a group is not idle while its requests
// wait or are with workers, however long they take, nor while it is kept warm.
func (p *Pool) countPeriodically(ctx context.Context, term *pool.Term) {
	every := min(p.manager.Config().Unbind/3, longestLook)
	if p.stall > 0 {
		every = min(every, p.stall/4)
	}
	if p.prewarm > 0 {
		every = min(every, p.prewarm/4, time.Second)
	}
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.recallObsolete(ctx)
		p.warmAnnounced()
		for _, key := range p.warmKeys() {
			p.requireActiveGroup(term, key)
		}
		now := time.Now()
		term.Loads(p.countQueues(), now, p.stall)
	}
}

// countQueues returns the contents of the queues.
func (p *Pool) countQueues() map[string]pool.Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready, held, orphans := 0, 0, 0
	loads := map[string]pool.Load{}
	for key, q := range p.queues {
		for _, d := range q.orphans {
			orphans += len(d.fires)
		}
		if !q.there {
			continue
		}
		l := p.sink.streams.Load(p.name, key)
		ready, held = ready+l.Waiting, held+l.Held
		loads[key] = pool.Load{Ready: l.Waiting, Held: l.Held, Consumers: l.Subscribers}
	}
	p.manager.Metrics().Requests(ready, held, orphans)
	return loads
}

// warmKeys returns the keys whose groups are kept warm.
func (p *Pool) warmKeys() (keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for key, until := range p.warm {
		if until.Before(now) {
			delete(p.warm, key)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

var _ pool.Queues = (*Pool)(nil)
