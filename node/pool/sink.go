package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/local"
	"github.com/rousehq/rouse/internal/pool/target"
)

// remotePool is a pool whose requests are at a broker.
type remotePool struct {
	name       string
	manager    *pool.Manager
	controller pool.Controller
	caller     pool.Caller
}

// refusedPause is how long a broker that will not have this node is left alone.
const refusedPause = 30 * time.Second

// manageRemote manages the pool, or stands by, until ctx ends. A broker that refuses it is no reason for the
// node to end, as timers go on.
func (r *remotePool) manageRemote(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := r.controller.Run(ctx); err != nil {
			log.Error("a pool cannot be managed; it is tried again", "pool", r.name, "after", refusedPause, "error", err)
			backoff.Sleep(ctx, refusedPause)
		}
	}
}

// manageUntilBroken manages the pools of a node that does nothing else, until ctx ends or one of them cannot
// be managed. Then another node takes over at once.
func (p *part) manageUntilBroken(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, r := range p.remote {
		running.Go(func() {
			if err := r.controller.Run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	<-ctx.Done()
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// waitUntilBroken returns why the pools of such a node cannot be managed; nil if ctx ends before.
func (p *part) waitUntilBroken(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.broke:
		return err
	}
}

// poolSink is the sink of targets "pool:NAME/KEY": it gives each to the transport of its pool.
type poolSink struct {
	*local.Sink
	remote map[string]pool.Caller // by the names of pools
	apart  map[string]bool        // of these, those whose groups are each of one namespace
	now    func() rouse.Instant

	managers map[string]*pool.Manager // by the names of all pools
}

// sinkOfPools is the sink of all pools.
func (p *part) sinkOfPools() poolSink {
	s := poolSink{Sink: p.sink, remote: map[string]pool.Caller{}, apart: map[string]bool{}, now: p.storeNow,
		managers: p.managers}
	for _, r := range p.remote {
		c := r.manager.Config()
		s.remote[r.name], s.apart[r.name] = r.caller, c.Apart()
	}
	return s
}

// callerOfTarget returns the caller of the pool of a target, and its key; nil if it is a pool on
// the store, or no target of a pool.
func (s poolSink) callerOfTarget(to string) (pool.Caller, string) {
	if len(s.remote) == 0 {
		return nil, ""
	}
	name, key, err := target.Parse(to)
	if err != nil {
		return nil, ""
	}
	return s.remote[name], key
}

// Check refuses a spec whose target is no pool of this node.
func (s poolSink) Check(spec *rouse.Spec) error {
	if c, _ := s.callerOfTarget(spec.Target); c != nil {
		return local.CheckOptions(spec)
	}
	return s.Sink.Check(spec)
}

// Lane returns a lane for each group.
func (s poolSink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	lane := s.Sink.Lane(namespace, spec)
	if name, ok := target.Pool(spec.Target); ok && s.apart[name] {
		lane.Name = namespace + "/" + lane.Name
	}
	return lane
}

// Deliver makes requests.
func (s poolSink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) > 0 {
		if c, key := s.callerOfTarget(fires[0].Spec.Target); c != nil {
			c.Deliver(ctx, key, fires, settle)
			return
		}
	}
	s.Sink.Deliver(ctx, fires, settle)
}

// Obstacle returns the reason why requests do not reach their workers.
func (s poolSink) Obstacle(namespace string, spec *rouse.Spec) string {
	name, _ := target.Pool(spec.Target)
	if m := s.managers[name]; m != nil {
		c := m.Config()
		if wait := c.DescribeWindowWait(time.Now()); wait != "" {
			return "the pool " + name + " waits for its " + wait
		}
	}
	if c, _ := s.callerOfTarget(spec.Target); c != nil {
		return c.Obstacle()
	}
	return s.Sink.Obstacle(namespace, spec)
}

// Near announces a coming fire.
func (s poolSink) Near(namespace, target string, at rouse.Instant) {
	if c, key := s.callerOfTarget(target); c != nil {
		c.Near(namespace, key, at.Sub(s.now()))
		return
	}
	s.Sink.Near(namespace, target, at)
}

// drainPools puts off all requests, and those that come from now on.
func (p *part) drainPools() {
	p.sink.Drain()
	for _, r := range p.remote {
		r.caller.Drain()
	}
}
