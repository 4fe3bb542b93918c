package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// Hostile tenants: the namespace "bad" exhausts one resource, and the timers of "good" still fire on time.
// Time is virtual, so the cost of a schedule is simulated: evaluating one sleeps in proportion to its steps.
// (With the real binary, its memory and CPU: test/crash/hostile_test.go.)

// stepTakes is the simulated duration of a step: ten times the real one.
const stepTakes = 5 * time.Microsecond

// slowSchedule is a schedule whose evaluation takes time.
type slowSchedule struct {
	rouse.Schedule
	looks atomic.Int64
}

func (s *slowSchedule) Look(after rouse.Instant, most int) (next rouse.Instant, ok bool, steps int) {
	next, ok, steps = s.Schedule.(rouse.Metered).Look(after, most)
	switch {
	case steps > engine.QuickSteps+1: // a cheaper evaluation may run under the mutex of the memory, where a bubble must not sleep
		time.Sleep(time.Duration(steps) * stepTakes)
	case s.looks.Add(1)%(2*engine.QuickSteps) == 0:
		time.Sleep(2 * engine.QuickSteps * stepTakes)
	}
	return next, ok, steps
}

func (s *slowSchedule) Next(after rouse.Instant) (rouse.Instant, bool) {
	next, ok, _ := s.Look(after, rouse.MaxScheduleSteps)
	return next, ok
}

func compileSlow(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
	s, err := schedule.Compile(spec, in)
	if err != nil || in.Key.Namespace != "bad" {
		return s, err
	}
	return &slowSchedule{Schedule: s}, nil
}

// hostile starts an engine with a hundred timers in "good", each firing every second.
func hostile(t *testing.T, store rouse.Store, o timers.Options) *harness {
	o.Compile = compileSlow
	h := start(t, store, &recorder{}, o)
	for i := range 100 {
		h.put(fmt.Sprintf("good-%d", i), "@every 1s", in("good"))
	}
	return h
}

func in(namespace string) func(*timers.Put) {
	return func(p *timers.Put) { p.Key.Namespace = namespace }
}

// wantUndelayed fails the test if a timer of "good" was late or did not fire in the last seconds.
func (h *harness) wantUndelayed(last time.Duration) {
	h.t.Helper()
	var lags []time.Duration
	now := time.Now()
	for _, a := range h.sink.got() {
		if a.Namespace == "good" && now.Sub(a.Due.Time()) <= last {
			lags = append(lags, a.at.Sub(a.Due.Time()))
		}
	}
	slices.Sort(lags)
	if want := 100 * (int(last/time.Second) - 1); len(lags) < want {
		h.t.Errorf("%d fires of the other namespace in %v, want %d or more", len(lags), last, want)
	}
	if len(lags) == 0 {
		return
	}
	if p99 := lags[len(lags)*99/100]; p99 > 10*time.Millisecond {
		h.t.Errorf("the other namespace's p99 lag is %v", p99)
	}
}

// stored writes a timer as an older version could have stored it, without today's checks.
func (h *harness) stored(name string, spec rouse.Spec, due time.Time) {
	h.t.Helper()
	at := rouse.At(due)
	tm := rouse.Timer{Key: rouse.Key{Namespace: "bad", Name: name}, Spec: spec, Due: at, Visible: at, Created: at, Updated: at, Anchor: at}
	row := tm.Row()
	if _, err := h.store.Apply(context.Background(), []rouse.Change{{Key: tm.Key, To: &row}}); err != nil {
		h.t.Fatal(err)
	}
}

func TestACostlyScheduleIsRefusedWithItsCost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hostile(t, mem.New(), timers.Options{})
		for name, spec := range map[string]rouse.Spec{
			"at once":        {Schedule: "@every 2m", Except: []string{"*/2 * * * *"}},
			"later":          {Schedule: "@every 2m", Except: []string{"*/2 * * 6 *"}},
			"by a calendar":  {Schedule: "0 9 * * *", Also: []string{"@every 2m"}, Except: []string{"*/2 * * * *"}, Calendar: rouse.CalendarRule{Off: []string{rouse.Weekends}, Shift: rouse.ShiftNext}},
			"of its own due": {Schedule: "@every 2m", Except: []string{"*/2 * * * *"}, End: rouse.At(time.Now().AddDate(20, 0, 0))},
		} {
			spec.Target = "test:bad"
			put := func() error {
				res, err := h.Put(t.Context(), []timers.Put{{Key: rouse.Key{Namespace: "bad", Name: "x"}, Spec: spec}})
				if err != nil {
					return err
				}
				return res[0].Err
			}
			preview := func() error {
				_, err := h.Preview(t.Context(), rouse.Key{Namespace: "bad"}, spec, 0, 10)
				return err
			}
			reschedule := func() error {
				h.put("y", "@every 1m", in("bad"), func(p *timers.Put) { p.Mode = timers.CreateOrReplace })
				_, err := h.Reschedule(t.Context(), rouse.Key{Namespace: "bad", Name: "y"}, spec, 0, false)
				return err
			}
			for door, do := range map[string]func() error{"put": put, "preview": preview, "reschedule": reschedule} {
				err := do()
				inv, ok := err.(*rouse.Invalid)
				if !ok || inv.Problems[0].Field != "schedule" || inv.Problems[0].Cure == "" {
					t.Errorf("%s by %s: %v", name, door, err)
				}
			}
		}
		h.wantUndelayed(time.Second)
	})
}

func TestStoredTimersThatCostTooMuchArePausedAndDelayNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stopped := map[rouse.PauseCause]int{}
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{Poll: time.Second, Events: engine.Events{Paused: func(t *rouse.Timer) { stopped[t.PauseCause]++ }}}})
		began := time.Now()
		for i := range 300 {
			h.stored(fmt.Sprintf("c%d", i), rouse.Spec{Schedule: "@every 2m", Target: "test:bad", Except: []string{"*/2 * * * *"}}, began.Add(20*time.Second))
		}
		time.Sleep(time.Minute)
		h.wantUndelayed(55 * time.Second)
		paused, _, err := h.List(t.Context(), rouse.Query{Namespace: "bad", States: []rouse.State{rouse.StatePaused}, Limit: 1000})
		if err != nil || len(paused) != 300 {
			t.Fatalf("%d are paused, want 300: %v", len(paused), err)
		}
		if tm := paused[0]; tm.Due != rouse.UnknownDue || tm.Reason == "" || tm.PauseCause != rouse.PauseScheduleCost {
			t.Errorf("%+v", tm)
		}
		if stopped[rouse.PauseScheduleCost] != 300 || len(stopped) != 1 {
			t.Errorf("counted %v", stopped)
		}
		records := h.recordsIn("bad", "c0")
		if len(records) != 1 || records[0].Ending != rouse.EndFired {
			t.Errorf("%+v", records)
		}
		resumed, err := h.Resume(t.Context(), paused[0].Key)
		if err != nil || !resumed.Paused {
			t.Errorf("resumed: %+v, %v", resumed, err)
		}
	})
}

func (h *harness) recordsIn(namespace, name string) []rouse.Record {
	h.t.Helper()
	page, err := h.Records(context.Background(), rouse.RecordQuery{Namespace: namespace, Name: name, Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	return page.Records
}

// TestSchedulesAtTheLimitDelayTheirOwnNamespaceOnly has hundreds of timers whose every evaluation takes most
// of the allowed steps.
func TestSchedulesAtTheLimitDelayTheirOwnNamespaceOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hostile(t, mem.New(), timers.Options{})
		// Each evaluation goes through the year of days that are moved to this one.
		if _, _, err := h.PutCalendar(t.Context(), rouse.Calendar{Namespace: "bad", Name: "today", Days: []rouse.Day{{Date: 10_957}}}); err != nil {
			t.Fatal(err)
		}
		for i := range 600 { // an evaluation of each takes longer than the second until the next one
			h.put(fmt.Sprintf("b%d", i), "cron6:* * * * * *", in("bad"), func(p *timers.Put) {
				p.Spec.Calendar = rouse.CalendarRule{Only: []string{"today"}, Shift: rouse.ShiftPrevious}
			})
		}
		h.put("b", "@every 1s", in("third"))
		time.Sleep(6 * time.Second)
		h.wantUndelayed(5 * time.Second)
		if v := h.Evaluations(); v.Steps < 100_000 {
			t.Errorf("%+v: the schedules are not expensive", v)
		}
	})
}

// TestCatchingUpDelaysItsOwnNamespaceOnly restarts after an outage of 4 hours, 26 with ROUSE_LONG=1.
func TestCatchingUpDelaysItsOwnNamespaceOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		h := hostile(t, store, timers.Options{})
		for i := range 20 {
			h.put(fmt.Sprintf("s%d", i), "@every 1s", in("bad"))
			h.put(fmt.Sprintf("x%d", i), "@every 1s", in("bad"), func(p *timers.Put) { p.Spec.Except = []string{"*/7 * * * *", "2024-02-29"} })
			h.put(fmt.Sprintf("o%d", i), "@every 1s", in("bad"), func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapSkip })
		}
		h.put("other", "@every 1s", in("third"), func(p *timers.Put) { p.Spec.Except = []string{"2024-02-29"} })
		time.Sleep(3 * time.Second)
		h.stop()
		away := time.Duration(poll.Rounds(4, 26)) * time.Hour
		time.Sleep(away)
		sink := h.sink
		h = start(t, store, sink, timers.Options{Compile: compileSlow})
		time.Sleep(5 * time.Second)
		h.wantUndelayed(4 * time.Second)
		time.Sleep(time.Minute)
		if n := h.Evaluations().Count; n < 40 {
			t.Errorf("%d evaluations", n)
		}
		// The count of missed occurrences is exact.
		for _, name := range []string{"s0", "s19", "x7", "o3"} {
			var first, last rouse.Instant
			var missed uint32
			for _, r := range h.recordsIn("bad", name) { // one for each cause, newest first
				if r.Ending == rouse.EndMissed {
					first, last, missed = r.Due, max(last, r.Due, r.LastDue), missed+max(r.Count, 1)
				}
			}
			if want := uint32(last.Sub(first)/time.Second) + 1; first == 0 || last.Sub(first) < away-2*time.Minute || name[0] != 'x' && missed != want {
				t.Errorf("%s: %d were missed from %v to %v, want %d", name, missed, first, last, want)
			}
		}
	})
}

// TestAnOccurrenceThatOverlapsIsCountedOnce has timers whose step is computed twice before it is written: it
// is too expensive for the settle loop and is then evaluated in turn.
func TestAnOccurrenceThatOverlapsIsCountedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{Engine: engine.Options{MaxOverlap: 1000}})
		h.sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			<-ctx.Done()
			return rouse.Outcome{Verdict: rouse.Failed}
		})
		if _, _, err := h.PutCalendar(t.Context(), rouse.Calendar{Namespace: "n", Name: "today", Days: []rouse.Day{{Date: 10_957}}}); err != nil {
			t.Fatal(err)
		}
		h.put("a", "cron6:* * * * * *", func(p *timers.Put) {
			p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, rouse.Retry{Timeout: time.Hour}
			p.Spec.Calendar = rouse.CalendarRule{Only: []string{"today"}, Shift: rouse.ShiftPrevious} // an evaluation goes through a year of days
		})
		time.Sleep(30*time.Second + 500*time.Millisecond)
		n, err := h.Count(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateFiring}})
		counted := h.InProgress(key("a"))
		if err != nil || n < 25 || counted != int(n) {
			t.Errorf("%d are counted, %d are in progress: %v", counted, n, err)
		}
		if v := h.Evaluations(); v.Count < 25 {
			t.Errorf("%+v: the steps were not made again", v)
		}
	})
}

// TestOverlappingOccurrencesAreBounded has timers that come due every millisecond and whose target never
// answers.
func TestOverlappingOccurrencesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 50
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{MaxOverlap: most}})
		h.sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if f.Namespace == "bad" {
				<-ctx.Done()
				return rouse.Outcome{Verdict: rouse.Failed}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		const many = 5
		for i := range many {
			h.put(fmt.Sprintf("b%d", i), "@every 1ms", in("bad"), func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		}
		time.Sleep(20 * time.Second)
		h.wantUndelayed(15 * time.Second)
		n, err := h.Count(t.Context(), rouse.Query{Namespace: "bad", States: []rouse.State{rouse.StateFiring}})
		if err != nil || n > many*most || n < many*most/2 {
			t.Errorf("%d occurrences are in progress, %v", n, err)
		}
		records := h.recordsIn("bad", "b0")
		var skipped uint32
		for _, r := range records {
			if r.Ending != rouse.EndSkipped || r.Cause != rouse.CauseOverlapLimit {
				t.Fatalf("%+v", r)
			}
			skipped += max(r.Count, 1)
		}
		if len(records) < 10 || len(records) > 100 || skipped < 15_000 {
			t.Errorf("%d records of %d occurrences", len(records), skipped)
		}
		if h.Crowds().Overlaps == 0 {
			t.Error("nothing is counted")
		}
	})
}

// TestDeadLettersOfATimerAreBounded has a timer whose receiver no longer exists.
func TestDeadLettersOfATimerAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{DeadPerTimer: 20}})
		h.sink.answers(func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Namespace == "bad" {
				return rouse.Outcome{Verdict: rouse.Rejected}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		h.put("b", "@every 1s", in("bad"))
		h.put("few", "@every 20s", in("bad"))
		time.Sleep(100*time.Second + 500*time.Millisecond)
		h.wantUndelayed(90 * time.Second)
		letters, _, err := h.List(t.Context(), rouse.Query{Namespace: "bad", Name: "b", States: []rouse.State{rouse.StateDead}, Limit: 1000})
		if err != nil || len(letters) < 20 || len(letters) > 25 {
			t.Fatalf("%d dead letters, %v", len(letters), err)
		}
		for _, l := range letters {
			if time.Since(l.Due.Time()) > 25*time.Second {
				t.Errorf("the one of %v is kept, of %d", l.Due, len(letters))
			}
		}
		if n, err := h.Count(t.Context(), rouse.Query{Namespace: "bad", Name: "few", States: []rouse.State{rouse.StateDead}}); err != nil || n != 5 {
			t.Errorf("%d dead letters of another timer, %v", n, err)
		}
		if n := h.Crowds().Dropped; n < 100-25 {
			t.Errorf("%d are counted as dropped", n)
		}
		if n := len(h.recordsIn("bad", "b")); n != 100 {
			t.Errorf("%d records", n)
		}
	})
}

// otherTrims is a store in which another node deletes dead letters beyond a limit each time that they have
// been counted.
type otherTrims struct {
	rouse.Store
	most int

	mu      sync.Mutex
	reached bool // there were as many
	least   int  // since then
}

var deadQuery = rouse.Query{Namespace: "bad", Name: "b", States: []rouse.State{rouse.StateDead}, Limit: 1000}

func (o *otherTrims) Count(ctx context.Context, q rouse.Query) (int64, error) {
	n, err := o.Store.Count(ctx, q)
	if err != nil || !slices.Equal(q.States, deadQuery.States) || n <= int64(o.most) {
		return n, err
	}
	page, err := o.List(ctx, deadQuery)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(page.Rows, func(a, b rouse.Row) int { return cmp.Compare(a.Due, b.Due) })
	var changes []rouse.Change
	for i := range page.Rows[:max(0, len(page.Rows)-o.most)] {
		changes = append(changes, rouse.Change{Key: page.Rows[i].Key, If: rouse.AnyRevision})
	}
	_, err = o.Store.Apply(ctx, changes)
	return n, err
}

func (o *otherTrims) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	results, err := o.Store.Apply(ctx, changes)
	n, _ := o.Store.Count(ctx, deadQuery)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reached {
		o.least = min(o.least, int(n))
	} else if int(n) == o.most {
		o.reached, o.least = true, o.most
	}
	return results, err
}

// TestTwoNodesThatTrimKeepEnoughDeadLetters: another node deletes what this one was about to.
func TestTwoNodesThatTrimKeepEnoughDeadLetters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &otherTrims{Store: mem.New(), most: 20}
		h := start(t, store, &recorder{}, timers.Options{Engine: engine.Options{DeadPerTimer: store.most}})
		h.sink.answers(func(context.Context, rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Rejected} })
		h.put("b", "@every 1s", in("bad"))
		time.Sleep(100 * time.Second)
		store.mu.Lock()
		defer store.mu.Unlock()
		if !store.reached || store.least < store.most {
			t.Errorf("only %d dead letters were kept, of %d", store.least, store.most)
		}
	})
}

func TestTimersThatComeTooOftenAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{MinInterval: time.Second})
		h.put("ok", "@every 1s")
		for i, spec := range []rouse.Spec{
			{Schedule: "@every 999ms"}, {Schedule: "PT0.5S"}, {Schedule: "@every 1h", Also: []string{"@every 10ms"}},
			{Schedule: "cron6:* * * * * *", Also: []string{"@every 1500ms"}},
		} {
			spec.Target = "test:a"
			put := func() error {
				res, err := h.Put(t.Context(), []timers.Put{{Key: key(fmt.Sprint("x", i)), Spec: spec}})
				if err == nil {
					err = res[0].Err
				}
				return err
			}
			preview := func() error {
				_, err := h.Preview(t.Context(), key("x"), spec, 0, 3)
				return err
			}
			reschedule := func() error {
				_, err := h.Reschedule(t.Context(), key("ok"), spec, 0, false)
				return err
			}
			restore := func() error {
				now := rouse.At(time.Now())
				res, err := h.Import(t.Context(), []rouse.Timer{{Key: key("y"), Spec: spec, Due: now + 1000, Created: now, Anchor: now}}, timers.CreateOnly)
				if err == nil {
					err = res[0].Err
				}
				return err
			}
			for door, do := range map[string]func() error{"put": put, "preview": preview, "reschedule": reschedule, "import": restore} {
				inv, ok := do().(*rouse.Invalid)
				if !ok || inv.Problems[0].Field != "schedule" || !strings.Contains(inv.Problems[0].Cure, "min-interval") {
					t.Errorf("%+v by %s: %v", spec, door, inv)
				}
			}
		}
		free := start(t, mem.New(), &recorder{}, timers.Options{MinInterval: time.Second, AnyInterval: []string{"free:"}})
		for target, taken := range map[string]bool{"free:a": true, "test:a": false, "a:free:": false} {
			res, err := free.Put(t.Context(), []timers.Put{{Key: key(target), Spec: rouse.Spec{Schedule: "@every 1ms", Target: target}}})
			if err != nil || (res[0].Err == nil) != taken {
				t.Errorf("%s: %v, %v", target, err, res)
			}
		}
		for i, spec := range []rouse.Spec{ // limited in a burst, or on average
			{Schedule: "R5/PT0.1S"}, {Schedule: "@hourly", Also: []string{"0 * * * *", "cron6:1 0 * * * *"}},
		} {
			h.put(fmt.Sprint("few", i), spec.Schedule, func(p *timers.Put) { p.Spec.Also = spec.Also })
		}
	})
}

// stuckSchedule is a schedule whose evaluation blocks until it is released.
type stuckSchedule struct {
	rouse.Schedule
	release chan struct{}
}

func (s stuckSchedule) Next(after rouse.Instant) (rouse.Instant, bool) {
	<-s.release
	return s.Schedule.Next(after)
}

// TestHealthWatchesTheSettlingLoop blocks a schedule in the settle loop, and one in the evaluation loop.
func TestHealthWatchesTheSettlingLoop(t *testing.T) {
	for name, exceptions := range map[string][]string{"the settling loop": nil, "the evaluation of a schedule": {"2024-02-29"}} {
		bubble(t, func(t *testing.T) {
			release, armed := make(chan struct{}), atomic.Bool{}
			h := start(t, mem.New(), &recorder{}, timers.Options{Compile: func(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
				s, err := schedule.Compile(spec, in)
				if err == nil && armed.Load() {
					s = stuckSchedule{s, release}
				}
				return s, err
			}})
			h.put("a", "@every 10s", func(p *timers.Put) { p.Spec.Except = exceptions })
			time.Sleep(5 * time.Second)
			if err := h.Healthy(); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			time.Sleep(30 * time.Second)
			if err := h.Healthy(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
			close(release)
			time.Sleep(time.Second)
			if err := h.Healthy(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestATimerThatOnlyDiesPausesItself has timers whose target rejects every fire.
func TestATimerThatOnlyDiesPausesItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var stopped []rouse.Timer
		h := hostile(t, mem.New(), timers.Options{Engine: engine.Options{Events: engine.Events{Paused: func(t *rouse.Timer) {
			mu.Lock()
			defer mu.Unlock()
			stopped = append(stopped, *t)
		}}}})
		h.sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if f.Namespace == "bad" {
				return rouse.Outcome{Verdict: rouse.Rejected, Code: 404, Detail: "no such page"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		h.put("b", "@every 1s", in("bad"), func(p *timers.Put) { p.Spec.PauseAfter = 5 })
		key := rouse.Key{Namespace: "bad", Name: "b"}
		time.Sleep(time.Minute)
		h.wantUndelayed(50 * time.Second)
		check := func(dead int64, pauses int) {
			t.Helper()
			tm, err := h.Get(t.Context(), key)
			if err != nil || !tm.Paused || tm.PauseCause != rouse.PauseDeadLetters || tm.ConsecutiveDead != 5 {
				t.Fatalf("%+v, %v", tm, err)
			}
			n, err := h.Count(t.Context(), rouse.Query{Namespace: "bad", States: []rouse.State{rouse.StateDead}})
			if err != nil || n != dead {
				t.Errorf("%d dead letters, want %d: %v", n, dead, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(stopped) != pauses || stopped[pauses-1].Key != key {
				t.Errorf("reported %+v", stopped)
			}
		}
		check(5, 1)
		x, err := h.Explain(t.Context(), key, 0)
		if err != nil || !strings.Contains(x.Summary, "dead_letters") || !strings.Contains(x.Summary, "its last 5 occurrences ended as dead letters: no such page") {
			t.Errorf("explained as %q, %v", x.Summary, err)
		}
		if _, err := h.Resume(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		check(10, 2)
	})
}

// slowRecords is a shared store that reads records slowly.
type slowRecords struct{ rouse.Shared }

func (s slowRecords) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	time.Sleep(3 * time.Millisecond)
	return s.Shared.Records(ctx, q)
}

// TestDeletedFiresDelayTheirOwnNamespaceOnly deletes many timers during their attempts. Another node may have
// recorded each of these occurrences, so each needs a read of the store when it ends.
func TestDeletedFiresDelayTheirOwnNamespaceOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 1000
		release := make(chan struct{})
		sink := &recorder{lane: func(ns string, _ *rouse.Spec) rouse.Lane { return rouse.Lane{Name: ns, Limit: many, Batch: 1} },
			answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
				if f.Namespace == "bad" {
					<-release
				}
				return rouse.Outcome{Verdict: rouse.Done}
			}}
		h := join(t, slowRecords{mem.New()}, newManual(0, 1), sink, timers.Options{})
		bad := make([]rouse.Timer, many)
		for i := range bad {
			bad[i] = h.put(fmt.Sprintf("b%d", i), "@after 1s", in("bad"))
		}
		time.Sleep(2 * time.Second)
		for _, err := range h.DeleteMany(t.Context(), bad) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			h.put(fmt.Sprintf("good-%d", i), "@every 1s", in("good"))
		}
		time.Sleep(900 * time.Millisecond)
		close(release)
		time.Sleep(5 * time.Second)
		h.wantUndelayed(5 * time.Second)
		if n := len(h.recordsIn("bad", "")); n != many {
			t.Errorf("%d records of %d deleted timers", n, many)
		}
	})
}
