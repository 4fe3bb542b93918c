// Package local is the transport of pools without a broker: requests are fires of timers whose target is
// "pool:NAME/KEY". Workers take them from this process, over the streams by which clients subscribe.
//
//	engine ─► Deliver ─┬─ the key has a bound queue ─► stream.Sink ─► a worker's stream ─► answer ─► outcome   (deliver.go)
//	                   └─ otherwise it is an orphan and waits ─► Term.Await ─► Open ─► as above                 (stage.go)
//	Manager ─► Queues: List, Open, Unbind, Load, Delete                                                      (queues.go)
//
// Only the timer is durable. The queue of a key is the part of its fires that is in memory: those that wait
// for a worker, and those that workers hold. When a process ends, its timers remain due, and the next one
// starts without queues.
//
// A worker subscribes to the channel in WORKER_REQUESTS_QUEUE. It need not report its activity: the process
// sees its subscription and the requests sent to it. A group is not idle while one of its workers holds a
// request.
package local

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/target"
	"github.com/rousehq/rouse/sink/stream"
)

// Options configure a sink. Zero fields mean the default.
type Options struct {
	Wait time.Duration // how long a request waits in memory for a worker before it is deferred; default 1 min
	// requests in memory; default 131,072. It should be well below the rows that the engine has in memory
	MaxHeld int
	PerKey  int // requests of one key in memory, at most; default 1024

	// Now is the store's clock; default the machine's.
	Now func() rouse.Instant

	// Alive reports, for fires that workers hold, whether their timers still exist in the generation that
	// fired; default all do.
	Alive func(ctx context.Context, fires []rouse.Fire) ([]bool, error)

	// Answered is called with each answer of a worker before it is written. It must not block; optional.
	Answered func(f *rouse.Fire, a *rouse.Answer)
}

func (o Options) withLocalDefaults() Options {
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	if o.MaxHeld == 0 {
		o.MaxHeld = 131_072
	}
	if o.PerKey == 0 {
		o.PerKey = 1024
	}
	if o.Now == nil {
		o.Now = func() rouse.Instant { return rouse.Reached(time.Now()) }
	}
	if o.Answered == nil {
		o.Answered = func(*rouse.Fire, *rouse.Answer) {}
	}
	return o
}

// maxPutOff is the longest deferral of a request that no worker took in time.
const maxPutOff = 2 * time.Second

// CodeRejected is the code of the outcome of a request that a worker has rejected permanently.
const CodeRejected = 422

// Sink is the sink of targets "pool:NAME/KEY". It is safe for concurrent use.
type Sink struct {
	opts    Options
	streams *stream.Sink
	held    atomic.Int64 // requests in memory
	waking  sync.WaitGroup

	life context.Context // ends when waiting requests are deferred
	end  context.CancelFunc

	mu    sync.RWMutex
	pools map[string]*Pool
}

// New returns a sink without pools.
func New(o Options) *Sink {
	s := &Sink{opts: o.withLocalDefaults(), pools: map[string]*Pool{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.streams = stream.New(stream.Options{Wait: s.opts.Wait, MaxPutOff: maxPutOff, Outstanding: s.opts.PerKey,
		Strict: true, Now: s.opts.Now,
		Channel: s.parseChannel, Happened: s.handleStreamEvent})
	return s
}

// poolNamed returns the pool with a name, nil if there is none.
func (s *Sink) poolNamed(name string) *Pool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pools[name]
}

// Check validates a target: its pool must exist here.
func (s *Sink) Check(spec *rouse.Spec) error {
	name, _, err := target.Parse(spec.Target)
	if err != nil {
		return err
	}
	if s.poolNamed(name) == nil {
		return rouse.Refuse("target", spec.Target, fmt.Sprintf("names the pool %s, which this node does not have", name),
			"name one of its pools, or set pools")
	}
	return CheckOptions(spec)
}

// CheckOptions refuses options that have no meaning for a pool, with any transport.
func CheckOptions(spec *rouse.Spec) error {
	w := &spec.Webhook
	if w.Any() {
		return rouse.Refuse("webhook", "", "has no meaning for a pool", "leave it out, or give an http or https target")
	}
	return nil
}

// Lane returns a lane for each group, so that groups do not delay each other.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	lane := cloneTarget(spec.Target)
	if name, ok := target.Pool(spec.Target); ok {
		if p := s.poolNamed(name); p != nil && p.separatesNamespaces() {
			lane = namespace + "/" + lane
		}
	}
	return rouse.Lane{Name: lane, Limit: s.opts.PerKey, Batch: maxBatch, Paced: true}
}

// maxBatch is the maximum number of requests in one Deliver.
const maxBatch = 256

// Obstacle returns that the pool does not exist, or that the key has no worker yet.
func (s *Sink) Obstacle(namespace string, spec *rouse.Spec) string {
	name, key, err := target.Parse(spec.Target)
	if err != nil {
		return err.Error()
	}
	p := s.poolNamed(name)
	if p == nil {
		return "this node has no pool " + name
	}
	if s.streams.Load(name, p.groupOfKey(namespace, key)).Subscribers == 0 {
		return "no worker of the key has come yet"
	}
	return ""
}

// Drain defers requests that wait for a queue, and all new ones, so that the shutdown of the engine does not
// wait for them.
func (s *Sink) Drain() {
	s.end()
	s.streams.Drain()
}

// Close ends the workers' streams. Wait waits for their end.
func (s *Sink) Close() {
	s.end()
	s.streams.Close()
}

// Wait returns when all goroutines have ended, after Close and after the gRPC server has stopped.
func (s *Sink) Wait() {
	s.waking.Wait()
	s.streams.Wait()
}

var _ interface {
	rouse.Sink
	rouse.Obstructed
} = (*Sink)(nil)

// cloneTarget copies a target, which may be a substring of the timer's row, so that the row can be freed.
func cloneTarget(target string) string { return strings.Clone(target) }
