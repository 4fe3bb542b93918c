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
	"github.com/rousehq/rouse/internal/schedulecache"
	"github.com/rousehq/rouse/internal/wheel"
)

// Options configure an engine. Zero fields have the defaults in their comments.
type Options struct {
	Schedules *schedulecache.Cache // compiled schedules; required

	// Read decodes a row. Default is rouse.DecodeTimer, which refuses drafts (rouse.DraftRow).
	Read func(row *rouse.Row) (rouse.Timer, error)
	// Delete deletes a timer whose target answered Gone. Required.
	Delete func(ctx context.Context, key rouse.Key) error

	Buckets       uint32        // the number of buckets that namespaces and names are hashed to; the same on all nodes of a store; default 1
	Ahead         time.Duration // how far ahead of now rows are read; default 10 s
	Poll          time.Duration // how often rows are claimed on a shared store, or where rows are held; default 1 s
	MaxRows       int           // in memory; default 250,000
	MaxBytes      int           // of rows in memory; default 256 MiB
	MaxDeliveries int           // running calls of Sink.Deliver; default 4,096
	MaxCommit     int           // changes in one commit; default 4,096
	Queue         int           // changes that wait for a commit; default 16,384
	Grace         time.Duration // how long deliveries may take to end when the engine stops; default 10 s
	RecordAge     time.Duration // how long records are kept; default 72 h
	MaxRecords    int64         // how many records are kept; default 10 million
	Events        Events

	// RecordsPerTimer is how many records of one timer are kept; up to twice as many may exist for a while.
	// Default 200; negative means no bound.
	RecordsPerTimer int
	// DeadPerTimer is how many dead letters of one timer are kept, the newest ones; ten percent more may
	// exist for a while. Default 1,000; negative means no bound.
	DeadPerTimer int
	// MaxOverlap is how many occurrences of one timer may be in progress under overlap "allow"; further ones
	// are skipped. Default 1,000; negative means no bound.
	MaxOverlap int
	// DeadAge is how long dead letters are kept; default 30 days; negative means for ever.
	DeadAge time.Duration

	// Limit may change the lane that a sink returns, and merge lanes by giving them one name. It must be
	// cheap and pure. Nil leaves lanes unchanged.
	Limit func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane
	// Weight is the share of a namespace relative to others with queued fires: deliveries per turn. Nil means
	// 1 for all.
	Weight func(namespace string) int

	// Direct reads the store's clock each time instead of estimating it between reads. It is for clocks that
	// cost nothing to read, and that stand still or are moved.
	Direct bool

	// Shared means that other nodes may write to the store, which must be a rouse.Shared: revisions are
	// checked once more before fires are sent, and rows that others wrote are read.
	Shared bool
	// Hold is for how long this node hides a row that it keeps without owning its bucket: rows that it wrote
	// for a client and that come due soon, and retries. Default 10 s.
	Hold time.Duration
	// Grain is the position within each 256 ms at which this node ends its holds, 1 to Grains. It differs
	// between the nodes of a store, so that other nodes can find the holds of a dead node (Inherit). 0 picks
	// one at random.
	Grain int
	// Scatter writes client changes without holding them, so that claims spread the rows evenly over the
	// nodes; they are found up to one Poll later.
	Scatter bool
	// ClaimBatch is the maximum number of rows of one claim; default 4,096.
	ClaimBatch int
	// Namespaces are those whose timers this node claims where rows are held; empty means all.
	Namespaces []string
	// Claims are the namespaces that live nodes claim. Nil means all.
	Claims Claims
	// Leader reports whether this node does the work that only one node does, such as deleting old records.
	// Nil means yes.
	Leader func() bool

	// Route returns a name for targets whose timers must be fired by one node: their timers are in the bucket
	// of that name instead of their own, and a node that neither owns nor claims that bucket leaves timers
	// that it writes to the node that does. It must be pure, and the same on all nodes of a store. Nil, or
	// false, leaves timers in the buckets of their names.
	Route func(target string) (name string, ok bool)

	// Near is called for each row that begins to wait in memory, with its target and the time at which it
	// needs attention. The engine is locked during the call, so it must be quick and must not call the
	// engine. May be nil.
	Near func(target string, visible rouse.Instant)

	// Look is the interval of the invariant checks; default 1 min; negative disables them.
	Look time.Duration
}

// Claims are the namespaces that live nodes claim, as far as this node knows.
type Claims interface {
	All() bool                 // every namespace is claimed
	Has(namespace string) bool // this one is
}

func (o Options) withDefaults() Options {
	or := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	span := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	if o.Read == nil {
		o.Read = rouse.DecodeTimer
	}
	if o.Buckets == 0 {
		o.Buckets = 1
	}
	span(&o.Ahead, 10*time.Second)
	span(&o.Poll, time.Second)
	or(&o.MaxRows, 250_000)
	or(&o.MaxBytes, 256<<20)
	or(&o.MaxDeliveries, 4096)
	or(&o.MaxCommit, 4096)
	or(&o.Queue, 16384)
	span(&o.Grace, 10*time.Second)
	span(&o.RecordAge, 72*time.Hour)
	span(&o.DeadAge, 30*24*time.Hour)
	span(&o.Look, time.Minute)
	or(&o.RecordsPerTimer, 200)
	or(&o.DeadPerTimer, 1000)
	or(&o.MaxOverlap, 1000)
	span(&o.Hold, 10*time.Second)
	or(&o.ClaimBatch, pageRows)
	if o.MaxRecords == 0 {
		o.MaxRecords = 10_000_000
	}
	return o
}

// Engine is safe for concurrent use. Its methods that write need Run to be running.
type Engine struct {
	*env
	strategy rouse.Strategy
	sink     rouse.Sink
	writer   *writers
	hub      hub
	health   health

	mu     sync.Mutex
	window window // rows in memory and the wheel
	lanes  lanes  // queues of due rows, and deliveries that are out

	freezer freezer

	presence    rouse.Presence // the store, if it can notify other nodes; nil otherwise
	hints       rouse.Watcher  // the store, if it reports writes of others; nil otherwise
	buckets     *ownership
	holds       *holds
	inheritance *inheritance
	checks      *batch.Writer[rouse.Key, uint64]
	rescans     rescans

	outcomes    outcomes    // reported by sinks, not settled yet
	evaluations evaluations // outcomes whose evaluation is too expensive for the settle loop
	crowds      *crowds
	retention   *retention
	watch       watch         // results of the invariant checks
	wake        chan struct{} // the wheel has an entry earlier than the firing loop waits for
	room        chan struct{} // the window shrank, or rows must be read again
	senders     sync.WaitGroup
	yielded     atomic.Bool     // the other nodes have everything except the attempts that are out
	deliver     context.Context // ends when deliveries must end
	began       chan struct{}   // closed when the store's clock is known
}

// New returns an engine that is idle until Run.
func New(store rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Engine {
	o = o.withDefaults()
	direct := store
	store = Available(store)
	e := &Engine{env: &env{store: store, opts: o}, strategy: strategy, sink: sink,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), began: make(chan struct{})}
	e.crowds = newCrowds(e.env)
	e.retention = newRetention(e.env, e.crowds)
	e.window.init(o.MaxRows, o.MaxBytes)
	e.lanes.init(o.MaxDeliveries, o.Weight)
	e.clock.direct = o.Direct
	e.clock.store = store
	e.clock.jumped = func(from, to rouse.Instant) { e.hindrances.add(rouse.CauseClockMoved, from, to) }
	e.outcomes.signal = make(chan struct{}, 1)
	e.hints, _ = direct.(rouse.Watcher)
	e.health.store, _ = direct.(rouse.Checked)
	e.evaluations.signal = make(chan struct{}, 1)
	e.presence, _ = direct.(rouse.Presence)
	e.buckets = newOwnership(!o.Shared)
	e.holds = newHolds(e.env, e.buckets)
	if o.Shared {
		e.others = direct.(rouse.Shared)
		e.checks = batch.New(batch.Options{MaxItems: o.MaxCommit, MaxBytes: 8 << 20, Queue: o.Queue},
			func(k rouse.Key) int { return len(k.Namespace) + len(k.Name) + len(k.Fire) }, e.readRevisions, nil)
	}
	e.writer = e.newWriters()
	e.retention.writer = e.writer
	e.inheritance = &inheritance{env: e.env, buckets: e.buckets, holds: e.holds, writer: e.writer, has: e.holding}
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
	e.mu.Lock()
	e.window.wheel = wheel.New(e.Now())
	e.mu.Unlock()

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
		e.mu.Lock()
		e.lanes.abandon()
		e.mu.Unlock()
	})
	defer grace.Stop()
	e.lanes.wait(&e.mu)
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
	e.mu.Lock()
	var items []*Write
	for _, en := range e.window.entries {
		if !en.held.IsZero() && !en.busy() {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Plain: true})
		}
	}
	e.mu.Unlock()
	if len(items) > 0 {
		ctx, cancel := context.WithTimeout(ctx, e.opts.Grace)
		defer cancel()
		_, _ = e.writer.Do(ctx, items) // a hold that is not given back expires
		e.announce(ctx)
	}
}
