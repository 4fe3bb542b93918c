// Package local is the transport of pools without a broker: requests are fires of timers whose target is "pool:NAME/KEY", and
// workers take them from this process, over the streams by which clients subscribe.
//
//	engine ─► Deliver ─┬─ the key has a bound queue ─► stream.Sink ─► a worker's stream ─► answer ─► outcome   (deliver.go)
//	                   └─ it has not: an orphan, which waits ─► Term.Await ─► Open ─► as above                 (stage.go)
//	Manager ─► Queues: List, Open, Unbind, Load, Delete                                                      (queues.go)
//
// What is durable is the timer alone. The queue of a key is what is in memory of its fires: those that wait for a worker, and those
// that workers have. A process that ends leaves the timers due, and the next one begins with no queues at all.
//
// A worker subscribes to the channel that its WORKER_REQUESTS_QUEUE names. It need not report what it does: that it has come, and
// that it is sent a request, is seen here; and a group is not idle while one of its workers has a request.
package local

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/stream"
)

// Options tune a sink. Zero fields have the defaults that their comments name.
type Options struct {
	Wait    time.Duration // how long a request waits in memory for a worker, before it is looked at anew; default 1 min
	MaxHeld int           // requests in memory; default 131,072. It should be well below the rows that the engine has in memory
	PerKey  int           // requests of one key in memory, at most; default 1024

	// Now is the store's clock; default the machine's.
	Now func() rouse.Instant

	// Alive says of fires that workers have whether their timers are still there, in the generation that fired; default all are.
	Alive func(ctx context.Context, fires []rouse.Fire) ([]bool, error)

	// Answered is told of each answer of a worker before it is written; default nobody is. It must not block.
	Answered func(f *rouse.Fire, a *rouse.Answer)
}

func (o Options) withDefaults() Options {
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

// maxPutOff is how long a request that no worker took in time is out of memory.
const maxPutOff = 2 * time.Second

// CodeRejected is the code of the outcome of a request that a worker has refused for good.
const CodeRejected = 422

// Sink is the sink of targets "pool:NAME/KEY". It is safe for concurrent use.
type Sink struct {
	opts    Options
	streams *stream.Sink
	held    atomic.Int64 // requests in memory
	waking  sync.WaitGroup

	life context.Context // ends when what waits is put off
	end  context.CancelFunc

	mu    sync.RWMutex
	pools map[string]*Pool
}

// New returns a sink without pools.
func New(o Options) *Sink {
	s := &Sink{opts: o.withDefaults(), pools: map[string]*Pool{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.streams = stream.New(stream.Options{Wait: s.opts.Wait, MaxPutOff: maxPutOff, Outstanding: s.opts.PerKey, Strict: true, Now: s.opts.Now,
		Channel: s.channel, Happened: s.happened})
	return s
}

// pool returns a pool by its name, nil if there is none.
func (s *Sink) pool(name string) *Pool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pools[name]
}

// Check refuses what is no target of a pool that is here.
func (s *Sink) Check(spec *rouse.Spec) error {
	name, _, err := Parse(spec.Target)
	if err != nil {
		return err
	}
	if s.pool(name) == nil {
		return rouse.Refuse("target", spec.Target, fmt.Sprintf("names the pool %s, which this node does not have", name), "name one of its pools, or set pools")
	}
	return CheckOptions(spec)
}

// CheckOptions refuses options that mean nothing to a pool, whatever its transport.
func CheckOptions(spec *rouse.Spec) error {
	w := &spec.Webhook
	if w.Method != "" || len(w.Headers) > 0 || w.Structured || w.Batch != 0 || w.Accept != 0 {
		return rouse.Refuse("webhook", "", "has no meaning for a pool", "leave it out, or give an http or https target")
	}
	return nil
}

// Lane returns a lane for each key, so that keys do not delay each other.
func (s *Sink) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: clone(spec.Target), Limit: s.opts.PerKey, Batch: maxBatch, Paced: true}
}

// maxBatch is how many requests come in one Deliver.
const maxBatch = 256

// Obstacle says that there is no such pool, or that no worker of the key has come.
func (s *Sink) Obstacle(_ string, spec *rouse.Spec) string {
	name, key, err := Parse(spec.Target)
	if err != nil {
		return err.Error()
	}
	if s.pool(name) == nil {
		return "this node has no pool " + name
	}
	if s.streams.Load(name, key).Subscribers == 0 {
		return "no worker of the key has come yet"
	}
	return ""
}

// Drain puts off what waits to have a queue, and what comes from now on, so that an engine that stops does not wait for it.
func (s *Sink) Drain() { s.end() }

// Close ends the workers' streams. Wait waits.
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
