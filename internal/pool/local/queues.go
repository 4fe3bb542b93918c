package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// Pool is the transport of one pool: its Manager's pool.Queues.
type Pool struct {
	sink    *Sink
	name    string
	manager *pool.Manager
	address func() string
	prewarm time.Duration
	stall   time.Duration
	lines   pool.Sparse
	ahead   pool.Ahead

	mu     sync.Mutex
	term   *pool.Term // nil while it is not managed
	queues map[string]*queue
	warm   map[string]time.Time // keys whose groups are to be there, until when
}

// PoolOptions say how requests of one pool come to its workers.
type PoolOptions struct {
	Address func() string // where workers reach the API of this process
	Prewarm time.Duration // how long before its time the group of a fire is started that Near has told of
	Stall   time.Duration // workers that hold requests and do nothing for so long are replaced; 0 is never
}

// Add makes the sink that of a manager's pool, too.
func (s *Sink) Add(m *pool.Manager, o PoolOptions) (*Pool, error) {
	name := m.Config().Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools[name] != nil {
		return nil, rouse.Refuse("name", name, "is that of another pool", "give each pool a name of its own")
	}
	p := &Pool{sink: s, name: name, manager: m, address: o.Address, prewarm: o.Prewarm, stall: o.Stall, queues: map[string]*queue{}, warm: map[string]time.Time{}}
	s.pools[name] = p
	return p, nil
}

// Begin begins to manage the pool: from its return on requests are taken. What it returns is to be called, and goes on until ctx ends.
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
		p.look(ctx, term)
		p.mu.Lock()
		p.term = nil
		p.mu.Unlock()
		p.manager.Metrics().Leads(false)
		term.Wait()
	}, nil
}

// Manager returns the manager of the pool.
func (p *Pool) Manager() *pool.Manager { return p.manager }

// List returns the queues that are there.
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

// Open makes the queue of a key and binds it.
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

// Unbind makes orphans of what comes from now on.
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

// Load looks into the queue of a key.
func (p *Pool) Load(_ context.Context, key string) (pool.Load, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[key]; q == nil || !q.there {
		return pool.Load{}, pool.ErrNoQueue
	}
	l := p.sink.streams.Load(p.name, key)
	return pool.Load{Ready: l.Waiting, Held: l.Held, Consumers: l.Subscribers}, nil
}

// Delete removes the queue of a key, if nothing is in it. Nothing can be lost with it.
func (p *Pool) Delete(_ context.Context, key string) (lost int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil || !q.there {
		return 0, nil
	}
	if l := p.sink.streams.Load(p.name, key); l.Waiting+l.Held+l.Subscribers > 0 {
		return 0, fmt.Errorf("%w: %d requests wait, %d are held, and %d workers are there", pool.ErrInUse, l.Waiting, l.Held, l.Subscribers)
	}
	q.there, q.bound = false, false
	p.forget(key, q)
	return 0, nil
}

// Vars returns how a worker finds its requests. Nobody needs to report activity; the variable for that is there for the sake of
// workers that want it set.
func (p *Pool) Vars(key string) map[string]string {
	return map[string]string{"WORKER_REQUESTS_QUEUE": Target(p.name, key), "WORKER_ACTIVITY_EXCHANGE": Scheme + p.name, "WORKER_ROUSE_ADDRESS": p.address()}
}

// require makes the group of a key Active, and does not wait for its queue.
func (p *Pool) require(term *pool.Term, key string) { _ = term.Await(ended, key, false) }

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// What recall looks at: requests that workers have had for so long, and at most so many at a time.
const (
	recallAfter = time.Second
	recallMost  = 1000
)

// recall takes requests from workers whose timers were deleted or replaced.
func (p *Pool) recall(ctx context.Context) {
	if p.sink.opts.Alive == nil {
		return
	}
	p.sink.streams.Recall(p.name, recallAfter, recallMost, func(fires []rouse.Fire) []bool {
		alive, err := p.sink.opts.Alive(ctx, fires)
		if err != nil { // nothing is known
			alive = make([]bool, len(fires))
			for i := range alive {
				alive[i] = true
			}
		}
		return alive
	})
}

// longestLook is how old what is known of queues may be.
const longestLook = 2 * time.Second

// look looks after groups until ctx ends: one whose requests wait, or are with workers, is not idle, however long they take; nor is
// one that is kept warm.
func (p *Pool) look(ctx context.Context, term *pool.Term) {
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
		p.recall(ctx)
		p.preheat()
		for _, key := range p.busy() {
			p.require(term, key)
		}
	}
}

// busy returns the keys whose groups are not idle, and counts what is in the queues.
func (p *Pool) busy() (keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, ready, held, orphans := time.Now(), 0, 0, 0
	loads, holding := map[string]pool.Load{}, map[string]int{}
	for key, q := range p.queues {
		for _, d := range q.orphans {
			orphans += len(d.fires)
		}
		if !q.there {
			continue
		}
		l := p.sink.streams.Load(p.name, key)
		ready, held = ready+l.Waiting, held+l.Held
		if l.Held > 0 {
			holding[key] = l.Held
		}
		loads[key] = pool.Load{Ready: l.Waiting, Held: l.Held, Consumers: l.Subscribers}
		if l.Waiting+l.Held > 0 {
			keys = append(keys, key)
		}
	}
	for key, until := range p.warm {
		if until.Before(now) {
			delete(p.warm, key)
			continue
		}
		keys = append(keys, key)
	}
	p.manager.Metrics().Requests(ready, held, orphans)
	if p.term != nil {
		p.term.Loads(loads)
		if p.stall > 0 {
			p.term.Stalled(holding, p.stall)
		}
	}
	return keys
}

var _ pool.Queues = (*Pool)(nil)
