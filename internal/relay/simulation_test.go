package relay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/redisstream"
	"github.com/rousehq/rouse/internal/relay"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/test/servers"
)

// patience is the timeout of waits in tests.
const patience = 60 * time.Second

// simulation is schedulers and executors on one store and one queue.
type simulation struct {
	t      *testing.T
	store  *mem.Store
	broker *servers.Server
	open   func(ctx context.Context) (queue.Queue, error)
	sink   relay.SinkOptions
	exec   relay.ExecutorOptions

	target *target

	mu        sync.Mutex
	scheduler *scheduler                    // the one that lives
	step      func(process mortal, at step) // called at each step; may kill the process
	poisoned  []string
	outdated  []string
}

var queueOptions = queue.Options{Name: "fires", MaxMessages: 100_000, Timeout: time.Second}

// step is a point on the way of a fire.
type step string

const (
	beforePublish step = "before it is published"
	afterPublish  step = "after it is published, before that is written"
	whenTaken     step = "when an executor has taken it"
	beforeCall    step = "before its target is called"
	afterCall     step = "after its target was called, before the report"
	beforeReport  step = "with the report on its way"
	afterReport   step = "after the report, before the message is acknowledged"
)

type mortal interface{ die() }

// newSimulation has a queue in Redis.
func newSimulation(t *testing.T) *simulation {
	t.Parallel()
	w := &simulation{t: t, store: mem.New(), broker: servers.StartRedis(t), target: &target{calls: map[string]int{}}}
	w.open = func(ctx context.Context) (queue.Queue, error) {
		return redisstream.Open(ctx, w.broker.URL(), redisstream.Options{Options: queueOptions, Visibility: time.Second})
	}
	w.sink = relay.SinkOptions{Allowance: 20 * time.Second, Patience: time.Second}
	w.exec = relay.ExecutorOptions{Prefetch: 64, Patience: 5 * time.Second, Grace: 200 * time.Millisecond, Timeout: 2 * time.Second}
	return w
}

func (w *simulation) at(process mortal, at step) {
	w.mu.Lock()
	f := w.step
	w.mu.Unlock()
	if f != nil {
		f(process, at)
	}
}

func (w *simulation) openQueue() queue.Queue {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	q, err := w.open(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

var errDead = errors.New("the process is dead")

// scheduler is an engine whose sink is a queue.
type scheduler struct {
	*timers.Timers
	w    *simulation
	q    queue.Queue
	dead atomic.Bool
	stop context.CancelFunc
	done chan struct{}
}

// startScheduler starts the only scheduler of the simulation.
func (w *simulation) startScheduler() *scheduler {
	w.t.Helper()
	s := &scheduler{w: w, q: w.openQueue(), done: make(chan struct{})}
	sink := relay.NewSink(w.target, publisher{s}, w.sink)
	s.Timers = timers.New(cord{w.store, s}, claim.NewSole(1), sink, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Grace: 200 * time.Millisecond}})
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.done)
		if err := s.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() {
		stop()
		<-s.done
		_ = s.q.Close()
	})
	w.mu.Lock()
	w.scheduler = s
	w.mu.Unlock()
	return s
}

// die ends the scheduler like SIGKILL: it does not reach the store any more.
func (s *scheduler) die() {
	s.dead.Store(true)
	s.stop()
}

// cord is a scheduler's connection to the store.
type cord struct {
	rouse.Store
	s *scheduler
}

func (c cord) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if c.s.dead.Load() {
		return nil, errDead
	}
	return c.Store.Apply(ctx, changes)
}

// publisher is a scheduler's connection to the queue.
type publisher struct{ s *scheduler }

func (p publisher) Publish(ctx context.Context, messages []queue.Message) []error {
	p.s.w.at(p.s, beforePublish)
	if p.s.dead.Load() {
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = fmt.Errorf("%w: %w", queue.ErrUnconfirmed, errDead)
		}
		return errs
	}
	errs := p.s.q.Publish(ctx, messages)
	p.s.w.at(p.s, afterPublish)
	return errs
}

// executor is an executor like one in a separate process.
type executor struct {
	w    *simulation
	q    queue.Queue
	dead atomic.Bool
	stop context.CancelFunc
	done chan struct{}
	shut sync.WaitGroup
}

func (w *simulation) startExecutor() *executor {
	w.t.Helper()
	x := &executor{w: w, q: w.openQueue(), done: make(chan struct{})}
	o := w.exec
	o.Rows = w.store
	o.Events = relay.ExecutorEvents{
		Poisoned: func(id string, err error) { w.note(&w.poisoned, id+": "+err.Error()) },
		Outdated: func(id string, _ uint64) { w.note(&w.outdated, id) },
	}
	run := relay.NewExecutor(consumer{x}, called{x}, reporter{x}, o)
	ctx, stop := context.WithCancel(context.Background())
	x.stop = stop
	go func() {
		defer close(x.done)
		if err := run.Run(ctx); err != nil && !x.dead.Load() {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(x.end)
	return x
}

func (w *simulation) note(list *[]string, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, what)
}

func (w *simulation) noted(list *[]string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(*list)
}

// end shuts the executor down.
func (x *executor) end() {
	x.stop()
	<-x.done
	x.shut.Wait()
	_ = x.q.Close()
}

// die ends the executor like SIGKILL: it reaches nothing any more.
func (x *executor) die() {
	if x.dead.Swap(true) {
		return
	}
	x.stop()
	x.shut.Go(func() { _ = x.q.Close() })
}

// consumer is an executor's connection to the queue.
type consumer struct{ x *executor }

func (c consumer) Consume(ctx context.Context, prefetch int, handle func(queue.Delivery)) error {
	return c.x.q.Consume(ctx, prefetch, func(d queue.Delivery) {
		c.x.w.at(c.x, whenTaken)
		d.Receipt = receipt{c.x, d.Receipt}
		handle(d)
	})
}

type receipt struct {
	x *executor
	queue.Receipt
}

func (r receipt) Ack(ctx context.Context) error {
	r.x.w.at(r.x, afterReport)
	if r.x.dead.Load() {
		return errDead
	}
	return r.Receipt.Ack(ctx)
}

func (r receipt) Nack(ctx context.Context) error {
	if r.x.dead.Load() {
		return errDead
	}
	return r.Receipt.Nack(ctx)
}

// reporter reports to the running scheduler.
type reporter struct{ x *executor }

func (r reporter) Report(ctx context.Context, key rouse.Key, fireID string, token uint64, o rouse.Outcome) error {
	if o.Verdict != 0 {
		r.x.w.at(r.x, beforeReport)
	}
	if r.x.dead.Load() {
		return errDead
	}
	r.x.w.mu.Lock()
	s := r.x.w.scheduler
	r.x.w.mu.Unlock()
	_, err := s.Report(ctx, key, timers.Report{FireID: fireID, Token: token, Outcome: o})
	return err
}

// called is the target as called by an executor.
type called struct{ x *executor }

func (c called) Check(*rouse.Spec) error                     { return nil }
func (c called) Lane(ns string, spec *rouse.Spec) rouse.Lane { return c.x.w.target.Lane(ns, spec) }
func (c called) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	c.x.w.at(c.x, beforeCall)
	if c.x.dead.Load() {
		return // the process was killed here
	}
	c.x.w.target.Deliver(ctx, fires, func(i int, o rouse.Outcome) {
		c.x.w.at(c.x, afterCall)
		settle(i, o)
	})
}

// target is the target of all fires.
type target struct {
	mu     sync.Mutex
	calls  map[string]int // by fire id
	fires  []rouse.Fire
	answer func(ctx context.Context, f rouse.Fire) rouse.Outcome // nil means Done
	lane   func(spec *rouse.Spec) rouse.Lane
}

func (g *target) Check(spec *rouse.Spec) error {
	if spec.Target == "bad:" {
		return rouse.Refuse("target", spec.Target, "is bad", "give another one")
	}
	return nil
}

func (g *target) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	if g.lane != nil {
		return g.lane(spec)
	}
	return rouse.Lane{Name: spec.Target, Limit: 16, Batch: 4}
}

func (g *target) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i, f := range fires {
		g.mu.Lock()
		g.calls[f.ID]++
		g.fires = append(g.fires, f)
		answer := g.answer
		g.mu.Unlock()
		o := rouse.Outcome{Verdict: rouse.Done}
		if answer != nil {
			o = answer(ctx, f)
		}
		settle(i, o)
	}
}

func (g *target) got() []rouse.Fire {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]rouse.Fire(nil), g.fires...)
}

// counts returns how often each fire was delivered.
func (g *target) counts() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.calls)
}

func key(name string) rouse.Key { return rouse.Key{Namespace: "n", Name: name} }

// put creates timers with the same spec, and returns their names.
func (w *simulation) put(prefix string, n int, spec rouse.Spec) []string {
	w.t.Helper()
	if spec.Schedule == "" {
		spec.Schedule = "2020-01-01T00:00:00Z"
	}
	if spec.Target == "" {
		spec.Target = "test:a"
	}
	names := make([]string, n)
	puts := make([]timers.Put, n)
	for i := range puts {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
		puts[i] = timers.Put{Key: key(names[i]), Spec: spec}
	}
	res, err := w.scheduler.Put(w.t.Context(), puts)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range res {
		if res[i].Err != nil {
			w.t.Fatal(res[i].Err)
		}
	}
	return names
}

// records returns the records of a timer, newest first.
func (w *simulation) records(name string) []rouse.Record {
	w.t.Helper()
	page, err := w.store.Records(w.t.Context(), rouse.RecordQuery{Namespace: "n", Name: name, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Records
}

// until waits for a condition.
func (w *simulation) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// ended waits until each timer has one record, and returns the records.
func (w *simulation) ended(names []string) []rouse.Record {
	w.t.Helper()
	var list []rouse.Record
	for _, name := range names {
		w.until(name+" has ended", func() bool { return len(w.records(name)) > 0 })
		list = append(list, w.records(name)...)
	}
	if len(list) != len(names) {
		w.t.Errorf("%d timers have %d records", len(names), len(list))
	}
	return list
}

func (w *simulation) fired(names []string) {
	w.t.Helper()
	for _, r := range w.ended(names) {
		if r.Ending != rouse.EndFired {
			w.t.Errorf("%s ended as %v: %s", r.Name, r.Ending, r.Reason)
		}
	}
}

func (w *simulation) state(name string) rouse.State {
	w.t.Helper()
	rows, err := w.store.Get(w.t.Context(), []rouse.Key{key(name)})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows[0].State
}

// drained waits until the queue is empty.
func (w *simulation) drained(q queue.Queue) {
	w.t.Helper()
	w.until("the queue is empty", func() bool {
		n, err := q.Depth(w.t.Context())
		return err == nil && n == 0
	})
}
