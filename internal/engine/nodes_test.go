package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// manualStrategy is a strategy whose buckets a test sets.
type manualStrategy struct {
	mu      sync.Mutex
	buckets []uint32
	until   time.Time
	left    []uint32
	changed chan struct{}
	sick    error
}

func newManual(buckets ...uint32) *manualStrategy {
	return &manualStrategy{buckets: buckets, changed: make(chan struct{}, 1)}
}

func (s *manualStrategy) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rouse.Grant{Buckets: slices.Clone(s.buckets), Until: s.until}, func(bool) {}, ctx.Err()
}

func (s *manualStrategy) give(buckets ...uint32) {
	s.mu.Lock()
	s.buckets = buckets
	s.mu.Unlock()
	notify.Send(s.changed)
}

func (s *manualStrategy) Run(ctx context.Context)  { <-ctx.Done() }
func (s *manualStrategy) Changed() <-chan struct{} { return s.changed }

func (s *manualStrategy) Left(buckets []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, buckets...)
}

func (s *manualStrategy) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sick
}

func (s *manualStrategy) gone() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.left)
}

// join starts a node on a store that other nodes share.
func join(t *testing.T, store rouse.Store, strategy rouse.Strategy, sink *recorder, o timers.Options) *harness {
	t.Helper()
	o.Engine.Shared, o.Engine.Buckets = true, 2
	o.Compile = schedule.Compile
	e := timers.New(store, strategy, sink, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	if err := e.ClockMoved(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // it has its first grant
	h := &harness{Timers: e, t: t, store: store, sink: sink}
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(h.stop)
	return h
}

// inBucket returns names of timers in one of two buckets.
func inBucket(bucket uint32, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := "t" + string(rune('a'+i%26)) + string(rune('a'+i/26)); rouse.BucketOf(key(name), 2) == bucket {
			names = append(names, name)
		}
	}
	return names
}

// fireIn returns a fire of a timer in one of two buckets.
func fireIn(bucket uint32) *rouse.Fire {
	return &rouse.Fire{Namespace: "n", Name: inBucket(bucket, 1)[0], Spec: &rouse.Spec{}, Bucket: bucket}
}

func names(arrivals []arrival) (list []string) {
	for _, a := range arrivals {
		list = append(list, a.Name)
	}
	slices.Sort(list)
	return list
}

func TestANodeKeepsWhatItWritesOfAnothersBucket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		mine, theirs := &recorder{}, &recorder{}
		a := join(t, store, newManual(0), mine, timers.Options{})
		join(t, store, newManual(1), theirs, timers.Options{})
		began := time.Now()
		name := inBucket(1, 1)[0]
		a.put(name, "@after 2s")
		time.Sleep(3 * time.Second)
		got := mine.got()
		if len(got) != 1 || len(theirs.got()) != 0 {
			t.Fatalf("fired by its node %v, by the owner %v", names(got), names(theirs.got()))
		}
		if late := got[0].at.Sub(began.Add(2 * time.Second)); late < 0 || late > 50*time.Millisecond {
			t.Errorf("fired %v late", late)
		}
		if row, _ := store.Get(t.Context(), []rouse.Key{key(name)}); row[0].Revision != 0 {
			t.Error("it was not settled")
		}
	})
}

// TestRoutedTimersAreFiredByOneNode: timers whose targets have the same route are fired by the node that has
// the route's bucket, whichever node wrote them and whatever their names are.
func TestRoutedTimersAreFiredByOneNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		o := timers.Options{Engine: engine.Options{Route: func(target string) (string, bool) { return target, target == "test:one" || target == "test:two" }}}
		sinks := []*recorder{{}, {}}
		nodes := []*harness{join(t, store, newManual(0), sinks[0], o), join(t, store, newManual(1), sinks[1], o)}
		want := [2]int{}
		for _, target := range []string{"test:one", "test:two"} {
			want[rouse.BucketOf(rouse.Key{Name: target}, 2)] += 40
			for i := range 40 {
				nodes[i/2%2].put(fmt.Sprint(target, i), []string{"@after 0s", "@after 3s"}[i%2], func(p *timers.Put) { p.Spec.Target = target })
			}
		}
		time.Sleep(10 * time.Second)
		for i, s := range sinks {
			if n := len(s.got()); n != want[i] {
				t.Errorf("node %d fired %d; want %d", i, n, want[i])
			}
		}
	})
}

func TestAnOwnerFindsWhatADeadNodeHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		w := &faultyConn{Shared: store, rnd: newRnd()}
		sink := &recorder{}
		a := join(t, w, newManual(0), &recorder{}, timers.Options{Engine: engine.Options{Grace: time.Second}})
		join(t, store, newManual(0, 1), sink, timers.Options{Engine: engine.Options{Hold: 10 * time.Second}})
		began := time.Now()
		a.put(inBucket(1, 1)[0], "@after 2s")
		w.cut.Store(true)
		time.Sleep(20 * time.Second)
		got := sink.got()
		if len(got) != 1 {
			t.Fatalf("%d fires", len(got))
		}
		if after := got[0].at.Sub(began); after < 12*time.Second || after > 13*time.Second {
			t.Errorf("found after %v, the hold ends 10s after it was due", after)
		}
	})
}

func TestAnOwnerFindsWhatOthersWriteWithoutHolding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sink := &recorder{}
		a := join(t, store, newManual(), &recorder{}, timers.Options{Engine: engine.Options{Scatter: true}})
		b := join(t, store, newManual(0, 1), sink, timers.Options{})
		time.Sleep(5 * time.Second) // the owner has read the next ten seconds
		for _, name := range inBucket(0, 20) {
			a.put(name, "@after 3s")
		}
		began := time.Now()
		time.Sleep(4 * time.Second)
		got := sink.got()
		if len(got) != 20 {
			t.Fatalf("%d fires of 20", len(got))
		}
		for _, f := range got {
			if late := f.at.Sub(began.Add(3 * time.Second)); late > 100*time.Millisecond {
				t.Errorf("%s was %v late", f.Name, late)
			}
		}
		if b.Stats().Window != 0 {
			t.Errorf("%d rows stayed in memory", b.Stats().Window)
		}
	})
}

func TestADeleteElsewhereStopsAFire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, strategy := range []rouse.Strategy{newManual(0, 1), claimStrategy{20 * time.Second, 2}} {
			store := mem.New()
			sink := &recorder{}
			a := join(t, store, newManual(), &recorder{}, timers.Options{Engine: engine.Options{Scatter: true}})
			b := join(t, store, strategy, sink, timers.Options{})
			for _, name := range inBucket(0, 3) {
				a.put(name, "@after 3s")
			}
			time.Sleep(2500 * time.Millisecond)
			if n := b.Stats().Window; n != 3 {
				t.Fatalf("%d rows in memory", n)
			}
			gone := inBucket(0, 3)
			d, err := a.Delete(t.Context(), key(gone[0]), 0)
			if err != nil || d.InFlight {
				t.Errorf("delete before it is due: %+v, %v", d, err)
			}
			res, err := a.Put(t.Context(), []timers.Put{{Key: key(gone[1]), Mode: timers.CreateOrReplace, Spec: rouse.Spec{Schedule: "@after 60s", Target: "test:a"}}})
			if err != nil || res[0].Err != nil || res[0].InFlight || !res[0].Replaced {
				t.Errorf("replace before it is due: %+v, %v", res, err)
			}
			time.Sleep(3 * time.Second)
			if got := names(sink.got()); !slices.Equal(got, gone[2:]) {
				t.Errorf("fired: %v", got)
			}
			b.stop()
			a.stop()
		}
	})
}

func TestADeleteElsewhereReportsThatAnAttemptMayBeOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		release := make(chan struct{})
		sink := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			<-release
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		a := join(t, store, newManual(), &recorder{}, timers.Options{Engine: engine.Options{Scatter: true}})
		join(t, store, newManual(0, 1), sink, timers.Options{})
		list := inBucket(0, 2)
		a.put(list[0], "@after 1s")
		a.put(list[1], "@after 1s")
		time.Sleep(5 * time.Second)
		d, err := a.Delete(t.Context(), key(list[0]), 0)
		if err != nil || !d.InFlight {
			t.Errorf("delete: %+v, %v", d, err)
		}
		res, err := a.Put(t.Context(), []timers.Put{{Key: key(list[1]), Mode: timers.CreateOrReplace, Spec: rouse.Spec{Schedule: "@after 60s", Target: "test:a"}}})
		if err != nil || res[0].Err != nil || !res[0].InFlight {
			t.Errorf("replace: %+v, %v", res, err)
		}
		close(release)
		time.Sleep(5 * time.Second)
		page, err := store.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
		if err != nil || len(page.Records) != 2 {
			t.Errorf("%d records of two occurrences, %v", len(page.Records), err)
		}
	})
}

func TestABucketIsLeftWhileItsAttemptsGoOnUnderHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free()
		slow := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			<-release
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		seatA, seatB := newManual(0, 1), newManual()
		quick := &recorder{}
		a := join(t, store, seatA, slow, timers.Options{})
		join(t, store, seatB, quick, timers.Options{})
		list := inBucket(1, 2)
		a.put(list[0], "@after 1s")
		a.put(list[1], "@after 5s")
		a.put(inBucket(0, 1)[0], "@after 5s")
		time.Sleep(2 * time.Second) // during an attempt
		if a.Leaving() != nil {
			t.Error("a bucket is leaving that was not taken away")
		}
		seatA.give(0)
		time.Sleep(100 * time.Millisecond)
		if leaving := a.Leaving(); leaving == nil || !leaving(fireIn(1)) || leaving(fireIn(0)) {
			t.Error("it is not told which timers are leaving")
		}
		if left := seatA.gone(); !slices.Equal(left, []uint32{1}) {
			t.Errorf("left: %v", left)
		}
		if rows, _ := store.Get(t.Context(), []rouse.Key{key(list[0])}); rows[0].Visible < a.Now().Add(9*time.Second) {
			t.Errorf("the one that is out is visible at %v, it is %v", rows[0].Visible, a.Now())
		}
		seatB.give(1)
		if n := a.Stats().Window; n != 2 {
			t.Errorf("%d rows in memory: one that is out, and one of the bucket that stays", n)
		}
		time.Sleep(30 * time.Second) // the hold is renewed
		free()
		time.Sleep(time.Second)
		if got := names(quick.got()); !slices.Equal(got, list[1:]) {
			t.Errorf("the new owner fired %v", got)
		}
		if got := slow.got(); len(got) != 2 {
			t.Errorf("the old owner fired %v", names(got))
		}
		seatA.give(0, 1)
		time.Sleep(time.Second)
		if a.Leaving() != nil {
			t.Error("what came back is still leaving")
		}
	})
}

func TestNothingIsSentWhenOwnershipMayHaveEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sink := &recorder{}
		s := newManual(0, 1)
		s.until = time.Now().Add(2 * time.Second)
		a := join(t, store, s, sink, timers.Options{})
		for _, name := range inBucket(0, 2) {
			a.put(name, map[string]string{inBucket(0, 2)[0]: "@after 1s", inBucket(0, 2)[1]: "@after 3s"}[name])
		}
		time.Sleep(10 * time.Second)
		if got := names(sink.got()); !slices.Equal(got, inBucket(0, 1)) {
			t.Errorf("fired %v: what came due after the end of ownership may be another node's", got)
		}
	})
}

func TestAHoldIsRenewedWhileItsAttemptIsOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		answer := func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			backoff.Sleep(ctx, 45*time.Second)
			return rouse.Outcome{Verdict: rouse.Done}
		}
		sinks := []*recorder{{answer: answer}, {answer: answer}}
		a := join(t, store, claimStrategy{10 * time.Second, 2}, sinks[0], timers.Options{Engine: engine.Options{Hold: 10 * time.Second, Grace: time.Minute}})
		join(t, store, claimStrategy{10 * time.Second, 2}, sinks[1], timers.Options{Engine: engine.Options{Hold: 10 * time.Second}})
		a.put("a", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Timeout: time.Minute} })
		time.Sleep(60 * time.Second)
		if n := len(sinks[0].got()) + len(sinks[1].got()); n != 1 {
			t.Errorf("%d attempts were started", n)
		}
		if rows, _ := store.Get(t.Context(), []rouse.Key{key("a")}); rows[0].Revision != 0 {
			t.Error("it was not settled")
		}
	})
}

func TestATimerThatTwoNodesFiredIsRecordedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		both := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			backoff.Sleep(ctx, 2*time.Second)
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		a := join(t, store, newManual(0, 1), both, timers.Options{}) // both assume that they own everything
		join(t, store, newManual(0, 1), both, timers.Options{})
		a.put("a", "@every 10s")
		time.Sleep(35 * time.Second)
		got := both.got()
		if len(got) != 6 {
			t.Fatalf("%d attempts of three occurrences by two nodes", len(got))
		}
		ids := map[string]int{}
		for _, f := range got {
			ids[f.ID]++
		}
		if len(ids) != 3 {
			t.Errorf("fire ids: %v", ids)
		}
		page, err := store.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
		if err != nil || len(page.Records) != 3 {
			t.Errorf("%d records of three occurrences, %v", len(page.Records), err)
		}
	})
}

func TestARowThatCannotBeLookedAtWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &faultyConn{Shared: mem.New(), rnd: newRnd()}
		sink := &recorder{}
		var failed sync.Map
		a := join(t, w, newManual(0, 1), sink, timers.Options{Engine: engine.Options{Events: engine.Events{Failed: func(what string, err error) {
			if errors.Is(err, errConn) {
				failed.Store(what, true)
			}
		}}}})
		a.put("a", "@after 2s")
		time.Sleep(time.Second)
		w.cut.Store(true)
		time.Sleep(5 * time.Second)
		if n := len(sink.got()); n != 0 {
			t.Fatalf("%d fires whose revision could not be checked", n)
		}
		if _, ok := failed.Load("look"); !ok {
			t.Error("the failed check was not reported")
		}
		w.cut.Store(false)
		time.Sleep(2 * time.Second)
		if n := len(sink.got()); n != 1 {
			t.Errorf("%d fires", n)
		}
	})
}

func TestASickStrategyMakesTheNodeUnhealthy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newManual(0, 1)
		a := join(t, mem.New(), s, &recorder{}, timers.Options{})
		time.Sleep(time.Second)
		if err := a.Healthy(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.sick = errors.New("no lease could be renewed")
		s.mu.Unlock()
		if err := a.Healthy(); !errors.Is(err, s.sick) {
			t.Errorf("healthy: %v", err)
		}
	})
}

func TestADraftBecomesATimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sink := &recorder{}
		read := func(json []byte) (rouse.Spec, error) {
			if string(json) == "bad" {
				return rouse.Spec{}, rouse.Refuse("schedule", "bad", "is none", "give one")
			}
			return rouse.Spec{Schedule: string(json), Target: "test:a"}, nil
		}
		a := join(t, store, newManual(0, 1), sink, timers.Options{Spec: read})
		draft := func(name, spec string) {
			row := rouse.DraftRow(key(name), rouse.BucketOf(key(name), 2), []byte(spec), rouse.Reached(time.Now()))
			if _, err := store.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.NoRow, To: &row}}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		draft("now", "@after 1ms")
		draft("soon", "@after 5s")
		draft("bad", "bad")
		if tm, err := a.Get(t.Context(), key("soon")); err != nil || tm.Due != rouse.Reached(began.Add(5*time.Second)) {
			t.Errorf("before it was seen: %+v, %v", tm, err)
		}
		time.Sleep(2 * time.Second)
		if got := names(sink.got()); !slices.Equal(got, []string{"now"}) {
			t.Errorf("fired: %v", got)
		}
		time.Sleep(8 * time.Second)
		got := sink.got()
		if len(got) != 2 || got[1].at.Sub(began) < 5*time.Second || got[1].at.Sub(began) > 5100*time.Millisecond {
			t.Errorf("fired: %+v", got)
		}
		tm, err := a.Get(t.Context(), key("bad"))
		if err != nil || !tm.Paused || tm.Reason == "" || tm.State() != rouse.StatePaused {
			t.Errorf("a draft that cannot be read: %+v, %v", tm, err)
		}
	})
}
