// Package engine runs timers: it claims what comes due soon, waits on a wheel, queues fairly, hands fires to a sink, and
// settles their outcomes.
//
//	Put, Pause, Run, Report … ─► group commit ─► store.Apply ─► window        (commit.go, put.go, edit.go)
//	strategy ─► store.Claim ────────────────────────────────► window        (read.go)
//	window ─► wheel ─► lanes ─► sink.Deliver ─► outcomes ─► Timer.After ─► group commit   (window.go, lane.go, deliver.go, settle.go)
//
// The window is the part of the timers that is in memory: those visible soon. It is bounded in rows and bytes; what does not
// fit is read later. Commits reach the window in their order, from the one goroutine that makes them, so the window never
// holds an older version of a row than a caller was told of: that is what lets an acknowledged delete stop a fire.
//
// Correctness rests on revisions alone. A stalled or doubled engine fires again what it has in memory, with the same fire
// ids, and its settles are refused.
package engine

import (
	"cmp"
	"context"
	"errors"
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

// Options bound and tune an engine. Zero fields have the defaults that their comments name.
type Options struct {
	Schedules *schedulecache.Cache // what timers are due by; required

	// Read decodes a row. Default is rouse.DecodeTimer, which refuses drafts (rouse.DraftRow).
	Read func(row *rouse.Row) (rouse.Timer, error)
	// Delete deletes a timer whose target wants no more of it. Required.
	Delete func(ctx context.Context, key rouse.Key) error

	Buckets       uint32        // the number of buckets that namespaces and names are hashed to; the same on all nodes of a store; default 1
	Ahead         time.Duration // how far ahead of now rows are read; default 10 s
	Poll          time.Duration // how often rows are claimed where others write to the store too, or where rows are held; default 1 s
	MaxRows       int           // in memory; default 250,000
	MaxBytes      int           // of rows in memory; default 256 MiB
	MaxDeliveries int           // running calls of Sink.Deliver; default 4,096
	MaxCommit     int           // changes in one commit; default 4,096
	Queue         int           // changes that wait for a commit; default 16,384
	Grace         time.Duration // how long deliveries may take to end when the engine stops; default 10 s
	RecordAge     time.Duration // how long records are kept; default 72 h
	MaxRecords    int64         // how many records are kept; default 10 million
	Events        Events

	// RecordsPerTimer is how many records of one timer are kept; up to twice as many are there for a while. Default 200;
	// negative is no bound.
	RecordsPerTimer int
	// DeadPerTimer is how many dead letters of one timer are kept, the newest; a tenth more may be there for a while. Default 1,000;
	// negative is no bound.
	DeadPerTimer int
	// MaxOverlap is how many occurrences of one timer are in progress at a time under overlap "allow"; what comes due with as many is
	// skipped. Default 1,000; negative is no bound.
	MaxOverlap int
	// DeadAge is how long dead letters are kept; default 30 days; negative is for ever.
	DeadAge time.Duration

	// Limit may lower or widen what a sink says of a lane, and gather several lanes in one by giving them one name. It is cheap
	// and pure. Nil leaves lanes as they are.
	Limit func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane
	// Weight is the share of a namespace beside others that have something to send: so many deliveries a turn. Nil is 1 for all.
	Weight func(namespace string) int

	// Direct reads the store's clock at each look, where it costs nothing, instead of estimating it between looks: for clocks
	// that stand still, or are moved.
	Direct bool

	// Shared says that other nodes may write to the store, which is a rouse.Shared then: fires are looked at once more before
	// they are sent, and what others write is read.
	Shared bool
	// Hold is for how long a row is hidden from other nodes that this node keeps without owning its bucket: what it was asked to
	// write and comes due soon, and what it retries. Default 10 s.
	Hold time.Duration
	// Grain is when, in each quarter of a second, this node ends the holds that it writes: 1 to Grains, not the same for two nodes of a
	// store, so that others can tell the holds of a dead node (Inherit). 0 is any.
	Grain int
	// Scatter writes what clients ask for without keeping it, so that the nodes' claims spread it evenly; it is found a Poll later.
	Scatter bool
	// ClaimBatch is how many rows one claim takes at most; default 4,096.
	ClaimBatch int
	// Namespaces are those whose timers this node claims where rows are held; empty is all.
	Namespaces []string
	// Claims are the namespaces that live nodes claim. Nil is all.
	Claims Claims
	// Leader says whether this node does what one node does for all, such as forgetting old records. Nil is yes.
	Leader func() bool

	// Route names what the timers of a target have in common that one node is to fire: they are in the bucket of that name instead of their
	// own, and a node that neither owns nor claims the bucket leaves what it writes of them to the one that does. It is pure, and the same
	// on all nodes of a store. Nil, or false, leaves timers in the buckets of their names.
	Route func(target string) (name string, ok bool)

	// Near is told of each row that begins to wait in memory: its target, and when it needs attention. The engine is locked meanwhile,
	// so it is quick and calls nothing of the engine's. Nil is told nothing.
	Near func(target string, visible rouse.Instant)

	// Look is how often the invariants are looked at; default 1 min; negative is never.
	Look time.Duration
}

// Claims are the namespaces that live nodes claim, as far as this one knows.
type Claims interface {
	All() bool                 // every namespace is claimed
	Has(namespace string) bool // this one is
}

// Unclaimed reports whether no live node claims a namespace, so that its timers wait.
func (e *Engine) Unclaimed(namespace string) bool {
	return e.opts.Claims != nil && !e.opts.Claims.Has(namespace)
}

// WarnUnclaimed reports a namespace that gets a timer and that no live node claims.
func (e *Engine) WarnUnclaimed(namespace string) {
	if e.opts.Claims != nil && !e.opts.Claims.All() && e.Unclaimed(namespace) {
		e.opts.Events.unclaimed(namespace, 0)
	}
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

// Engine is safe for concurrent use. Its methods that write need a running Run.
type Engine struct {
	store    rouse.Store
	strategy rouse.Strategy
	sink     rouse.Sink
	opts     Options
	clock    clock
	writer   *writers
	hub      hub
	health   health

	mu     sync.Mutex
	window window // rows in memory and the wheel
	lanes  lanes  // queues of due rows, and what is out for delivery

	holding map[rouse.Key]int // timers that an edit keeps from being sent; guarded by mu

	grain    rouse.Instant         // see ownEnd
	others   rouse.Shared          // the store, if other nodes write to it; nil otherwise
	presence rouse.Presence        // the store, if it can tell the other nodes something; nil otherwise
	hints    rouse.Watcher         // the store, if it can report what others write; nil otherwise
	grant    atomic.Pointer[grant] // what the strategy granted last; never nil
	serves   atomic.Bool           // it grants something: else this node holds nothing that it writes
	looks    *batch.Writer[rouse.Key, uint64]
	swept    sweeps

	hindrances hindrances

	outcomes    outcomes       // reported by sinks, not settled yet
	evaluations evaluations    // of them, those that cost more than the settle loop spends
	crowds      crowds         // rows next to single timers
	buried      chan rouse.Key // timers that may have more dead letters than are kept
	gone        chan rouse.Key // timers whose target wants no more of them
	grown       chan rouse.Key // timers that may have more records than are kept
	watch       watch          // what the invariants came to
	wake        chan struct{}  // the wheel has something earlier than the firing loop waits for
	room        chan struct{}  // the window shrank, or something must be read again
	senders     sync.WaitGroup
	stopping    atomic.Bool
	yielded     atomic.Bool     // others have all but the attempts that are out
	deliver     context.Context // lives until deliveries must end
	began       chan struct{}   // closed when the store's clock is known
}

// New returns an engine that does nothing until Run.
func New(store rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Engine {
	o = o.withDefaults()
	direct := store
	store = Available(store)
	e := &Engine{store: store, strategy: strategy, sink: sink, opts: o,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), began: make(chan struct{}),
		grown: make(chan rouse.Key, 1024), gone: make(chan rouse.Key, 1024), buried: make(chan rouse.Key, 1024), holding: map[rouse.Key]int{}}
	e.window.init(o.MaxRows, o.MaxBytes)
	e.lanes.init(o.MaxDeliveries, o.Weight)
	e.clock.direct = o.Direct
	e.clock.store = store
	e.clock.jumped = func(from, to rouse.Instant) { e.hindered(rouse.CauseClockMoved, from, to) }
	e.outcomes.signal = make(chan struct{}, 1)
	e.hints, _ = direct.(rouse.Watcher)
	e.health.store, _ = direct.(rouse.Checked)
	e.evaluations.signal = make(chan struct{}, 1)
	e.presence, _ = direct.(rouse.Presence)
	e.grant.Store(&grant{})
	e.grain = rouse.Instant(cmp.Or(o.Grain, NewGrain(nil))-1) * (maxEdits + 1)
	e.swept.leaving, e.swept.kept, e.swept.gained = map[uint32]time.Time{}, map[uint32]bool{}, map[uint32]rouse.Instant{}
	if o.Shared {
		e.others = direct.(rouse.Shared)
		e.looks = batch.New(batch.Options{MaxItems: o.MaxCommit, MaxBytes: 8 << 20, Queue: o.Queue},
			func(k rouse.Key) int { return len(k.Namespace) + len(k.Name) + len(k.Fire) }, e.lookAt, nil)
	}
	e.writer = e.newWriters()
	return e
}

// Run fires timers until ctx ends; then it starts no more deliveries, leaves all other timers to other nodes, waits up to Grace for the
// deliveries that run, settles them, and returns nil. It returns an error only if it could not begin: a store that fails later is tried
// again for as long as it takes. Run is called once.
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

	// Six lives, ended one after another: reading and firing; what the strategy keeps; deliveries; evaluating; settling; commits.
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
		committers.Go(func() { e.looks.Run(commit) })
		settlers.Go(func() { e.renewLoop(settle) })
		front.Go(func() { e.hintLoop(ctx) })
	}
	front.Go(func() { e.clockLoop(ctx) })
	front.Go(func() { e.readLoop(ctx) })
	front.Go(func() { e.fireLoop(ctx) })
	front.Go(func() { e.trimLoop(ctx) })
	front.Go(func() { e.trimTimers(ctx) })
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

// drain waits until nothing is out for delivery; after Grace it ends the deliveries that still run. Sinks that are told to end
// report what they have at once, so it does not wait for more than their return.
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

// releaseLoop gives back, until ctx ends, what came under a hold and was not sent after all.
func (e *Engine) releaseLoop(ctx context.Context) {
	for e.others != nil && backoff.Sleep(ctx, leavingLook) {
		e.release(ctx)
	}
}

// release gives the holds of rows that were not fired back, so that another node fires them at once.
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
		_, _ = e.writer.Do(ctx, items) // a hold that is not given back ends by itself
		e.announce(ctx)
	}
}

// trimLoop forgets old records.
func (e *Engine) trimLoop(ctx context.Context) {
	for wait := time.Minute; ; wait = 10 * time.Minute {
		if !backoff.Sleep(ctx, wait) {
			return
		}
		if e.opts.Leader != nil && !e.opts.Leader() {
			continue
		}
		if _, err := e.store.Trim(ctx, e.Now().Add(-e.opts.RecordAge), e.opts.MaxRecords); err != nil && !errors.Is(err, context.Canceled) {
			e.opts.Events.failed("trim", err)
		}
	}
}

// trimTimers forgets the oldest records of timers that have many, and timers of which an occurrence beside them heard that their
// target wants no more.
func (e *Engine) trimTimers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-e.gone:
			if err := e.opts.Delete(ctx, key); err != nil && !errors.Is(err, rouse.ErrNotFound) && ctx.Err() == nil {
				e.opts.Events.failed("settle", err) // the next occurrence will hear the same
			}
		case key := <-e.buried:
			if err := e.trimDead(ctx, key); err != nil && ctx.Err() == nil {
				e.opts.Events.failed("trim", err)
			}
		case key := <-e.grown:
			_, err := e.store.TrimTimer(ctx, key.Namespace, key.Name, e.opts.RecordsPerTimer)
			if err != nil && !errors.Is(err, context.Canceled) {
				e.opts.Events.failed("trim", err)
			}
		}
	}
}

// NoteGrowth asks for a look at a timer's records each time that so many were added as are kept.
func (e *Engine) NoteGrowth(key rouse.Key, before, after uint64) {
	if n := uint64(max(e.opts.RecordsPerTimer, 0)); n == 0 || before/n == after/n {
		return
	}
	select {
	case e.grown <- rouse.Key{Namespace: key.Namespace, Name: key.Name}:
	default: // the next time will do
	}
}
