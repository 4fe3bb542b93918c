package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// simulation is a broker, a driver and workers in memory, whose calls take time and fail. It detects every
// lost request, and every group that is unbound or drained although one of its workers holds a request.
type simulation struct {
	t    *testing.T
	term *Term

	mu       sync.Mutex
	rand     *rand.Rand
	queues   map[string]*simQueue
	workers  map[string]*simWorker // by id
	next     int
	changed  chan struct{}
	fail     func(call, key string) error         // may be nil
	slow     func(call, key string) time.Duration // may be nil
	calls    map[string]int                       // by call and key
	inFlight map[string]bool
	takes    time.Duration // how long a worker works on a request
	silent   bool          // workers report nothing
	lag      time.Duration // how late counts of requests may be
	blind    bool          // requests cannot be counted
	stops    bool          // groups are stopped on request, or because of max_work, although their workers are busy
	counts   []simCount    // of the last lag, oldest first
	counted  time.Time     // when the last count was passed to the term
	answered map[int]int   // how often requests were answered
	life     sync.WaitGroup
	config   func(c *Config) // may be nil
	registry *prometheus.Registry
}

type simQueue struct {
	bound   bool
	ready   []int
	held    map[int]time.Time // since when, by request
	arrived *sync.Cond
}

// simCount is the contents of the queues at a time.
type simCount struct {
	at   time.Time
	load map[string]Load
}

func (w *simulation) newQueue(bound bool, ready ...int) *simQueue {
	return &simQueue{bound: bound, ready: ready, held: map[int]time.Time{}, arrived: sync.NewCond(&w.mu)}
}

// countEvery is the interval of counts of a simulation.
const countEvery = 500 * time.Millisecond

type simWorker struct {
	driver.Worker
	consuming bool
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	return &simulation{t: t, rand: rand.New(rand.NewPCG(seed, 1)), queues: map[string]*simQueue{}, workers: map[string]*simWorker{},
		changed: make(chan struct{}, 1), calls: map[string]int{}, inFlight: map[string]bool{}, answered: map[int]int{}, takes: time.Second,
		lag: time.Second}
}

// start starts a term, which ends with the test.
func (w *simulation) start(d Delays, timing Timing) (stop func()) {
	w.t.Helper()
	w.registry = prometheus.NewRegistry()
	c := Config{Name: "p", Delays: d, MaxWork: time.Hour, Timing: timing, Driver: asDriver{w}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: NewRegistry(w.registry).Pool("p")}
	if w.config != nil {
		w.config(&c)
	}
	m, err := NewManager(c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	term, err := m.Begin(ctx, w)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.term = term
	w.mu.Unlock()
	var counting sync.WaitGroup
	counting.Go(func() { w.measure(ctx, term) })
	return func() {
		cancel()
		counting.Wait()
		w.term.Wait()
		w.mu.Lock()
		for _, q := range w.queues {
			q.arrived.Broadcast()
		}
		w.mu.Unlock()
	}
}

// measure passes counts to the term. Each is as of a time in the last lag.
func (w *simulation) measure(ctx context.Context, term *Term) {
	for ctx.Err() == nil {
		now := time.Now()
		w.mu.Lock()
		load := map[string]Load{}
		for key, q := range w.queues {
			load[key] = Load{Ready: len(q.ready), Held: len(q.held)}
		}
		w.counts = append(w.counts, simCount{now, load})
		for w.counts[0].at.Before(now.Add(-w.lag)) {
			w.counts = w.counts[1:]
		}
		count := w.counts[w.rand.IntN(len(w.counts))]
		failed := w.blind || w.fail != nil && w.fail("count", "") != nil
		w.mu.Unlock()
		if !failed {
			term.Loads(count.load, now.Add(-w.lag), 0)
			w.mu.Lock()
			w.counted = now
			w.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(countEvery):
		}
	}
}

// checkHeld fails if a call is made for a key although its workers hold a request that the term knows of: by
// a report, or by a count that was passed to it when the counts certainly covered the request. The caller
// holds the mutex.
func (w *simulation) checkHeld(call, key string, byCount bool) {
	q := w.queues[key]
	if q == nil || w.stops {
		return
	}
	for id, since := range q.held {
		known := !byCount || w.counted.After(since.Add(w.lag)) && w.counted.Before(time.Now())
		if held := time.Since(since); held > 0 && known {
			w.t.Errorf("%s %q while a worker has held request %d for %v", call, key, id, held)
		}
	}
}

// enter begins a call: for each key there may be one call to the broker and one to the driver at a time.
func (w *simulation) enter(ctx context.Context, side, call, key string) error {
	w.mu.Lock()
	if w.inFlight[side+key] {
		w.t.Errorf("%s %q while another call is in flight for the key", call, key)
	}
	switch {
	case call == "drain":
		w.checkHeld(call, key, false)
	case call == "unbind":
		w.checkHeld(call, key, w.silent)
	}
	w.inFlight[side+key] = true
	w.calls[call+" "+key]++
	var wait time.Duration
	if w.slow != nil {
		wait = w.slow(call, key)
	}
	w.mu.Unlock()
	err := ctx.Err()
	if wait > 0 { // the race detector of Go 1.26 may fail where goroutines of a bubble read timers that are due already
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[side+key] = false
	if err == nil && w.fail != nil {
		err = w.fail(call, key)
	}
	return err
}

func (w *simulation) List(ctx context.Context) ([]Queue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Queue
	for key, q := range w.queues {
		list = append(list, Queue{key, q.bound})
	}
	return list, nil
}

func (w *simulation) Open(ctx context.Context, key string) error {
	if err := w.enter(ctx, "queue ", "open", key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues[key] == nil {
		w.queues[key] = w.newQueue(false)
	}
	w.queues[key].bound = true
	return nil
}

func (w *simulation) Unbind(ctx context.Context, key string) error {
	if err := w.enter(ctx, "queue ", "unbind", key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.queues[key]; q != nil {
		q.bound = false
	}
	return nil
}

func (w *simulation) Load(ctx context.Context, key string) (Load, error) {
	if err := w.enter(ctx, "queue ", "load", key); err != nil {
		return Load{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[key]
	if q == nil {
		return Load{}, ErrNoQueue
	}
	return Load{Ready: len(q.ready), Consumers: w.consumers(key)}, nil
}

func (w *simulation) consumers(key string) int {
	n := 0
	for _, worker := range w.workers {
		if worker.Key == key && worker.consuming {
			n++
		}
	}
	return n
}

func (w *simulation) Delete(ctx context.Context, key string) (int, error) {
	if err := w.enter(ctx, "queue ", "delete", key); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[key]
	if q == nil {
		return 0, nil
	}
	if q.bound || len(q.ready)+len(q.held) > 0 || w.consumers(key) > 0 {
		w.t.Errorf("the queue of %q is deleted, bound %v, with %d ready and %d held requests and %d consumers", key, q.bound, len(q.ready), len(q.held), w.consumers(key))
	}
	delete(w.queues, key)
	return len(q.ready), nil
}

func (w *simulation) Vars(string) map[string]string { return map[string]string{} }

// Ensure and the methods below implement the driver.
func (w *simulation) Ensure(ctx context.Context, g driver.Group) error {
	if err := w.enter(ctx, "driver ", "ensure", g.Key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	have := 0
	for _, worker := range w.workers {
		if worker.Key == g.Key && worker.State != driver.Draining {
			have++
		}
	}
	for ; have < g.Workers; have++ {
		w.next++
		worker := &simWorker{Worker: driver.Worker{ID: fmt.Sprint(w.next), Key: g.Key, State: driver.Running}}
		w.workers[worker.ID] = worker
		w.life.Go(func() { w.work(worker) })
	}
	return nil
}

func (w *simulation) Drain(ctx context.Context, key string) error {
	if err := w.enter(ctx, "driver ", "drain", key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, worker := range w.workers {
		if worker.Key == key {
			worker.State = driver.Draining
			worker.consuming = false // it finishes its request
		}
	}
	if q := w.queues[key]; q != nil {
		q.arrived.Broadcast()
	}
	return nil
}

// work is the life of a worker: it consumes until it drains.
func (w *simulation) work(worker *simWorker) {
	time.Sleep(100 * time.Millisecond) // it boots
	w.report(worker.Key, Started)
	w.mu.Lock()
	defer w.mu.Unlock()
	worker.consuming = worker.State != driver.Draining
	for worker.State != driver.Draining && w.t.Context().Err() == nil {
		q := w.queues[worker.Key]
		if q == nil {
			break
		}
		if len(q.ready) == 0 {
			q.arrived.Wait()
			continue
		}
		id := q.ready[0]
		q.ready = q.ready[1:]
		q.held[id] = time.Now()
		takes := w.takes
		w.mu.Unlock()
		w.report(worker.Key, RequestReceived)
		time.Sleep(takes)
		w.mu.Lock()
		delete(q.held, id)
		w.answered[id]++
	}
	worker.consuming = false
	delete(w.workers, worker.ID)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *simulation) report(key, event string) {
	w.mu.Lock()
	term := w.term
	w.mu.Unlock()
	if !w.silent && term != nil {
		term.Note(key, event)
	}
}

func (w *simulation) list() []driver.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []driver.Worker
	for _, worker := range w.workers {
		list = append(list, worker.Worker)
	}
	return list
}

func (w *simulation) Changed() <-chan struct{}      { return w.changed }
func (w *simulation) Release(context.Context) error { return nil }
func (w *simulation) Close(context.Context) error   { return nil }

// asDriver is the simulation with the List of a driver.
type asDriver struct{ *simulation }

func (d asDriver) List(context.Context) ([]driver.Worker, error) { return d.list(), nil }

// publish publishes a request as a client, and handles it as the transport if it is an orphan.
func (w *simulation) publish(key string, id int) {
	for again := false; ; again = true {
		w.mu.Lock()
		if q := w.queues[key]; q != nil && q.bound {
			q.ready = append(q.ready, id)
			q.arrived.Broadcast()
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		w.mu.Lock()
		again = again && w.rand.IntN(4) == 0
		w.mu.Unlock()
		err := w.term.Await(ctx, key, again)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
	}
}

// left returns what still exists although there have been no requests for long.
func (w *simulation) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.Collect(maps.Keys(w.queues))
	for _, worker := range w.workers {
		left = append(left, "worker "+worker.ID+" of "+worker.Key)
	}
	return left
}

// called returns how often a call was made, with all keys.
func (w *simulation) called(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[call]
}

// log lists all calls for messages.
func (w *simulation) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.calls)
}

// bound reports whether the queue of a key exists and is bound.
func (w *simulation) bound(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues[key] != nil && w.queues[key].bound
}

// answers returns how often a request was answered.
func (w *simulation) answers(id int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered[id]
}

// metric returns the value of a counter or gauge of the last term.
func (w *simulation) metric(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0
}
