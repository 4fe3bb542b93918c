// Package engine runs timers: it claims what comes due soon, waits on a wheel, queues fairly, hands fires to
// a sink, and settles their outcomes.
//
//	Put, Pause, Run, Report … ─► group commit ─► store.Apply ─► window        (commit.go, edits.go)
//	strategy ─► store.Claim ────────────────────────────────► window        (read.go)
//	window ─► wheel ─► lanes ─► sink.Deliver ─► outcomes ─► Timer.After ─► group commit   (window.go, lane.go, deliver.go, settle.go)
//
// The window is the part of the timers that is in memory: those visible soon. It is bounded in rows and
// bytes; what does not fit is read later. Commits reach the window in order, from the one goroutine that
// makes them, so the window never holds an older version of a row than one that was acknowledged to a caller.
// That is why an acknowledged delete stops a fire.
//
// Correctness rests on revisions alone. A stalled or duplicated engine fires again what it has in memory,
// with the same fire ids, and its settles are refused.
package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/batch"
	"github.com/rousehq/rouse/internal/wheel"
)

// Engine is safe for concurrent use. Its methods that write need Run to be running.
type Engine struct {
	*env
	strategy rouse.Strategy
	sink     rouse.Sink
	presence rouse.Presence // the store, if it can notify other nodes; nil otherwise
	hints    rouse.Watcher  // the store, if it reports writes of others; nil otherwise

	buckets     *ownership
	holds       *holds
	memory      *memory
	writer      *writers
	outcomes    *outcomes
	evaluations evaluations // outcomes whose evaluation is too expensive for the settle loop
	crowds      *crowds
	retention   *retention
	inheritance *inheritance
	hub         hub
	health      health

	checks  *batch.Writer[rouse.Key, uint64]
	rescans rescans
	watch   watch // results of the invariant checks
	senders sync.WaitGroup
	yielded atomic.Bool     // the other nodes have everything except the attempts that are out
	deliver context.Context // ends when deliveries must end
	began   chan struct{}   // closed when the store's clock is known
}

// New returns an engine that is idle until Run.
func New(store rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Engine {
	o = o.withDefaults()
	v := newEnv(store, o)
	e := &Engine{env: v, strategy: strategy, sink: sink, outcomes: &outcomes{signal: make(chan struct{}, 1)}, began: make(chan struct{})}
	e.hints, _ = store.(rouse.Watcher)
	e.presence, _ = store.(rouse.Presence)
	e.health.store, _ = store.(rouse.Checked)
	e.evaluations.signal = make(chan struct{}, 1)
	e.buckets = newOwnership(!o.Shared)
	e.holds = newHolds(v, e.buckets)
	e.crowds = newCrowds(v)
	e.memory = newMemory(v, sink, e.buckets, e.holds, e.crowds, e.outcomes)
	if o.Shared {
		e.checks = batch.New(batch.Options{MaxItems: o.MaxCommit, MaxBytes: 8 << 20, Queue: o.Queue},
			func(k rouse.Key) int { return len(k.Namespace) + len(k.Name) + len(k.Fire) }, e.readRevisions, nil)
	}
	e.writer = e.newWriters()
	e.retention = newRetention(v, e.crowds, e.writer)
	e.inheritance = &inheritance{env: v, buckets: e.buckets, holds: e.holds, writer: e.writer, memory: e.memory}
	return e
}

// Run fires timers until ctx ends. It then starts no more deliveries, leaves all other timers to other nodes,
// waits up to Grace for running deliveries, settles them, and returns nil. It returns an error only if it
// could not start: a store that becomes unavailable later is retried indefinitely. Run may be called once.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.clock.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("read the store's clock: %w", err)
	}
	e.memory.Lock()
	e.memory.window.wheel = wheel.New(e.Now())
	e.memory.Unlock()

	// Six lifetimes, ended in this order: reading and firing; the strategy; deliveries; evaluation; settling;
	// commits.
	deliver, endDeliveries := context.WithCancel(context.WithoutCancel(ctx))
	evaluate, endEvaluating := context.WithCancel(context.WithoutCancel(ctx))
	settle, endSettling := context.WithCancel(context.WithoutCancel(ctx))
	commit, endCommits := context.WithCancel(context.WithoutCancel(ctx))
	strategy, endStrategy := context.WithCancel(context.WithoutCancel(ctx))
	defer endStrategy()
	defer endCommits()
	defer endSettling()
	defer endEvaluating()
	defer endDeliveries()
	e.deliver = deliver
	e.memory.send = func(d delivery) { e.senders.Go(func() { e.send(d) }) }
	close(e.began)

	var front, evaluators, settlers, committers, strategies sync.WaitGroup
	if r, ok := e.strategy.(rouse.Runner); ok {
		strategies.Go(func() { r.Run(strategy) })
	}
	committers.Go(func() { e.writer.Run(commit) })
	settlers.Go(func() { e.settleLoop(settle) })
	evaluators.Go(func() { e.evaluateLoop(evaluate) })
	if e.others != nil {
		committers.Go(func() { e.checks.Run(commit) })
		settlers.Go(func() { e.renewLoop(settle) })
		front.Go(func() { e.hintLoop(ctx) })
	}
	front.Go(func() { e.clockLoop(ctx) })
	front.Go(func() { e.readLoop(ctx) })
	front.Go(func() { e.fireLoop(ctx) })
	front.Go(func() { e.retention.recordsLoop(ctx) })
	front.Go(func() { e.retention.timersLoop(ctx) })
	front.Go(func() { e.watchLoop(ctx) })

	<-ctx.Done()
	e.stopping.Store(true)
	front.Wait()
	e.yield(commit)
	endStrategy()
	strategies.Wait()
	settlers.Go(func() { e.releaseLoop(settle) })
	e.drain(endDeliveries)
	endEvaluating()
	evaluators.Wait()
	endSettling()
	settlers.Wait()
	e.release(commit)
	endCommits()
	committers.Wait()
	e.hub.close()
	return nil
}

// drain waits until no delivery is out; after Grace it cancels those that still run. A canceled sink reports
// its results immediately, so drain waits only for it to return.
func (e *Engine) drain(end func()) {
	grace := time.AfterFunc(e.opts.Grace, func() {
		e.memory.Lock()
		e.memory.lanes.abandon()
		e.memory.Unlock()
	})
	defer grace.Stop()
	e.memory.lanes.wait(&e.memory.Mutex)
	end()
	e.senders.Wait()
}

// releaseLoop gives back rows that were held but not sent, until ctx ends.
func (e *Engine) releaseLoop(ctx context.Context) {
	for e.others != nil && backoff.Sleep(ctx, leavingLook) {
		e.release(ctx)
	}
}

// release gives back the holds of rows that were not sent, so that another node can fire them at once.
func (e *Engine) release(ctx context.Context) {
	e.memory.Lock()
	var items []*Write
	for _, en := range e.memory.window.entries {
		if !en.held.IsZero() && !en.busy() {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Plain: true})
		}
	}
	e.memory.Unlock()
	if len(items) > 0 {
		ctx, cancel := context.WithTimeout(ctx, e.opts.Grace)
		defer cancel()
		_, _ = e.writer.Do(ctx, items) // a hold that is not given back expires
		e.announce(ctx)
	}
}
