package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/claim"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// The simulation runs engines in virtual time on a store that stalls, fails before and after it wrote, and loses answers,
// with clients that create, replace, delete and read, receivers that fail, refuse and hang, and crashes; the checker judges
// what was seen from outside. A seed names a run: ROUSE_SEED=n repeats one, ROUSE_SEEDS=n runs so many.
func TestSimulation(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) { simulations(t, l) })
	}
}

// layout is how many nodes there are, and how they share the work.
type layout struct {
	name     string
	nodes    int
	seeds    int
	musts    int // occurrences that have to arrive in a run, on average at least; crashes excuse some
	strategy func(node string, store rouse.Shared) rouse.Strategy
}

var layouts = []layout{
	{"one node", 1, 40, 100, func(string, rouse.Shared) rouse.Strategy { return claim.NewSole(2) }},
	{"bucket", 3, 25, 40, func(node string, store rouse.Shared) rouse.Strategy {
		return claim.NewShare(store, claim.ShareOptions{MemberOptions: claim.MemberOptions{Node: node, TTL: 6 * time.Second}, Buckets: 2})
	}},
	{"tick", 3, 15, 40, func(node string, store rouse.Shared) rouse.Strategy {
		return claim.NewTick(store, store, claim.TickOptions{Node: node, Buckets: 2, Hold: 8 * time.Second})
	}},
	{"lease", 3, 25, 60, func(string, rouse.Shared) rouse.Strategy { return holding{8 * time.Second, 2} }},
}

func simulations(t *testing.T, l layout) {
	seeds := l.seeds
	if n, err := strconv.Atoi(os.Getenv("ROUSE_SEEDS")); err == nil {
		seeds = n
	} else if testing.Short() {
		seeds = 6
	}
	if n, err := strconv.Atoi(os.Getenv("ROUSE_SEED")); err == nil {
		synctest.Test(t, func(t *testing.T) { simulate(t, l, uint64(n)) })
		return
	}
	musts := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { musts += simulate(t, l, uint64(seed)) })
		if t.Failed() {
			t.Fatalf("seed %d failed", seed)
		}
	}
	if musts < l.musts*seeds {
		t.Errorf("only %d occurrences had to arrive in %d runs: the simulation proves little", musts, seeds)
	}
}

// wire is a connection to the store that misbehaves. Cut, it is what a crashed process has left of it: nothing gets through.
type wire struct {
	rouse.Shared
	mu     sync.Mutex
	rnd    *rand.Rand
	faulty atomic.Bool
	cut    atomic.Bool
}

var errWire = errors.New("the wire is down")

func (w *wire) roll() (before, after bool, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delay = time.Duration(3000+w.rnd.IntN(3000)) * time.Microsecond
	if !w.faulty.Load() {
		return false, false, delay
	}
	if w.rnd.IntN(20) == 0 {
		delay += time.Duration(w.rnd.IntN(2000)) * time.Millisecond // a stall
	}
	return w.rnd.IntN(20) == 0, w.rnd.IntN(20) == 0, delay
}

// pass is a call through the wire: some time, perhaps lost on the way there, perhaps on the way back.
func (w *wire) pass(call func() error) error {
	before, after, delay := w.roll()
	time.Sleep(delay / 2)
	if before || w.cut.Load() {
		return errWire
	}
	err := call()
	time.Sleep(delay / 2)
	if after || w.cut.Load() {
		return errWire
	}
	return err
}

// Now is quick, so that what the clients' clocks show and what the engines know of the store's differ by little.
func (w *wire) Now(ctx context.Context) (rouse.Instant, error) {
	time.Sleep(time.Millisecond)
	if before, _, _ := w.roll(); before || w.cut.Load() {
		return 0, errWire
	}
	now, err := w.Shared.Now(ctx)
	time.Sleep(time.Millisecond)
	return now, err
}

func (w *wire) Get(ctx context.Context, keys []rouse.Key) (rows []rouse.Row, err error) {
	err = w.pass(func() error { rows, err = w.Shared.Get(ctx, keys); return err })
	return rows, err
}

func (w *wire) Claim(ctx context.Context, win rouse.Window) (b rouse.Batch, err error) {
	err = w.pass(func() error { b, err = w.Shared.Claim(ctx, win); return err })
	return b, err
}

func (w *wire) Apply(ctx context.Context, changes []rouse.Change) (res []rouse.Result, err error) {
	err = w.pass(func() error { res, err = w.Shared.Apply(ctx, changes); return err })
	return res, err
}

func (w *wire) Revisions(ctx context.Context, keys []rouse.Key) (out []uint64, err error) {
	err = w.pass(func() error { out, err = w.Shared.Revisions(ctx, keys); return err })
	return out, err
}

func (w *wire) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) (out []rouse.Lease, err error) {
	err = w.pass(func() error { out, err = w.Shared.Lock(ctx, owner, ttl, wants); return err })
	return out, err
}

func (w *wire) Unlock(ctx context.Context, owner string, names []string) error {
	return w.pass(func() error { return w.Shared.Unlock(ctx, owner, names) })
}

func (w *wire) Leases(ctx context.Context, prefix string) (out []rouse.Lease, now rouse.Instant, err error) {
	err = w.pass(func() error { out, now, err = w.Shared.Leases(ctx, prefix); return err })
	return out, now, err
}

// world is one run.
type world struct {
	t      *testing.T
	log    *history.Writer
	store  rouse.Shared
	layout layout

	mu      sync.Mutex
	rnd     *rand.Rand
	engines []*Engine // nil while crashed
	gens    uint64
}

func (w *world) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

func (w *world) now() history.Time { return history.At(time.Now()) }

// current returns any of the engines; nil if that one has crashed.
func (w *world) current() *Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engines[w.rnd.IntN(len(w.engines))]
}

func (w *world) write(e history.Event) {
	if err := w.log.Write(e); err != nil {
		w.t.Error(err)
	}
}

// Check, Lane and Deliver make the world its own receiver.
func (w *world) Check(*rouse.Spec) error { return nil }

func (w *world) Lane(ns string, s *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.Target, Limit: 50, Batch: 1}
}

func (w *world) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i, f := range fires {
		gen, _ := strconv.ParseUint(string(f.Spec.Payload), 10, 64)
		ev := history.Fire{Timer: f.Name, Gen: gen, Due: history.At(f.Due.Time()), T: w.now(), Key: f.ID, Attempt: int(f.Attempt), Epoch: f.Token}
		o := rouse.Outcome{Verdict: rouse.Done}
		ev.Reply = history.ReplyOK
		switch n := w.intn(100); {
		case n < 10:
			ev.Reply, o.Verdict = history.ReplyRetry, rouse.Failed
		case n < 12:
			ev.Reply, o.Verdict = history.ReplyFatal, rouse.Rejected
		case n < 15:
			time.Sleep(time.Duration(w.intn(3000)) * time.Millisecond)
		}
		ev.T1 = w.now()
		w.write(ev)
		settle(i, o)
	}
}

// client works on one timer, one call at a time.
func (w *world) client(ctx context.Context, name string) {
	for ctx.Err() == nil {
		if !sleep(ctx, time.Duration(w.intn(4000))*time.Millisecond) {
			return
		}
		e := w.current()
		if e == nil {
			continue
		}
		switch n := w.intn(10); {
		case n < 6:
			w.create(ctx, e, name)
		case n < 8:
			w.delete(ctx, e, name)
		default:
			w.get(ctx, e, name)
		}
	}
}

func (w *world) create(ctx context.Context, e *Engine, name string) {
	w.mu.Lock()
	w.gens++
	gen := w.gens
	w.mu.Unlock()
	p := Put{Key: key(name), Mode: CreateOrReplace, Spec: rouse.Spec{Target: "sim:" + name[:1], Payload: []byte(strconv.FormatUint(gen, 10)),
		Retry: rouse.Retry{Attempts: 3, Interval: 100 * time.Millisecond, Jitter: 50 * time.Millisecond}}}
	ev := history.Put{Replace: true, Timer: name, Gen: gen, T0: w.now(), Spec: history.Spec{MaxAttempts: 3, Serial: true}}
	switch w.intn(3) {
	case 0:
		d := time.Duration(1+w.intn(200)) * 100 * time.Millisecond
		p.Spec.Schedule, ev.Spec.Delay = "@after "+d.String(), d
	case 1:
		at := time.Now().Add(time.Duration(w.intn(20_000)) * time.Millisecond).Truncate(time.Millisecond)
		p.Spec.Schedule, ev.Spec.At = at.UTC().Format(time.RFC3339Nano), history.At(at)
	default:
		d := time.Duration(1+w.intn(5)) * time.Second
		p.Spec.Schedule, p.Spec.Overlap, ev.Spec.Every, ev.Spec.Misfire = "@every "+d.String(), rouse.OverlapWait, d, history.MisfireLatest
	}
	res, err := e.Put(ctx, []Put{p})
	ev.T1 = w.now()
	switch {
	case err != nil:
		ev.Res = history.Info
	case res[0].Err != nil:
		ev.Res = history.Fail
	default:
		ev.Res, ev.Due, ev.InFlight = history.OK, history.At(res[0].Timer.Due.Time()), res[0].InFlight
	}
	w.write(ev)
}

func (w *world) delete(ctx context.Context, e *Engine, name string) {
	ev := history.Delete{Timer: name, T0: w.now()}
	d, err := e.Delete(ctx, key(name), 0)
	ev.T1 = w.now()
	switch {
	case err == nil:
		ev.Res, ev.InFlight = history.OK, d.InFlight
	case errors.Is(err, rouse.ErrNotFound):
		ev.Res = history.Fail
	default:
		ev.Res = history.Info
	}
	w.write(ev)
}

func (w *world) get(ctx context.Context, e *Engine, name string) {
	ev := history.Get{Timer: name, T0: w.now()}
	tm, err := e.Get(ctx, key(name))
	ev.T1 = w.now()
	switch {
	case err == nil:
		ev.Res = history.OK
		ev.Gen, _ = strconv.ParseUint(string(tm.Spec.Payload), 10, 64)
	case errors.Is(err, rouse.ErrNotFound):
		ev.Res = history.NotFound
	default:
		ev.Res = history.Info
	}
	w.write(ev)
}

// run keeps an engine running until it is told to stop, with crashes in between.
func (w *world) run(node int, stop <-chan struct{}, crash <-chan struct{}) {
	for life := uint64(0); ; life++ {
		wr := &wire{Shared: w.store, rnd: rand.New(rand.NewPCG(uint64(w.intn(1<<30)), life))}
		wr.faulty.Store(true)
		strategy := w.layout.strategy(fmt.Sprintf("node%d-%d", node, life), wr)
		e := New(wr, strategy, w, Options{Compile: schedule.Compile, Buckets: 2, Ahead: 3 * time.Second, MaxRows: 40, MaxDeliveries: 30,
			Grace: 10 * time.Second, Shared: w.layout.nodes > 1, Hold: 8 * time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e.Run(ctx) != nil && ctx.Err() == nil { // the store's clock may not answer at first
				time.Sleep(10 * time.Millisecond)
			}
		}()
		w.mu.Lock()
		w.engines[node] = e
		w.mu.Unlock()
		fid := fmt.Sprint("node", node, " life", life)
		w.write(history.Fault{FID: fid, Kind: "wire", T: w.now()}) // stalls and lost answers may touch everything while it is on
		select {
		case <-crash:
			wr.cut.Store(true)
			w.mu.Lock()
			w.engines[node] = nil
			w.mu.Unlock()
			cancel()
			<-ended
			w.write(history.Heal{FID: fid, Kind: "wire", T: w.now()})
			time.Sleep(time.Duration(w.intn(2000)) * time.Millisecond)
		case <-stop:
			wr.faulty.Store(false)
			w.write(history.Heal{FID: fid, Kind: "wire", T: w.now()})
			<-stop
			cancel()
			<-ended
			return
		}
	}
}

func simulate(t *testing.T, l layout, seed uint64) (musts int) {
	var out bytes.Buffer
	w := &world{t: t, layout: l, engines: make([]*Engine, l.nodes), log: history.NewWriter(&out), store: mem.New(), rnd: rand.New(rand.NewPCG(seed, 7))}
	w.write(history.Config{MaxLate: time.Second, ClockErr: 10 * time.Millisecond, Recovery: 15 * time.Second, Lease: 30 * time.Second, MinBackoff: 100 * time.Millisecond,
		MaxBackoff: 5 * time.Second, AttemptTimeout: 30 * time.Second, DST: history.Vixie})
	stop, crash := make(chan struct{}), make(chan struct{})
	var engines, clients sync.WaitGroup
	for node := range l.nodes {
		engines.Go(func() { w.run(node, stop, crash) })
	}
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 25 {
		clients.Go(func() { w.client(ctx, fmt.Sprintf("%c%d", 'a'+i%3, i)) })
	}
	for range 3 {
		time.Sleep(time.Duration(10_000+w.intn(20_000)) * time.Millisecond)
		if w.intn(2) == 0 {
			crash <- struct{}{}
		}
	}
	cancel()
	for range l.nodes {
		stop <- struct{}{} // no more faults
	}
	clients.Wait()
	time.Sleep(90 * time.Second)

	e := w.current()
	final := history.Final{T0: w.now(), Timers: map[string]uint64{}}
	timers, _, err := e.List(t.Context(), rouse.Query{Namespace: "n", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, tm := range timers {
		final.Timers[tm.Key.Name], _ = strconv.ParseUint(string(tm.Spec.Payload), 10, 64)
	}
	final.T1 = w.now()
	w.write(final)
	dead, _, err := e.List(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, tm := range dead {
		gen, _ := strconv.ParseUint(string(tm.Spec.Payload), 10, 64)
		w.write(history.Dead{Timer: tm.Key.Name, Gen: gen, Due: history.At(tm.Due.Time()), T: history.At(tm.Updated.Time())})
	}
	w.write(history.End{T: w.now()})
	close(stop)
	engines.Wait()
	if err := w.log.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	report := history.Check(h)
	for _, v := range report.Violations {
		t.Errorf("seed %d: %v", seed, v)
	}
	if t.Failed() {
		if dir := os.Getenv("ROUSE_HISTORIES"); dir != "" {
			_ = os.WriteFile(fmt.Sprintf("%s/seed-%d.jsonl", dir, seed), out.Bytes(), 0o644)
		}
	}
	return report.Stats.Musts
}

func newRnd() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
