// Package engine runs timers: it claims rows that come due soon, waits on a wheel, queues fairly, hands fires
// to a sink, and settles their outcomes.
//
//	Put, Pause, Run, Report … ─► group commit ─► store.Apply ─► window        (commit.go, edits.go)
//	strategy ─► store.Claim ────────────────────────────────► window        (read.go)
//	window ─► wheel ─► lanes ─► sink.Deliver ─► outcomes ─► Timer.After ─► group commit   (memory.go, due.go, dispatch.go, send.go, settle.go)
//
// Each of these steps is a type with the state that it alone needs: reader, memory, sender, settler, commits.
// A reader and a sender know the memory; the memory knows none of them. Next to these, where other nodes
// write to the store: ownership (the buckets that the strategy has granted), holds, rechecks, rescans,
// renewals, handover, inheritance. Engine puts them together, starts and stops them, and answers the
// questions of package timers.
//
// The window is the part of the timers that is in memory: those visible soon. It is bounded in rows and
// bytes; rows that do not fit are read later. Commits reach the window in order, from the one goroutine that
// makes them, so the window never holds an older version of a row than one that was acknowledged to a caller.
// That is why an acknowledged delete stops a fire.
//
// Correctness rests on revisions alone. A stalled or duplicated engine fires again the rows it has in memory,
// with the same fire ids, and its settles are refused.
package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/wheel"
)

// Engine is safe for concurrent use. Its methods that write need Run to be running.
type Engine struct {
	*env
	buckets     *ownership
	holds       *holds
	memory      *memory
	commits     *commits
	reader      *reader
	sender      *sender
	settler     *settler
	renewals    *renewals
	handover    *handover
	inheritance *inheritance
	retention   *retention
	inspection  *inspection
	health      *health
	began       chan struct{} // closed when the store's clock is known
}

// New returns an engine that is idle until Run.
func New(store rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Engine {
	v := newEnv(store, strategy, o.withDefaults())
	e := &Engine{env: v, buckets: newOwnership(!o.Shared), began: make(chan struct{})}
	outcomes := &outcomes{signal: make(chan struct{}, 1)}
	evaluations := &evaluations{signal: make(chan struct{}, 1)}
	crowds, rescans := newCrowds(v), &rescans{}
	e.holds = newHolds(v, e.buckets)
	e.memory = newMemory(v, sink, e.buckets, e.holds, crowds, outcomes)
	e.health = newHealth(v, store, evaluations)
	e.commits = newCommits(e.memory, e.health)
	e.handover = newHandover(e.commits, store)
	e.inheritance = &inheritance{env: v, buckets: e.buckets, holds: e.holds, commits: e.commits, memory: e.memory}
	e.reader = &reader{env: v, buckets: e.buckets, holds: e.holds, memory: e.memory, rescans: rescans,
		handover: e.handover, inheritance: e.inheritance, health: e.health}
	e.sender = &sender{env: v, sink: sink, memory: e.memory, holds: e.holds, commits: e.commits, outcomes: outcomes,
		health: e.health,
		spare:  make(chan delivery, spareSenders)}
	if v.others != nil {
		e.sender.rechecks = newRechecks(e.memory, rescans)
	}
	e.renewals = &renewals{env: v, memory: e.memory, commits: e.commits}
	e.retention = newRetention(v, crowds, e.commits)
	e.settler = &settler{env: v, memory: e.memory, commits: e.commits, outcomes: outcomes, evaluations: evaluations,
		crowds:    crowds,
		retention: e.retention, handover: e.handover, health: e.health}
	e.inspection = &inspection{env: v, buckets: e.buckets, memory: e.memory, rescans: rescans}
	return e
}

// Run fires timers until ctx ends. It then starts no more deliveries, leaves all other timers to other nodes,
// waits up to Grace for running deliveries, settles them, and returns nil. It returns an error only if it
// could not start: a store that becomes unavailable later is retried indefinitely. Run may be called once.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.clock.startClock(ctx); err != nil {
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
	e.memory.send = func(d delivery) { e.sender.startDelivery(deliver, d) }
	close(e.began)

	var front, evaluators, settlers, committers, strategies sync.WaitGroup
	if e.runner != nil {
		strategies.Go(func() { e.runner.Run(strategy) })
	}
	committers.Go(func() { e.commits.runWriters(commit) })
	settlers.Go(func() { e.settler.settlingLoop(settle) })
	evaluators.Go(func() { e.settler.evaluateLoop(evaluate) })
	if e.others != nil {
		committers.Go(func() { e.sender.rechecks.batch.Run(commit) })
		settlers.Go(func() { e.renewals.renewLoop(settle) })
	}
	if e.hints != nil {
		front.Go(func() { e.reader.hintLoop(ctx, e.hints) })
	}
	front.Go(func() { e.clockLoop(ctx) })
	front.Go(func() { e.reader.readLoop(ctx) })
	front.Go(func() { e.sender.fireLoop(ctx) })
	front.Go(func() { e.retention.recordsLoop(ctx) })
	front.Go(func() { e.retention.timersLoop(ctx) })
	front.Go(func() { e.memory.expectations.attendLoop(ctx) })
	front.Go(func() { e.memory.jobs.attendLoop(ctx) })
	front.Go(func() { e.inspection.inspectLoop(ctx) })

	<-ctx.Done()
	e.stopping.Store(true)
	front.Wait()
	e.handover.yieldAll(commit)
	endStrategy()
	strategies.Wait()
	settlers.Go(func() { e.handover.releaseLoop(settle) })
	e.drainDeliveries(endDeliveries)
	endEvaluating()
	evaluators.Wait()
	endSettling()
	settlers.Wait()
	e.handover.releaseUnsent(commit)
	endCommits()
	committers.Wait()
	e.commits.hub.closeFollowers()
	return nil
}

// drainDeliveries waits until no delivery is out; after Grace it cancels those that still run. A canceled
// sink reports its results immediately, so drain waits only for it to return.
func (e *Engine) drainDeliveries(end func()) {
	grace := time.AfterFunc(e.opts.Grace, func() {
		e.memory.Lock()
		e.memory.lanes.abandonWait()
		e.memory.Unlock()
	})
	defer grace.Stop()
	e.memory.lanes.waitUntilQuiet(&e.memory.Mutex)
	end()
	e.sender.running.Wait()
}
