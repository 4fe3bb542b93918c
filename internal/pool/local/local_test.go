package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/target"
)

// simulation is a sink with one pool, in a bubble of virtual time. It is the pool's driver, and its workers
// are streams without a network.
type simulation struct {
	t         *testing.T
	sink      *Sink
	pool      *Pool
	boot      time.Duration // from the start of a worker until it subscribes; negative means never
	work      time.Duration // on a request
	stall     time.Duration
	hangs     int // how many requests are taken but never answered
	cancelled int
	drained   int
	namespace string
	apart     bool
	there     []string // groups whose workers an earlier process has started
	prewarm   time.Duration
	owned     int  // groups that a namespace may have
	extends   bool // workers ask for more time for requests that they do not answer
	kills     bool // drained workers end at once
	log       text

	mu      sync.Mutex
	workers map[string]*worker // by key
	ended   map[int]rouse.Outcome
	at      map[int]time.Time
	begun   map[int]int // how often each request was given to a worker
	next    int
	life    sync.WaitGroup
}

const (
	unbindDelay = 10 * time.Second
	stopDelay   = 5 * time.Second
)

// text collects the log.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns how many lines contain a text.
func (l *text) lines(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// simulate runs a test in a simulation.
func simulate(t *testing.T, o Options, prewarm time.Duration, test func(w *simulation)) {
	simulateStall(t, o, prewarm, 0, test)
}

func simulateStall(t *testing.T, o Options, prewarm, stall time.Duration, test func(w *simulation)) {
	simulateWith(t, o, &simulation{prewarm: prewarm, stall: stall}, test)
}

// simulateWith runs a test in a prepared simulation.
func simulateWith(t *testing.T, o Options, w *simulation, test func(w *simulation)) {
	synctest.Test(t, func(t *testing.T) {
		w.t, w.namespace, w.boot, w.work = t, "default", time.Second, time.Millisecond
		w.workers, w.ended, w.at, w.begun = map[string]*worker{}, map[int]rouse.Outcome{}, map[int]time.Time{}, map[int]int{}
		w.sink = New(o)
		namespaces := pool.Shared
		if w.apart {
			namespaces = pool.Apart
		}
		for _, group := range w.there {
			if err := w.Ensure(t.Context(), driver.Group{Key: group, Vars: map[string]string{"WORKER_REQUESTS_QUEUE": target.Channel("core", group)}}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := pool.NewManager(pool.Config{Name: "core", Namespaces: namespaces, Delays: pool.Delays{Unbind: unbindDelay, Stop: stopDelay}, Driver: w, Limits: pool.Limits{NamespaceOwned: w.owned},
			Timing: pool.Timing{Settle: time.Second, Rest: 10 * time.Millisecond}, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
			Metrics: pool.NewRegistry(prometheus.NewRegistry()).Pool("core")})
		if err != nil {
			t.Fatal(err)
		}
		if w.pool, err = w.sink.Add(m, PoolOptions{Address: func() string { return "127.0.0.1:7411" }, Prewarm: w.prewarm, Stall: w.stall}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		run, err := w.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(run)
		synctest.Wait()
		test(w)
		cancel()
		running.Wait()
		w.sink.Close()
		w.mu.Lock()
		for _, one := range w.workers {
			one.cut()
		}
		w.mu.Unlock()
		w.life.Wait()
		w.sink.Wait()
	})
}

// deliver delivers requests to the sink, and returns their numbers.
func (w *simulation) deliver(key string, n int, change func(*rouse.Spec)) (numbers []int) {
	w.t.Helper()
	fires := make([]rouse.Fire, n)
	for i := range fires {
		w.next++
		numbers = append(numbers, w.next)
		now := rouse.Reached(time.Now())
		fires[i] = rouse.Fire{ID: fmt.Sprint(w.next), Namespace: w.namespace, Name: fmt.Sprint("r", w.next), Due: now, At: now, Attempt: 1,
			Spec: &rouse.Spec{Target: target.Of("core", key), Payload: fmt.Append(nil, w.next)}}
		if change != nil {
			change(fires[i].Spec)
		}
	}
	w.life.Go(func() {
		w.sink.Deliver(w.t.Context(), fires, func(i int, o rouse.Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, twice := w.ended[numbers[i]]; twice {
				w.t.Errorf("request %d is reported twice", numbers[i])
			}
			w.ended[numbers[i]], w.at[numbers[i]] = o, time.Now()
		})
	})
	synctest.Wait()
	return numbers
}

// outcome returns the reported outcome of a request.
func (w *simulation) outcome(number int) (o rouse.Outcome, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok = w.ended[number]
	return o, ok
}

// answered fails unless the requests were answered.
func (w *simulation) answered(numbers ...int) {
	w.t.Helper()
	for _, n := range numbers {
		if o, ok := w.outcome(n); !ok || o.Verdict != rouse.Done || o.Answer == nil || string(o.Answer.Payload) != fmt.Sprint("answer to ", n) {
			w.t.Errorf("request %d: %+v; want its answer", n, o)
		}
	}
}

// groups returns the number of groups.
func (w *simulation) groups() int { return len(w.pool.Manager().View().Groups) }

func (w *simulation) Ensure(_ context.Context, g driver.Group) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.workers[g.Key] != nil && w.workers[g.Key].state != driver.Draining {
		return nil
	}
	one := &worker{w: w, key: g.Key, queue: g.Vars["WORKER_REQUESTS_QUEUE"], state: driver.Running, requests: make(chan *rousev1.SubscribeRequest, 100)}
	one.ctx, one.cut = context.WithCancel(context.Background())
	w.workers[g.Key] = one
	w.life.Go(one.run)
	return nil
}

func (w *simulation) Drain(_ context.Context, key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.workers[key]; one != nil && one.state != driver.Draining {
		one.state = driver.Draining
		w.drained++
		if w.kills { // it ignores the signal to end
			one.cut()
		}
		one.requests <- &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Leave{Leave: &rousev1.Leave{}}}
	}
	return nil
}

func (w *simulation) List(context.Context) (list []driver.Worker, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, one := range w.workers {
		list = append(list, driver.Worker{ID: key, Key: key, State: one.state})
	}
	return list, nil
}

func (w *simulation) Changed() <-chan struct{}      { return nil }
func (w *simulation) Release(context.Context) error { return nil }
func (w *simulation) Close(context.Context) error   { return nil }

// worker is a stream that answers its requests one after another.
type worker struct {
	grpc.ServerStream
	w          *simulation
	key, queue string
	state      driver.State
	requests   chan *rousev1.SubscribeRequest
	ctx        context.Context
	cut        context.CancelFunc
}

func (o *worker) run() {
	defer func() {
		o.cut()
		o.w.mu.Lock()
		delete(o.w.workers, o.key)
		o.w.mu.Unlock()
	}()
	if o.w.boot < 0 {
		<-o.ctx.Done()
		return
	}
	select {
	case <-time.After(o.w.boot):
	case <-o.ctx.Done():
		return
	}
	open := make(chan *rousev1.SubscribeRequest, 101)
	open <- &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Channel: o.queue, Credits: 1}}}
	o.w.mu.Lock()
	for len(o.requests) > 0 { // it was drained before it was up
		open <- <-o.requests
	}
	o.requests = open
	o.w.mu.Unlock()
	_ = o.w.sink.Subscribe(o)
}

func (o *worker) Context() context.Context     { return o.ctx }
func (o *worker) SendHeader(metadata.MD) error { return nil }

func (o *worker) Recv() (*rousev1.SubscribeRequest, error) {
	select {
	case r := <-o.requests:
		return r, nil
	case <-o.ctx.Done():
		return nil, o.ctx.Err()
	}
}

// Send takes requests and answers them later.
func (o *worker) Send(m *rousev1.SubscribeResponse) error {
	o.w.mu.Lock()
	o.w.cancelled += len(m.Cancelled)
	hangs := o.w.hangs > 0
	o.w.mu.Unlock()
	for _, f := range m.Fires {
		tag, payload := f.Tag, string(f.Payload)
		var n int
		fmt.Sscan(payload, &n)
		o.w.mu.Lock()
		o.w.begun[n]++
		if hangs {
			o.w.hangs--
		}
		o.w.mu.Unlock()
		if hangs {
			hangs = false
			if o.w.extends {
				o.w.life.Go(func() { o.extend(tag) })
			}
			continue
		}
		o.w.life.Go(func() {
			select {
			case <-time.After(o.w.work):
				o.requests <- &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: &rousev1.Settle{
					Answers: []*rousev1.Answer{{Tag: tag, Payload: []byte("answer to " + payload)}}}}}
			case <-o.ctx.Done():
			}
		})
	}
	return nil
}

// began returns how often workers received a request.
func (w *simulation) began(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[n]
}

// drains returns how often workers were drained.
func (w *simulation) drains() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drained
}

// told returns how many fires were cancelled at workers.
func (w *simulation) told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancelled
}

// extend periodically asks for more time for a fire.
func (o *worker) extend(tag uint64) {
	for {
		select {
		case <-time.After(time.Second):
			o.requests <- &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: &rousev1.Settle{
				Extensions: []*rousev1.Extension{{Tag: tag, By: durationpb.New(30 * time.Second)}}}}}
		case <-o.ctx.Done():
			return
		}
	}
}

// TestColdKey checks that requests for a key without a group start it, wait for its worker and are answered,
// and that the group then ends without leaving anything behind.
func TestColdKey(t *testing.T) {
	simulate(t, Options{}, 0, func(w *simulation) {
		numbers := w.deliver("42", 5, nil)
		if _, ok := w.outcome(numbers[0]); ok || w.groups() != 1 {
			t.Errorf("reported %v, %d groups; want a group that starts", ok, w.groups())
		}
		time.Sleep(2 * time.Second)
		w.answered(numbers...)
		numbers = w.deliver("42", 1, nil)
		time.Sleep(10 * time.Millisecond) // a worker is up now
		w.answered(numbers...)
		time.Sleep(unbindDelay + stopDelay + 10*time.Second)
		w.mu.Lock()
		workers := len(w.workers)
		w.mu.Unlock()
		if w.groups() != 0 || workers != 0 || len(w.pool.queues) != 0 || len(w.pool.warm) != 0 || w.sink.held.Load() != 0 {
			t.Errorf("%d groups, %d workers, %d queues and %d requests are left", w.groups(), workers, len(w.pool.queues), w.sink.held.Load())
		}
	})
}

// TestQueuesThatAreUnbound checks that new requests do not enter an unbound queue, and that they bind it
// again.
func TestQueuesThatAreUnbound(t *testing.T) {
	simulate(t, Options{}, 0, func(w *simulation) {
		first := w.deliver("42", 1, nil)
		time.Sleep(2 * time.Second)
		w.answered(first...)
		ctx := t.Context()
		if err := w.pool.Unbind(ctx, "42"); err != nil { // behind the manager's back
			t.Fatal(err)
		}
		if list, _ := w.pool.List(ctx); len(list) != 1 || list[0].Bound {
			t.Errorf("the queues are %+v", list)
		}
		if _, err := w.pool.Delete(ctx, "42"); !errors.Is(err, pool.ErrInUse) {
			t.Errorf("a queue that has a worker is deleted: %v", err)
		}
		w.pool.mu.Lock()
		w.pool.term = nil // it cannot be bound
		w.pool.mu.Unlock()
		n := w.deliver("42", 1, nil)[0]
		if o, _ := w.outcome(n); o != idle {
			t.Errorf("an orphan whose queue cannot be created: %+v", o)
		}
		if l, err := w.pool.Load(ctx, "42"); err != nil || l.Ready+l.Held != 0 {
			t.Errorf("it is in the queue: %+v, %v", l, err)
		}
	})
	simulate(t, Options{}, 0, func(w *simulation) {
		w.deliver("42", 1, nil)
		time.Sleep(2 * time.Second)
		if err := w.pool.Unbind(t.Context(), "42"); err != nil {
			t.Fatal(err)
		}
		numbers := w.deliver("42", 3, nil)
		time.Sleep(time.Second)
		w.answered(numbers...)
		if _, err := w.pool.Load(t.Context(), "other"); !errors.Is(err, pool.ErrNoQueue) {
			t.Errorf("a queue that is not there: %v", err)
		}
	})
}

// TestRequestsWhileAGroupEnds checks that a request at any moment of the end of a group is given to exactly
// one worker.
func TestRequestsWhileAGroupEnds(t *testing.T) {
	simulate(t, Options{}, 0, func(w *simulation) {
		end := unbindDelay + stopDelay + 4*time.Second
		for pause := time.Duration(0); pause < end; pause += 97 * time.Millisecond {
			numbers := w.deliver("42", 1, nil)
			time.Sleep(3 * time.Second)
			w.answered(numbers...)
			if n := w.begun[numbers[0]]; n != 1 {
				t.Errorf("after %v a request was given to %d workers", pause, n)
			}
			time.Sleep(pause)
		}
	})
}

// TestBusyGroups checks that a group stays while its worker works, even for longer than an idle group lives.
func TestBusyGroups(t *testing.T) {
	simulate(t, Options{Wait: time.Hour}, 0, func(w *simulation) {
		w.work = 10 * (unbindDelay + stopDelay)
		numbers := w.deliver("42", 2, func(s *rouse.Spec) { s.Retry.Timeout = time.Hour })
		time.Sleep(2*w.work - time.Second)
		if v := w.pool.Manager().View(); len(v.Groups) != 1 || v.Groups[0].Status != "active" {
			t.Errorf("the groups are %+v", v.Groups)
		}
		w.answered(numbers[0])
		time.Sleep(3 * time.Second)
		w.answered(numbers[1])
	})
}

// TestWorkersThatNeverCome checks that a request is deferred when its deadline has passed, so that the engine
// reports it, and otherwise periodically.
func TestWorkersThatNeverCome(t *testing.T) {
	simulate(t, Options{Wait: 20 * time.Second}, 0, func(w *simulation) {
		w.boot = -1
		began := time.Now()
		numbers := append(w.deliver("42", 1, nil), w.deliver("42", 1, func(s *rouse.Spec) { s.Deadline = 3 * time.Second })...)
		time.Sleep(3 * time.Second)
		if _, ok := w.outcome(numbers[1]); ok {
			t.Error("it is put off before its deadline has passed")
		}
		time.Sleep(30 * time.Second)
		for i, want := range []time.Duration{20 * time.Second, 3 * time.Second} {
			o, _ := w.outcome(numbers[i])
			late := w.at[numbers[i]].Sub(began) - want
			if o.Verdict != rouse.Deferred || late < 0 || late > 100*time.Millisecond || o.After > maxPutOff {
				t.Errorf("request %d: %+v, %v after %v", i, o, late, want)
			}
		}
	})
}

// TestExpiredRequestsAreLogged checks that there is one log line for a request whose deadline passes before a
// worker takes it, wherever it waits then, and none for a request without a deadline or one that is deferred
// in time.
func TestExpiredRequestsAreLogged(t *testing.T) {
	const line = "a request expires"
	deadline := func(after time.Duration) func(*rouse.Spec) {
		return func(s *rouse.Spec) { s.Deadline = after }
	}
	simulateWith(t, Options{Wait: 20 * time.Second, MaxHeld: 5}, &simulation{owned: 1}, func(w *simulation) {
		w.boot = -1
		expect := func(what string, n int) {
			t.Helper()
			if got := w.log.lines(line); got != n {
				t.Errorf("%s: %d lines, not %d", what, got, n)
			}
		}
		w.deliver("42", 1, deadline(3*time.Second))
		w.deliver("42", 1, nil)
		w.deliver("42", 1, deadline(time.Hour))
		w.deliver("over the limit", 1, deadline(10*time.Second)) // it is deferred for a second, and expires later
		expect("at first", 0)
		time.Sleep(30 * time.Second)
		expect("the first one waited for a worker", 1)
		w.deliver("over the limit", 1, deadline(500*time.Millisecond))
		expect("it would come again too late", 2)
		w.deliver("42", 5, nil)
		w.deliver("42", 1, deadline(500*time.Millisecond))
		expect("too many are in memory", 3)
		time.Sleep(30 * time.Second)
		now := rouse.Reached(time.Now())
		late := rouse.Fire{At: now.Add(-time.Hour), Spec: &rouse.Spec{Deadline: time.Minute}}
		if w.pool.expiresWithin(&late, time.Second, now) {
			t.Error("a request expires that was sent after its deadline")
		}
		late.Manual = true
		if w.pool.expiresWithin(&late, time.Second, late.At) {
			t.Error("a run that a client asked for expires")
		}
	})
}

// TestPutOff checks that requests which cannot be taken are deferred and do not fail.
func TestPutOff(t *testing.T) {
	simulate(t, Options{MaxHeld: 3}, 0, func(w *simulation) {
		w.boot = -1
		waits := w.deliver("a", 3, nil)
		for _, c := range []struct {
			what   string
			change func(*rouse.Spec)
		}{{"too many", nil}, {"does not have the pool", func(s *rouse.Spec) { s.Target = "pool:other/1" }}} {
			n := w.deliver("b", 1, c.change)[0]
			if o, ok := w.outcome(n); !ok || o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, c.what) {
				t.Errorf("%s: %+v", c.what, o)
			}
		}
		if o, ok := w.outcome(waits[0]); ok {
			t.Errorf("it waits for its worker: %+v", o)
		}
		w.sink.Drain()
		n := w.deliver("b", 1, nil)[0]
		if o, ok := w.outcome(n); !ok || o != stopping {
			t.Errorf("after Drain: %+v", o)
		}
	})
}

// TestDrain checks that a stopping service defers what waits for a busy worker, and that the end of the
// worker's stream is then no loss.
func TestDrain(t *testing.T) {
	simulate(t, Options{}, 0, func(w *simulation) {
		w.hangs = 1
		n := w.deliver("a", 2, nil)
		time.Sleep(2 * time.Second)
		w.sink.Drain()
		if o, ok := w.outcome(n[1]); !ok || o.Verdict != rouse.Deferred {
			t.Errorf("what waits for the worker: %+v", o)
		}
		if o, ok := w.outcome(n[0]); ok {
			t.Errorf("what the worker has: %+v", o)
		}
		w.mu.Lock()
		w.workers["a"].cut()
		w.mu.Unlock()
		synctest.Wait()
		if o, ok := w.outcome(n[0]); !ok || o.Verdict != rouse.Deferred || o.Lost {
			t.Errorf("what the worker had: %+v", o)
		}
	})
}

// TestPrewarm checks that the group of an announced fire is started before the fire, and stays until then.
func TestPrewarm(t *testing.T) {
	const prewarm = 40 * time.Second // longer than the lifetime of an idle group
	simulate(t, Options{}, prewarm, func(w *simulation) {
		at := rouse.Reached(time.Now()).Add(time.Minute)
		w.sink.Near("default", target.Of("core", "42"), at)
		w.sink.Near("default", "pool:other/42", at)
		w.sink.Near("default", "https://example.com", at)
		time.Sleep(18 * time.Second)
		if w.groups() != 0 {
			t.Error("it is there too early")
		}
		for range 38 {
			time.Sleep(time.Second)
		}
		for left := 4; left > 0; left-- {
			if v := w.pool.Manager().View(); len(v.Groups) != 1 || v.Groups[0].Status != "active" || v.Groups[0].Report.IsZero() {
				t.Errorf("the groups are %+v, %d seconds before the fire", v.Groups, left)
			}
			time.Sleep(time.Second)
		}
		numbers := w.deliver("42", 1, nil)
		time.Sleep(10 * time.Millisecond)
		w.answered(numbers...)
	})
}

// TestTargets checks that keys have one canonical form in targets, and that invalid targets are refused.
func TestTargets(t *testing.T) {
	for _, key := range []string{"42", "", "a/b", "../x", "a b%", "\x00", "日本", strings.Repeat("ü", 127)} {
		name, got, err := target.Parse(target.Of("core", key))
		if err != nil || name != "core" || got != key {
			t.Errorf("%q becomes %q of %q, %v", key, got, name, err)
		}
	}
	for _, c := range []struct{ target, key string }{{"pool:core/a/b", "a/b"}, {"pool:core/%61", "a"}, {"pool:core/a b", "a b"}} {
		if _, got, err := target.Parse(c.target); err != nil || got != c.key {
			t.Errorf("%s is the key %q, %v", c.target, got, err)
		}
	}
	s := New(Options{})
	defer s.Close()
	for _, bad := range []string{"", "pool:", "pool:core", "pool:/42", "stream:core/42", "pool:core/%zz", "pool:core/%ff", "pool:co re/1", "pool:core/" + strings.Repeat("x", pool.MaxKey+1), "pool:core/1"} {
		if err := s.Check(&rouse.Spec{Target: bad}); err == nil {
			t.Errorf("%q is taken, and there is no such pool", bad)
		}
	}
}

// TestWorkersThatHang checks that a worker that misses the deadline of a request is told, gets no further
// requests, and is replaced if it does not react, and that the requests of its key go to the next worker.
func TestWorkersThatHang(t *testing.T) {
	simulate(t, Options{}, 0, func(w *simulation) {
		w.hangs, w.kills = 1, true
		numbers := w.deliver("42", 3, func(s *rouse.Spec) { s.Retry.Timeout = 2 * time.Second })
		time.Sleep(3500 * time.Millisecond) // a second to start, two for the attempt
		if o, _ := w.outcome(numbers[0]); o.Verdict != rouse.Failed || w.told() != 1 {
			t.Errorf("after its time: %+v, and %d are cancelled", o, w.told())
		}
		if w.began(numbers[1]) != 0 {
			t.Error("a worker that hangs is given more")
		}
		time.Sleep(8 * time.Second)
		w.answered(numbers[1:]...)
		if w.drains() != 1 {
			t.Errorf("the workers of the key were drained %d times", w.drains())
		}
	})
	// Extensions do not change the timeout of a request that has one, only the default.
	for timeout, want := range map[time.Duration]rouse.Verdict{2 * time.Second: rouse.Failed, 0: 0} {
		simulate(t, Options{}, 0, func(w *simulation) {
			w.hangs, w.extends = 1, true
			n := w.deliver("42", 1, func(s *rouse.Spec) { s.Retry.Timeout = timeout })[0]
			time.Sleep(40 * time.Second)
			if o, _ := w.outcome(n); o.Verdict != want {
				t.Errorf("with a timeout of %v: %+v", timeout, o)
			}
		})
	}
	simulateStall(t, Options{}, 0, 10*time.Second, func(w *simulation) {
		w.hangs, w.kills, w.extends = 1, true, true
		n := w.deliver("42", 2, nil)[1]
		time.Sleep(15 * time.Second)
		w.answered(n)
		if w.drains() != 1 {
			t.Errorf("workers that stall were drained %d times", w.drains())
		}
	})
}

// TestDeletedRequestsAreCancelled checks that workers are told to cancel requests whose timers were deleted.
func TestDeletedRequestsAreCancelled(t *testing.T) {
	gone := map[string]bool{}
	var mu sync.Mutex
	alive := func(_ context.Context, fires []rouse.Fire) ([]bool, error) {
		mu.Lock()
		defer mu.Unlock()
		is := make([]bool, len(fires))
		for i, f := range fires {
			is[i] = !gone[f.Name]
		}
		return is, nil
	}
	simulate(t, Options{Alive: alive}, 0, func(w *simulation) {
		w.hangs, w.extends = 1, true
		numbers := w.deliver("42", 2, nil)
		time.Sleep(10 * time.Second)
		if w.told() != 0 {
			t.Error("a request is cancelled that is there")
		}
		mu.Lock()
		gone[fmt.Sprint("r", numbers[0])] = true
		mu.Unlock()
		time.Sleep(4 * time.Second)
		if o, _ := w.outcome(numbers[0]); o.Verdict != rouse.Failed || w.told() != 1 {
			t.Errorf("after it was deleted: %+v, and %d are cancelled", o, w.told())
		}
	})
}

// TestLimitsOfGroups checks that requests of keys over a limit are deferred with the reason, and that those
// of another namespace are not.
func TestLimitsOfGroups(t *testing.T) {
	simulateWith(t, Options{}, &simulation{owned: 1}, func(w *simulation) {
		numbers := w.deliver("a", 1, nil)
		time.Sleep(2 * time.Second)
		w.answered(numbers...)
		n := w.deliver("b", 1, nil)[0]
		if o, _ := w.outcome(n); o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, "limit") {
			t.Errorf("a second group of a namespace that may have one: %+v", o)
		}
		w.namespace = "other"
		numbers = w.deliver("c", 1, nil)
		time.Sleep(2 * time.Second)
		w.answered(numbers...)
	})
}
