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

// world is a broker, a driver and workers in memory, in which calls take time and fail. It sees every request that is lost.
type world struct {
	t    *testing.T
	term *Term

	mu       sync.Mutex
	rand     *rand.Rand
	queues   map[string]*worldQueue
	workers  map[string]*worldWorker // by id
	next     int
	changed  chan struct{}
	fail     func(call, key string) error         // may be nil
	slow     func(call, key string) time.Duration // may be nil
	calls    map[string]int                       // by call and key
	inFlight map[string]bool
	takes    time.Duration // how long a worker works on a request
	silent   bool          // workers report nothing
	answered map[int]int   // how often requests were answered
	life     sync.WaitGroup
	config   func(c *Config) // may be nil
}

type worldQueue struct {
	bound   bool
	ready   []int
	held    int
	arrived *sync.Cond
}

type worldWorker struct {
	driver.Worker
	consuming bool
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), queues: map[string]*worldQueue{}, workers: map[string]*worldWorker{},
		changed: make(chan struct{}, 1), calls: map[string]int{}, inFlight: map[string]bool{}, answered: map[int]int{}, takes: time.Second}
}

// start begins a term, whose end is the test's.
func (w *world) start(d Delays, timing Timing) (stop func()) {
	w.t.Helper()
	c := Config{Name: "p", Delays: d, Timing: timing, Driver: asDriver{w}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: NewRegistry(prometheus.NewRegistry()).Pool("p")}
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
	return func() {
		cancel()
		w.term.Wait()
		w.mu.Lock()
		for _, q := range w.queues {
			q.arrived.Broadcast()
		}
		w.mu.Unlock()
	}
}

// enter begins a call: of one key there may be one of each side at a time.
func (w *world) enter(ctx context.Context, side, call, key string) error {
	w.mu.Lock()
	if w.inFlight[side+key] {
		w.t.Errorf("%s %q while another call is in flight for the key", call, key)
	}
	w.inFlight[side+key] = true
	w.calls[call+" "+key]++
	var wait time.Duration
	if w.slow != nil {
		wait = w.slow(call, key)
	}
	w.mu.Unlock()
	var err error
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[side+key] = false
	if err == nil && w.fail != nil {
		err = w.fail(call, key)
	}
	return err
}

func (w *world) List(ctx context.Context) ([]Queue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Queue
	for key, q := range w.queues {
		list = append(list, Queue{key, q.bound})
	}
	return list, nil
}

func (w *world) Open(ctx context.Context, key string) error {
	if err := w.enter(ctx, "queue ", "open", key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues[key] == nil {
		w.queues[key] = &worldQueue{arrived: sync.NewCond(&w.mu)}
	}
	w.queues[key].bound = true
	return nil
}

func (w *world) Unbind(ctx context.Context, key string) error {
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

func (w *world) Load(ctx context.Context, key string) (Load, error) {
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

func (w *world) consumers(key string) int {
	n := 0
	for _, worker := range w.workers {
		if worker.Key == key && worker.consuming {
			n++
		}
	}
	return n
}

func (w *world) Delete(ctx context.Context, key string) (int, error) {
	if err := w.enter(ctx, "queue ", "delete", key); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[key]
	if q == nil {
		return 0, nil
	}
	if q.bound || len(q.ready) > 0 || q.held > 0 || w.consumers(key) > 0 {
		w.t.Errorf("the queue of %q is deleted, bound %v, with %d ready and %d held requests and %d consumers", key, q.bound, len(q.ready), q.held, w.consumers(key))
	}
	delete(w.queues, key)
	return len(q.ready), nil
}

func (w *world) Vars(string) map[string]string { return map[string]string{} }

// Ensure is of the world as a driver, as are Drain and what follows.
func (w *world) Ensure(ctx context.Context, g driver.Group) error {
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
		worker := &worldWorker{Worker: driver.Worker{ID: fmt.Sprint(w.next), Key: g.Key, State: driver.Running}}
		w.workers[worker.ID] = worker
		w.life.Go(func() { w.work(worker) })
	}
	return nil
}

func (w *world) Drain(ctx context.Context, key string) error {
	if err := w.enter(ctx, "driver ", "drain", key); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, worker := range w.workers {
		if worker.Key == key {
			worker.State = driver.Draining
			worker.consuming = false // what it has it finishes
		}
	}
	if q := w.queues[key]; q != nil {
		q.arrived.Broadcast()
	}
	return nil
}

// work is a worker's life: it consumes until it drains.
func (w *world) work(worker *worldWorker) {
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
		q.held++
		takes := w.takes
		w.mu.Unlock()
		w.report(worker.Key, RequestReceived)
		time.Sleep(takes)
		w.mu.Lock()
		q.held--
		w.answered[id]++
	}
	worker.consuming = false
	delete(w.workers, worker.ID)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) report(key, event string) {
	w.mu.Lock()
	term := w.term
	w.mu.Unlock()
	if !w.silent && term != nil {
		term.Note(key, event)
	}
}

func (w *world) list() []driver.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []driver.Worker
	for _, worker := range w.workers {
		list = append(list, worker.Worker)
	}
	return list
}

func (w *world) Changed() <-chan struct{}      { return w.changed }
func (w *world) Release(context.Context) error { return nil }
func (w *world) Close(context.Context) error   { return nil }

// asDriver is the world with the other List.
type asDriver struct{ *world }

func (d asDriver) List(context.Context) ([]driver.Worker, error) { return d.list(), nil }

// publish is what a client and the transport do with a request.
func (w *world) publish(key string, id int) {
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

// left returns what is there that should not be when nobody has asked for anything for long.
func (w *world) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.Collect(maps.Keys(w.queues))
	for _, worker := range w.workers {
		left = append(left, "worker "+worker.ID+" of "+worker.Key)
	}
	return left
}

// called says how often a call was made for a key.
func (w *world) called(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[call]
}

// log is all of that, for messages.
func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.calls)
}

// bound says whether there is a queue of a key that requests come to.
func (w *world) bound(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues[key] != nil && w.queues[key].bound
}

// answers says how often a request was answered.
func (w *world) answers(id int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered[id]
}
