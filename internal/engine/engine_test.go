package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// arrival is one fire as a sink received it.
type arrival struct {
	rouse.Fire
	at time.Time
}

// recorder is a sink that records fires and computes its outcomes with a function.
type recorder struct {
	mu       sync.Mutex
	arrivals []arrival
	answer   func(ctx context.Context, f rouse.Fire) rouse.Outcome // may block; nil means Done
	lane     func(ns string, s *rouse.Spec) rouse.Lane
	obstacle string
}

func (r *recorder) Check(*rouse.Spec) error { return nil }

func (r *recorder) Lane(ns string, s *rouse.Spec) rouse.Lane {
	if r.lane != nil {
		return r.lane(ns, s)
	}
	return rouse.Lane{Name: s.Target, Limit: 64, Batch: 1}
}

func (r *recorder) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i, f := range fires {
		r.mu.Lock()
		r.arrivals = append(r.arrivals, arrival{f, time.Now()})
		answer := r.answer
		r.mu.Unlock()
		o := rouse.Outcome{Verdict: rouse.Done}
		if answer != nil {
			o = answer(ctx, f)
		}
		settle(i, o)
	}
}

// answers replaces the answer function, also while fires are out.
func (r *recorder) answers(f func(ctx context.Context, f rouse.Fire) rouse.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// obstruct sets what holds up all targets.
func (r *recorder) obstruct(by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.obstacle = by
}

func (r *recorder) Obstacle(string, *rouse.Spec) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.obstacle
}

func (r *recorder) got() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...)
}

// harness is a running engine in a synctest bubble.
type harness struct {
	*timers.Timers
	t     *testing.T
	store rouse.Store
	sink  *recorder
	stop  func()
}

func start(t *testing.T, store rouse.Store, sink *recorder, o timers.Options) *harness {
	t.Helper()
	h := startWith(t, store, sink, o)
	h.sink = sink
	return h
}

func startWith(t *testing.T, store rouse.Store, sink rouse.Sink, o timers.Options) *harness {
	t.Helper()
	if o.Compile == nil {
		o.Compile = schedule.Compile
	}
	e := timers.New(store, claim.NewSole(o.Engine.Buckets), sink, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	synctest.Wait()
	h := &harness{Timers: e, t: t, store: store}
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

func key(name string) rouse.Key { return rouse.Key{Namespace: "n", Name: name} }

func (h *harness) put(name, when string, edit ...func(*timers.Put)) rouse.Timer {
	h.t.Helper()
	p := timers.Put{Key: key(name), Spec: rouse.Spec{Schedule: when, Target: "test:a"}}
	for _, e := range edit {
		e(&p)
	}
	res, err := h.Put(context.Background(), []timers.Put{p})
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		h.t.Fatalf("put %s: %v", name, err)
	}
	return res[0].Timer
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestATimerFiresOnTimeOnceAndEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		for name, when := range map[string]string{"soon": "@after 500ms", "later": "@after 90s", "now": "2000-01-01T00:00:00Z"} {
			h.put(name, when)
		}
		time.Sleep(2 * time.Minute)
		got := h.sink.got()
		if len(got) != 3 {
			t.Fatalf("%d fires, want 3", len(got))
		}
		for _, a := range got {
			if late := a.at.Sub(a.Due.Time()); late < 0 || late > 2*time.Millisecond {
				t.Errorf("%s fired %v after it was due", a.Name, late)
			}
			if _, err := h.Get(t.Context(), key(a.Name)); !errors.Is(err, rouse.ErrNotFound) {
				t.Errorf("%s is still there: %v", a.Name, err)
			}
		}
		page, err := h.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
		if err != nil || len(page.Records) != 3 {
			t.Errorf("records %+v, %v", page, err)
		}
	})
}

func TestARecurringTimerFiresEveryOccurrenceInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var running, most int
		sink := &recorder{}
		sink.answer = func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			sink.mu.Lock()
			running++
			most = max(most, running)
			sink.mu.Unlock()
			time.Sleep(300 * time.Millisecond)
			sink.mu.Lock()
			running--
			sink.mu.Unlock()
			return rouse.Outcome{Verdict: rouse.Done}
		}
		h := start(t, mem.New(), sink, timers.Options{})
		first := h.put("r", "@every 1s").Due
		time.Sleep(60*time.Second + 500*time.Millisecond)
		got := sink.got()
		if len(got) != 60 || most != 1 {
			t.Fatalf("%d fires, %d at a time; want 60, one at a time", len(got), most)
		}
		for i, a := range got {
			if want := first.Add(time.Duration(i) * time.Second); a.Due != want {
				t.Errorf("fire %d is of %v, want %v", i, a.Due, want)
			}
		}
	})
}

func TestAFailureIsTriedAgainWithTheSameIDAndAGrowingToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Code: 503, Detail: "busy"}
		}}
		h := start(t, mem.New(), sink, timers.Options{})
		h.put("x", "@after 1s", func(p *timers.Put) {
			p.Spec.Retry = rouse.Retry{Attempts: 3, Interval: time.Second, Jitter: -1}
		})
		time.Sleep(time.Minute)
		got := sink.got()
		if len(got) != 3 {
			t.Fatalf("%d attempts, want 3", len(got))
		}
		for i, a := range got {
			if a.ID != got[0].ID || a.Attempt != uint32(i+1) || i > 0 && a.Token <= got[i-1].Token || a.Last != (i == 2) {
				t.Errorf("attempt %d: %+v", i+1, a.Fire)
			}
		}
		if d := got[2].at.Sub(got[1].at); d < 2*time.Second || d > 2*time.Second+5*time.Millisecond {
			t.Errorf("the second retry came %v after the first", d)
		}
		dead, _, err := h.List(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 10})
		if err != nil || len(dead) != 1 || dead[0].Key.Fire != got[0].ID || dead[0].LastError != "busy" {
			t.Fatalf("dead letters %+v, %v", dead, err)
		}

		sink.answer = nil
		if _, err := h.Redrive(t.Context(), dead[0].Key, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got = sink.got(); len(got) != 4 || got[3].ID != got[0].ID || got[3].Attempt != 1 {
			t.Fatalf("after the redrive: %+v", got)
		}
		if _, err := h.Get(t.Context(), dead[0].Key); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("the dead letter that was delivered is still there: %v", err)
		}
	})
}

func TestNothingStartsAfterAnAcknowledgedDelete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			<-release
			return rouse.Outcome{Verdict: rouse.Failed}
		}}
		h := start(t, mem.New(), sink, timers.Options{})
		h.put("flying", "@after 1s")
		h.put("waiting", "@after 2s")
		time.Sleep(1500 * time.Millisecond)
		d, err := h.Delete(t.Context(), key("flying"), 0)
		if err != nil || !d.InFlight {
			t.Errorf("delete of one in flight: %+v, %v", d, err)
		}
		if d, err = h.Delete(t.Context(), key("waiting"), 0); err != nil || d.InFlight {
			t.Errorf("delete of one that waits: %+v, %v", d, err)
		}
		if _, err = h.Delete(t.Context(), key("waiting"), 0); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("delete of nothing: %v", err)
		}
		close(release)
		time.Sleep(time.Minute)
		if got := sink.got(); len(got) != 1 {
			t.Errorf("%d fires, want the one in flight only", len(got))
		}
	})
}

// A timer whose schedule has ended still exists while one of its occurrences is out, and a delete reports
// that.
func TestDeleteOfAnEndedTimerWithAnOccurrenceOnItsWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			time.Sleep(time.Second)
			return rouse.Outcome{Verdict: rouse.Failed}
		}}
		h := start(t, mem.New(), sink, timers.Options{})
		made := h.put("a", "@every 10s", func(p *timers.Put) { p.Spec.Overlap, p.Spec.MaxOccurrences = rouse.OverlapAllow, 2 })
		time.Sleep(10500 * time.Millisecond)
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Get(t.Context(), key("a")); !errors.Is(err, rouse.ErrNotFound) {
			t.Fatalf("the timer whose last occurrence was skipped: %v", err)
		}
		d, err := h.Delete(t.Context(), key("a"), 0)
		if err != nil || !d.InFlight || d.Generation != made.Generation {
			t.Errorf("delete while its first occurrence is on its way: %+v, %v", d, err)
		}
		if _, err = h.Delete(t.Context(), key("a"), 0); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("delete of nothing: %v", err)
		}
		time.Sleep(time.Hour)
		if got := sink.got(); len(got) != 1 {
			t.Errorf("%d attempts, want the one that was out", len(got))
		}
	})
}

func TestAReplacedTimerFiresAsItsNewGenerationOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			time.Sleep(time.Second)
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		h := start(t, mem.New(), sink, timers.Options{})
		first := h.put("a", "@every 10s")
		time.Sleep(10500 * time.Millisecond) // the first occurrence is out
		res, err := h.Put(t.Context(), []timers.Put{{Key: key("a"), Spec: rouse.Spec{Schedule: "@after 5s", Target: "test:a"}, Mode: timers.CreateOrReplace}})
		if err != nil || res[0].Err != nil || !res[0].Replaced || !res[0].InFlight {
			t.Fatalf("replace of one in flight: %+v, %v", res, err)
		}
		second := res[0].Timer
		if second.Generation <= first.Generation {
			t.Errorf("generation %d after %d", second.Generation, first.Generation)
		}
		time.Sleep(time.Minute)
		got := sink.got()
		if len(got) != 2 || got[0].Generation != first.Generation || got[1].Generation != second.Generation {
			t.Fatalf("fires %+v", got)
		}
		page, err := h.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "a", Limit: 10})
		if err != nil || len(page.Records) != 2 {
			t.Errorf("records %+v, %v: want one of each generation", page.Records, err)
		}
	})
}

func TestPutHonoursItsMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		try := func(mode timers.Mode, rev uint64) error {
			res, err := h.Put(t.Context(), []timers.Put{{Key: key("a"), Spec: rouse.Spec{Schedule: "@after 1h", Target: "test:a"}, Mode: mode, IfRevision: rev}})
			if err != nil {
				t.Fatal(err)
			}
			return res[0].Err
		}
		if err := try(timers.ReplaceOnly, 0); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("replace of nothing: %v", err)
		}
		if err := try(timers.CreateOnly, 0); err != nil {
			t.Error(err)
		}
		if err := try(timers.CreateOnly, 0); !errors.Is(err, rouse.ErrExists) {
			t.Errorf("create of what exists: %v", err)
		}
		tm, _ := h.Get(t.Context(), key("a"))
		if err := try(timers.CreateOrReplace, tm.Revision+1); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("replace with a wrong revision: %v", err)
		}
		if err := try(timers.CreateOrReplace, tm.Revision); err != nil {
			t.Error(err)
		}
		res, err := h.Put(t.Context(), []timers.Put{{Key: key("ok"), Spec: rouse.Spec{Schedule: "@after 1h", Target: "test:a"}},
			{Key: key("bad"), Spec: rouse.Spec{Schedule: "* * *", Target: "test:a"}}})
		if err != nil || res[0].Err != nil || res[1].Err == nil {
			t.Errorf("a bad timer among good ones: %+v, %v", res, err)
		}
	})
}

func TestPauseStopsAndResumeGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "@every 10s")
		time.Sleep(15 * time.Second)
		paused, err := h.Pause(t.Context(), key("a"), "incident", 0)
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := h.Get(t.Context(), key("a")); now.Revision != paused.Revision {
			t.Errorf("pause answered revision %d, it is %d", paused.Revision, now.Revision)
		}
		time.Sleep(time.Minute)
		if n := len(h.sink.got()); n != 1 {
			t.Errorf("%d fires, want the one before the pause", n)
		}
		id, _, err := h.RunNow(t.Context(), key("a"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := h.sink.got(); len(got) != 2 || got[1].ID != id || !got[1].Manual {
			t.Errorf("a run of a paused timer: %+v", got)
		}
		if _, err := h.Resume(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := len(h.sink.got()); n != 3 {
			t.Errorf("%d fires after the resume, want 3", n)
		}
	})
}

func TestARunWhileTheOccurrenceIsOnItsWayDoublesNeither(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			time.Sleep(2 * time.Second)
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		h := start(t, mem.New(), sink, timers.Options{})
		h.put("a", "@every 10s")
		time.Sleep(11 * time.Second)
		if _, _, err := h.RunNow(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		got := sink.got()
		if len(got) != 2 || got[0].Manual || !got[1].Manual || got[1].at.Before(got[0].at.Add(2*time.Second)) {
			t.Errorf("fires %+v", got)
		}
	})
}

func TestAnAcceptedFireIsReportedOrTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Accepted, After: 10 * time.Second}
		}}
		var verdicts [rouse.Expired + 1]atomic.Int32
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Events: engine.Events{
			Concluded: func(_ *rouse.Timer, o rouse.Outcome) { verdicts[o.Verdict].Add(1) },
		}}})
		judged := func() string {
			targets, _ := h.Targets()
			return fmt.Sprintf("%d fires, %d succeeded, %d failed", targets[0].Sent, targets[0].Succeeded, targets[0].Failed)
		}
		for _, name := range []string{"done", "silent", "beats"} {
			h.put(name, "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 2, Interval: time.Second, Jitter: -1} })
		}
		time.Sleep(2 * time.Second)
		fires := map[string]rouse.Fire{}
		for _, a := range sink.got() {
			fires[a.Name] = a.Fire
		}
		if got := judged(); got != "3 fires, 0 succeeded, 0 failed" {
			t.Errorf("before any report: %s", got)
		}
		if _, err := h.Report(t.Context(), key("done"), timers.Report{FireID: fires["done"].ID, Token: fires["done"].Token + 1, Outcome: rouse.Outcome{Verdict: rouse.Done}}); err == nil {
			t.Error("a report with a wrong token was taken")
		}
		if _, err := h.Report(t.Context(), key("done"), timers.Report{FireID: fires["done"].ID, Token: fires["done"].Token, Outcome: rouse.Outcome{Verdict: rouse.Done}}); err != nil {
			t.Error(err)
		}
		for range 3 {
			time.Sleep(8 * time.Second)
			if _, err := h.Report(t.Context(), key("beats"), timers.Report{FireID: fires["beats"].ID, Token: fires["beats"].Token, Outcome: rouse.Outcome{After: 10 * time.Second}}); err != nil {
				t.Errorf("heartbeat: %v", err)
			}
		}
		count := map[string]int{}
		for _, a := range sink.got() {
			count[a.Name]++
		}
		if count["done"] != 1 || count["silent"] != 2 || count["beats"] != 1 {
			t.Errorf("attempts %v, want silent's second one only", count)
		}
		time.Sleep(time.Minute)
		if got := judged(); got != "3 fires, 1 succeeded, 4 failed" {
			t.Errorf("%s, want one that succeeded, and two attempts each of silent and beats that failed", got)
		}
		if done, failed := verdicts[rouse.Done].Load(), verdicts[rouse.Failed].Load(); done != 1 || failed != 4 {
			t.Errorf("outcomes of accepted attempts: %d done, %d failed, want 1 and 4", done, failed)
		}
		if n, _ := h.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateDead}}); n != 2 {
			t.Errorf("%d dead letters, want silent and beats", n)
		}
	})
}

func TestWhatDoesNotFitInMemoryFiresAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{Engine: engine.Options{MaxRows: 100, Ahead: 10 * time.Second}})
		for i := range 1000 {
			// Later ones first, so that they fill the window when the earlier ones arrive.
			h.put("t"+string(rune('0'+i%10))+string(rune('a'+i/10%26))+string(rune('a'+i/260)), "@after "+(9*time.Second-time.Duration(i)*8*time.Millisecond).String())
			if s := h.Stats(); s.Window > 100 {
				t.Fatalf("%d rows in memory", s.Window)
			}
		}
		time.Sleep(30 * time.Second)
		got := h.sink.got()
		seen := map[string]int{}
		for _, a := range got {
			seen[a.Name]++
			if late := a.at.Sub(a.Due.Time()); late < 0 || late > time.Second {
				t.Errorf("%s fired %v after it was due", a.Name, late)
			}
		}
		if len(got) != 1000 || len(seen) != 1000 {
			t.Errorf("%d fires of %d timers, want 1000", len(got), len(seen))
		}
	})
}

func TestAHangingTargetDelaysOnlyItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if f.Spec.Target == "test:dead" {
				select {
				case <-ctx.Done():
				case <-time.After(30 * time.Second):
				}
				return rouse.Outcome{Verdict: rouse.Failed}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{MaxRows: 200, MaxDeliveries: 100, Grace: time.Second}})
		for i := range 2000 {
			h.put("dead"+time.Duration(i).String(), "@after 1s", func(p *timers.Put) { p.Spec.Target = "test:dead" })
		}
		for i := range 300 {
			h.put("live"+time.Duration(i).String(), "@after "+(2*time.Second+time.Duration(i)*100*time.Millisecond).String())
		}
		time.Sleep(40 * time.Second)
		live := 0
		for _, a := range sink.got() {
			if a.Spec.Target == "test:a" {
				live++
				if late := a.at.Sub(a.Due.Time()); late > 3*time.Second {
					t.Errorf("%s came %v late because of a dead target", a.Name, late)
				}
			}
		}
		if live != 300 {
			t.Errorf("%d of 300 fires for the living target", live)
		}
	})
}

func TestStoppingWaitsForDeliveriesAndARestartFiresNothingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			time.Sleep(3 * time.Second)
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		h := start(t, store, sink, timers.Options{})
		h.put("flying", "@after 1s")
		h.put("later", "@after 20s")
		time.Sleep(2 * time.Second)
		h.stop()
		if _, err := h.Put(t.Context(), []timers.Put{{Key: key("x"), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a"}}}); err == nil {
			t.Error("a stopped engine took a timer")
		}
		start(t, store, sink, timers.Options{})
		time.Sleep(time.Minute)
		if got := sink.got(); len(got) != 2 || got[0].Name != "flying" || got[1].Name != "later" {
			t.Errorf("fires %+v", got)
		}
	})
}

func TestDeliveriesThatOutlastTheGraceFireAgainAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			<-ctx.Done()
			return rouse.Outcome{Verdict: rouse.Deferred, After: time.Millisecond}
		}}
		h := start(t, store, sink, timers.Options{Engine: engine.Options{Grace: 2 * time.Second}})
		h.put("stuck", "@after 1s")
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		h.stop()
		if d := time.Since(began); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("the stop took %v, with a grace of 2 s", d)
		}
		sink.answer = nil
		start(t, store, sink, timers.Options{})
		time.Sleep(time.Second)
		if got := sink.got(); len(got) != 2 || got[1].ID != got[0].ID {
			t.Errorf("fires %+v", got)
		}
	})
}

func TestAfterAnOutageTheLatestOccurrenceFires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		h := start(t, store, &recorder{}, timers.Options{})
		h.put("a", "@every 10s")
		h.stop()
		time.Sleep(65 * time.Second)
		sink := &recorder{}
		h = start(t, store, sink, timers.Options{})
		time.Sleep(time.Second)
		got := sink.got()
		if len(got) != 1 {
			t.Fatalf("%d fires, want the latest one", len(got))
		}
		page, err := h.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "a", Limit: 10})
		if err != nil || len(page.Records) != 2 || page.Records[1].Ending != rouse.EndMissed || page.Records[1].Count != 5 {
			t.Errorf("records %+v, %v", page.Records, err)
		}
	})
}

// claimStrategy is the strategy of nodes that claim rows with holds from shared buckets.
type claimStrategy struct {
	span    time.Duration
	buckets uint32
}

func (h claimStrategy) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return rouse.Grant{Buckets: []uint32{0, 1}[:max(1, h.buckets)], Hold: h.span}, func(bool) {}, ctx.Err()
}

func TestNodesThatHoldShareTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sinks := []*recorder{{}, {}}
		var nodes []*timers.Timers
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for _, s := range sinks {
			e := timers.New(store, claimStrategy{span: 10 * time.Second}, s, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Ahead: 2 * time.Second}})
			wg.Go(func() { _ = e.Run(ctx) })
			nodes = append(nodes, e)
		}
		synctest.Wait()
		for i := range 100 {
			res, err := nodes[i%2].Put(ctx, []timers.Put{{Key: key("t" + time.Duration(i).String()), Spec: rouse.Spec{Schedule: "@after " + (10*time.Second + time.Duration(i)*50*time.Millisecond).String(), Target: "test:a"}}})
			if err != nil || res[0].Err != nil {
				t.Fatal(err, res)
			}
		}
		time.Sleep(30 * time.Second)
		cancel()
		wg.Wait()
		seen := map[string]int{}
		for _, s := range sinks {
			for _, a := range s.got() {
				seen[a.Name]++
				if a.at.Before(a.Due.Time()) || a.at.Sub(a.Due.Time()) > 5*time.Millisecond {
					t.Errorf("%s fired at %v, due %v", a.Name, a.at, a.Due)
				}
			}
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s fired %d times", name, n)
			}
		}
		if len(seen) != 100 {
			t.Errorf("%d of 100 timers fired", len(seen))
		}
	})
}

func TestAStoreThatFailsMakesTheEngineUnhealthy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &faultyConn{Shared: mem.New(), rnd: rand.New(rand.NewPCG(1, 1))}
		h := start(t, w, &recorder{}, timers.Options{Engine: engine.Options{Grace: time.Second}})
		h.put("a", "@every 1s")
		time.Sleep(3 * time.Second)
		if err := h.Healthy(); err != nil {
			t.Errorf("all is well, but: %v", err)
		}
		w.cut.Store(true)
		time.Sleep(10 * time.Second)
		if err := h.Healthy(); err == nil {
			t.Error("no commit succeeds, and the engine reports healthy")
		}
		w.cut.Store(false)
		time.Sleep(10 * time.Second)
		if err := h.Healthy(); err != nil {
			t.Errorf("the store is back, but: %v", err)
		}
	})
}

func TestARowThatCannotBeReadTakesNoOtherWithIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		at := rouse.At(time.Now().Add(time.Second))
		var changes []rouse.Change
		for i := range 10 {
			row := rouse.Row{Key: key("damaged" + time.Duration(i).String()), Visible: at + rouse.Instant(i), Due: at, State: rouse.StateScheduled, Body: []byte{0xff}}
			changes = append(changes, rouse.Change{Key: row.Key, If: rouse.NoRow, To: &row})
		}
		if _, err := store.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		h := start(t, store, &recorder{}, timers.Options{})
		time.Sleep(2 * time.Second) // the damaged rows have come off the wheel
		for i := range 40 {
			h.put("whole"+time.Duration(i).String(), "@after "+(time.Second+time.Duration(i%20)*time.Millisecond).String())
		}
		time.Sleep(5 * time.Second)
		if n := len(h.sink.got()); n != 40 {
			t.Errorf("%d of 40 timers fired", n)
		}
		if n, _ := h.Count(t.Context(), rouse.Query{}); n != 10 {
			t.Errorf("%d rows are left, want the 10 that cannot be decoded", n)
		}
	})
}

// fullStore refuses batches that contain creates, after a delay.
type fullStore struct{ rouse.Store }

func (s fullStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(time.Second)
	for i := range changes {
		if changes[i].If == rouse.NoRow && changes[i].To != nil {
			return nil, rouse.ErrFull
		}
	}
	return s.Store.Apply(ctx, changes)
}

func TestAFullStoreHoldsUpCreatesOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		h := start(t, store, &recorder{}, timers.Options{})
		for _, name := range []string{"first", "paused", "deleted", "fires"} {
			h.put(name, "@after 10s")
		}
		h.stop()
		h = start(t, fullStore{store}, &recorder{}, timers.Options{})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = h.Pause(t.Context(), key("first"), "", 0) }) // during its write, the others queue up
		synctest.Wait()
		wg.Go(func() {
			res, err := h.Put(t.Context(), []timers.Put{{Key: key("new"), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a"}}})
			if err != nil || res[0].Err != rouse.ErrFull {
				t.Errorf("create: %+v, %v", res, err)
			}
		})
		wg.Go(func() {
			if _, err := h.Pause(t.Context(), key("paused"), "", 0); err != nil {
				t.Errorf("pause: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := h.Delete(t.Context(), key("deleted"), 0); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		wg.Wait()
		time.Sleep(time.Minute)
		if got := h.sink.got(); len(got) != 1 || got[0].Name != "fires" {
			t.Errorf("fires %+v", got)
		}
		if _, err := h.Get(t.Context(), key("fires")); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("what fired was not settled: %v", err)
		}
	})
}

func TestAScheduleThatEndsDuringAPauseEndsItsTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "R3/2000-01-01T00:01:00Z/PT1M")
		if _, err := h.Pause(t.Context(), key("a"), "", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if tm, err := h.Resume(t.Context(), key("a")); err != nil || tm.Key != key("a") {
			t.Errorf("resume: %+v, %v", tm, err)
		}
		if _, err := h.Get(t.Context(), key("a")); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("a timer that has no time left is still there: %v", err)
		}
		page, err := h.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "a", Limit: 9})
		if err != nil || len(page.Records) != 1 || page.Records[0].Ending != rouse.EndSkipped || page.Records[0].Count != 3 {
			t.Errorf("records %+v, %v", page.Records, err)
		}
	})
}
