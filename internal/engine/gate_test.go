package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// someLimits are named limits that a test changes.
type someLimits struct {
	mu      sync.Mutex
	list    map[string]rouse.Limit
	unknown bool
	version atomic.Uint64
	share   float64 // of limits of targets: all of it unless it is set
}

func newLimits(list ...rouse.Limit) *someLimits {
	s := &someLimits{list: map[string]rouse.Limit{}, share: 1}
	s.setLimits(list...)
	return s
}

func (s *someLimits) setLimits(list ...rouse.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		l.Revision = s.version.Add(1)
		s.list[l.Name] = l
	}
	s.version.Add(1)
}

func (s *someLimits) removeLimit(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.list, name)
	s.version.Add(1)
}

func (s *someLimits) Limit(_, name string) (rouse.Limit, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[name], !s.unknown
}

func (s *someLimits) Version() uint64 { return s.version.Load() }

func (s *someLimits) HasTargets(string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.list {
		if rouse.IsTargetLimit(name) {
			return true
		}
	}
	return false
}

func (s *someLimits) Share(_, name string) (most int, part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(float64(s.list[name].Concurrency) * s.share), s.share
}

func (s *someLimits) Holds() uint64 { return s.version.Load() }

func (s *someLimits) setShare(part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share = part
	s.version.Add(1)
}

// withLimit is an edit of a put.
func withLimit(name, key string) func(*timers.Put) {
	return func(p *timers.Put) { p.Spec.Limit, p.Spec.LimitKey = name, key }
}

// counted counts how many fires are with a sink at a time, by their key.
type counted struct {
	mu        sync.Mutex
	now, most map[string]int
}

func newCounted() *counted { return &counted{now: map[string]int{}, most: map[string]int{}} }

// answerAfter returns an answer that takes a while.
func (c *counted) answerAfter(d time.Duration) func(context.Context, rouse.Fire) rouse.Outcome {
	return func(_ context.Context, f rouse.Fire) rouse.Outcome {
		c.addRunning(f.Spec.Limit+f.Spec.LimitKey, 1)
		time.Sleep(d)
		c.addRunning(f.Spec.Limit+f.Spec.LimitKey, -1)
		return rouse.Outcome{Verdict: rouse.Done}
	}
}

func (c *counted) addRunning(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[key] += n
	c.most[key] = max(c.most[key], c.now[key])
}

func (c *counted) clearMost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.most)
}

func (c *counted) mostOf(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[key]
}

func TestALimitBoundsWhatIsInProgress(t *testing.T) {
	for _, perKey := range []bool{false, true} {
		t.Run(fmt.Sprint(perKey), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCounted()
				sink := &recorder{answer: c.answerAfter(time.Second)}
				limits := newLimits(rouse.Limit{Name: "a", Concurrency: 3, PerKey: perKey})
				h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
				keys := []string{""}
				if perKey {
					keys = []string{"x", "y"}
				}
				began := time.Now()
				for i := range 30 {
					h.put(fmt.Sprint(i), "@after 1s", withLimit("a", keys[i%len(keys)]))
				}
				h.put("free", "@after 1s")
				time.Sleep(time.Minute)
				got := sink.got()
				if len(got) != 31 {
					t.Fatalf("%d fires", len(got))
				}
				for _, key := range keys {
					if most := c.mostOf("a" + key); most != 3 {
						t.Errorf("%d at a time for key %q", most, key)
					}
				}
				for _, a := range got {
					if late := a.at.Sub(began); a.Name == "free" && late > 1100*time.Millisecond {
						t.Errorf("the one without a limit waited %v", late)
					}
				}
				last, want := got[len(got)-1].at.Sub(began), time.Duration(30/3/len(keys))*time.Second
				if last < want-50*time.Millisecond || last > want+time.Second {
					t.Errorf("the last one began after %v, want %v", last, want)
				}
			})
		})
	}
}

// TestALimitCountsForKeysOfTimers: timers whose keys are taken from their labels count by what the labels
// are, next to those whose key is written out, and after a change by the new one.
func TestALimitCountsForKeysOfTimers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: busyFor(time.Second)}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1, PerKey: true})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		of := func(customer string) func(*timers.Put) {
			return func(p *timers.Put) {
				p.Mode = timers.CreateOrReplace
				p.Spec.Limit, p.Spec.LimitKey, p.Spec.Labels = "a", "{{label:customer}}", map[string]string{"customer": customer}
			}
		}
		h.put("1", "@after 1s", of("x"))
		h.put("2", "@after 1001ms", of("y"))
		h.put("3", "@after 1002ms", of("x"))
		h.put("4", "@after 1003ms", withLimit("a", "x"))
		h.put("5", "@after 1004ms", of("x"))
		h.put("5", "@after 1004ms", of("z"))
		began := time.Now()
		time.Sleep(time.Minute)
		var order []string
		for _, a := range sink.got() {
			order = append(order, fmt.Sprint(a.Name, " ", a.at.Sub(began).Round(time.Second)))
		}
		if want := []string{"1 1s", "2 1s", "5 1s", "3 2s", "4 3s"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}

func TestALimitBoundsHowManyBegin(t *testing.T) {
	for name, c := range map[string]struct {
		rate   rouse.LimitRate
		at     time.Duration
		least  int
		atMost int
	}{
		"slow":             {rouse.LimitRate{Count: 6, Per: time.Minute}, time.Minute, 6, 7},
		"with a burst":     {rouse.LimitRate{Count: 6, Per: time.Minute, Burst: 5}, time.Minute, 10, 11},
		"hundred a second": {rouse.LimitRate{Count: 100, Per: time.Second}, 10 * time.Second, 990, 1011},
		"fast":             {rouse.LimitRate{Count: 5000, Per: time.Second}, time.Second, 4900, 5501},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sink := &recorder{}
				limits := newLimits(rouse.Limit{Name: "a", Rate: c.rate})
				h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
				time.Sleep(2 * time.Minute) // a node that has just started knows no unused rate
				var list []timers.Put
				for i := range 2 * c.atMost {
					list = append(list, timers.Put{Key: key(fmt.Sprint(i)), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a", Limit: "a"}})
				}
				if _, err := h.Put(t.Context(), list); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second + c.at)
				if n := len(sink.got()); n < c.least || n > c.atMost {
					t.Errorf("%d began, want %d to %d", n, c.least, c.atMost)
				}
			})
		})
	}
}

// TestRestartsGiveNoRate: a node that was just started lets none begin at a slow rate, as it does not know
// what did before; one that runs does.
func TestRestartsGiveNoRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink, store := &recorder{}, mem.New()
		options := timers.Options{Engine: engine.Options{Limits: newLimits(
			rouse.Limit{Name: "a", Rate: rouse.LimitRate{Count: 1, Per: time.Hour, Burst: 3}})}}
		h := start(t, store, sink, options)
		for i := range 10 {
			h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""))
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			h.stop()
			h = start(t, store, sink, options)
		}
		if n := len(sink.got()); n != 0 {
			t.Errorf("%d began on nodes that ran for 10 s", n)
		}
		time.Sleep(90*time.Minute + time.Minute)
		if n := len(sink.got()); n != 2 {
			t.Errorf("%d began in 91 minutes", n)
		}
	})
}

// TestAPausedLimitHoldsRetries: one that keeps its place between its attempts waits, too, and is still the
// first.
func TestAPausedLimitHoldsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Attempt < 3 && f.Name == "0" {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		ordered := rouse.Limit{Name: "a", Concurrency: 1, Order: rouse.OrderByDue}
		limits := newLimits(ordered)
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for i := range 3 {
			h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 1000+i), withLimit("a", ""), func(p *timers.Put) {
				p.Spec.Retry = rouse.Retry{Attempts: 5, Interval: 2 * time.Second, Jitter: -1}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		paused := ordered
		paused.Paused = true
		limits.setLimits(paused)
		time.Sleep(time.Minute)
		if n := len(sink.got()); n != 1 {
			t.Errorf("%d attempts, one of them before the pause", n)
		}
		limits.setLimits(ordered)
		time.Sleep(time.Minute)
		var order []string
		for _, a := range sink.got() {
			order = append(order, a.Name)
		}
		if want := []string{"0", "0", "0", "1", "2"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}

func TestALimitIsChangedWhileItIsInUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCounted()
		sink := &recorder{answer: c.answerAfter(100 * time.Millisecond)}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1, Paused: true})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for i := range 100 {
			h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""))
		}
		fires := func(after time.Duration) int {
			time.Sleep(after)
			return len(sink.got())
		}
		if n := fires(time.Minute); n != 0 {
			t.Errorf("%d began while it was paused", n)
		}
		limits.setLimits(rouse.Limit{Name: "a", Concurrency: 1})
		if n := fires(1050 * time.Millisecond); n < 8 || n > 11 {
			t.Errorf("%d began one after another", n)
		}
		limits.setLimits(rouse.Limit{Name: "a", Rate: rouse.LimitRate{Count: 1, Per: time.Hour}})
		had := fires(time.Second)
		if n := fires(time.Minute); n > had+1 {
			t.Errorf("%d began by one an hour", n-had)
		}
		limits.setLimits(rouse.Limit{Name: "a", Rate: rouse.LimitRate{Count: 10, Per: time.Second}})
		if n := fires(2 * time.Second); n < had+15 || n > had+25 {
			t.Errorf("%d began by ten a second, after one an hour", n-had)
		}
		limits.removeLimit("a")
		if n := fires(time.Second); n != 100 {
			t.Errorf("%d of 100 began when there was no limit any more", n)
		}
		if s := h.Engine.Stats(); s.Window != 0 || s.Queued != 0 || h.Gates() != 0 {
			t.Errorf("left over: %+v, %d gates", s, h.Gates())
		}
	})
}

// TestALimitThatIsNotKnownYet: a node that has not heard of a limit keeps its timers back until it knows.
func TestALimitThatIsNotKnownYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{}
		limits := newLimits()
		limits.unknown = true
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for i := range 5 {
			h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""))
		}
		h.put("other", "@after 1s", withLimit("b", ""))
		time.Sleep(2 * time.Second)
		if n := len(sink.got()); n != 0 {
			t.Errorf("%d began before their limit was known", n)
		}
		limits.mu.Lock()
		limits.unknown = false
		limits.mu.Unlock()
		limits.setLimits(rouse.Limit{Name: "a", Rate: rouse.LimitRate{Count: 1, Per: time.Second}})
		time.Sleep(500 * time.Millisecond)
		if n := len(sink.got()); n != 2 { // one of each
			t.Errorf("%d began at once", n)
		}
		time.Sleep(10 * time.Second)
		if n := len(sink.got()); n != 6 {
			t.Errorf("%d of 6 began", n)
		}
	})
}

// TestALimitInOrder: occurrences of a key go one at a time in the order of their due times, also if one of
// them has to be tried again.
func TestALimitInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var failed atomic.Int64
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			time.Sleep(10 * time.Millisecond)
			if f.Name == "3" && failed.Add(1) < 4 {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1, Order: rouse.OrderByDue, PerKey: true})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for i := 9; i >= 0; i-- {
			h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 1000+i), withLimit("a", []string{"x", "{{label:of}}"}[i%2]), func(p *timers.Put) {
				p.Spec.Labels = map[string]string{"of": "x"}
				p.Spec.Priority = rouse.Priority(i%3 - 1)
				p.Spec.Retry = rouse.Retry{Attempts: 5, Interval: 20 * time.Second, Jitter: -1}
			})
		}
		time.Sleep(5 * time.Minute)
		var order []string
		for _, a := range sink.got() {
			order = append(order, a.Name)
		}
		if want := []string{"0", "1", "2", "3", "3", "3", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(order, want) {
			t.Errorf("%v", order)
		}
	})
}

// TestTimersThatChangeWhileTheyWaitForALimit: what is deleted, paused or moved gives up its wait, and what is
// in progress its place when it ends.
func TestTimersThatChangeWhileTheyWaitForALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: busyFor(time.Second)}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for i := range 6 {
			h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 1000+i), withLimit("a", ""))
		}
		replace := func(p *timers.Put) { p.Mode = timers.CreateOrReplace }
		time.Sleep(1500 * time.Millisecond) // 0 is out, the others wait
		for _, name := range []string{"0", "1"} {
			if _, err := h.Delete(t.Context(), key(name), 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Pause(t.Context(), key("2"), "", 0); err != nil {
			t.Fatal(err)
		}
		h.put("3", "@after 1h", withLimit("a", ""), replace)
		h.put("4", "@after 10ms", replace)
		time.Sleep(time.Minute)
		var order []string
		for _, a := range sink.got() {
			order = append(order, a.Name)
		}
		if want := []string{"0", "4", "5"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		if n := h.Gates(); n != 0 {
			t.Errorf("%d gates are left", n)
		}
	})
}

// TestALimitWithADeadline: an occurrence that waits for its limit too long ends with this cause.
func TestALimitWithADeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1})
		h := start(t, mem.New(), &recorder{answer: busyFor(10 * time.Second)}, timers.Options{Engine: engine.Options{Limits: limits}})
		h.put("a", "@after 1s", withLimit("a", ""))
		h.put("b", "@after 2s", withLimit("a", ""), func(p *timers.Put) { p.Spec.Deadline = time.Second })
		time.Sleep(2500 * time.Millisecond)
		if p := h.Progress(key("b")); !p.AtLimit || p.Before != 0 || p.Running != 1 || p.Named.Concurrency != 1 {
			t.Errorf("while it waits: %+v", p)
		}
		time.Sleep(time.Minute)
		h.wantEndings("b", "missed")
		page, err := h.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "b", Limit: 1})
		if err != nil || len(page.Records) != 1 || page.Records[0].Cause != rouse.CauseLimit {
			t.Errorf("%+v, %v", page.Records, err)
		}
	})
}

// TestWaitingForALimitLeavesRoomToOthers: rows that wait for their limit are put off when memory is full, by
// their number and by their bytes.
func TestWaitingForALimitLeavesRoomToOthers(t *testing.T) {
	for name, c := range map[string]struct {
		options engine.Options
		payload int
	}{
		"rows":  {engine.Options{MaxRows: 100}, 1},
		"bytes": {engine.Options{MaxBytes: 1 << 20}, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sink := &recorder{}
				c.options.Limits = newLimits(rouse.Limit{Name: "a", Concurrency: 1, Paused: true})
				h := start(t, mem.New(), sink, timers.Options{Engine: c.options})
				for i := range 300 {
					h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""), func(p *timers.Put) { p.Spec.Payload = make([]byte, c.payload) })
				}
				time.Sleep(10 * time.Second)
				h.put("free", "@after 5s")
				time.Sleep(10 * time.Second)
				if n := len(sink.got()); n != 1 {
					t.Errorf("%d began next to a paused limit, want the one without", n)
				}
			})
		})
	}
}

// TestRetriesInOrderLeaveRoomToOthers: rows that keep their places until they are tried again do not fill the
// memory of a node.
func TestRetriesInOrderLeaveRoomToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Spec.Limit == "" {
				return rouse.Outcome{Verdict: rouse.Done}
			}
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
		}}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1000, Order: rouse.OrderByDue})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{MaxRows: 100, Limits: limits}})
		for i := range 90 {
			h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""), func(p *timers.Put) {
				p.Spec.Retry = rouse.Retry{Attempts: 5, Interval: time.Hour, Max: time.Hour, Jitter: -1}
			})
		}
		time.Sleep(10 * time.Second)
		h.put("free", "@after 30s")
		time.Sleep(time.Minute)
		if n := len(sink.got()); n != 91 {
			t.Errorf("%d attempts, want that of the timer without a limit after 90", n)
		}
	})
}

// TestALimitOnSeveralNodes: the node that has the bucket of a limit's key fires all of its timers, whichever
// node wrote them.
func TestALimitOnSeveralNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 2})
		c := newCounted()
		sinks := []*recorder{{answer: c.answerAfter(time.Second)}, {answer: c.answerAfter(time.Second)}}
		var nodes []*harness
		for i, sink := range sinks {
			nodes = append(nodes, join(t, store, newManual(uint32(i)), sink, timers.Options{Engine: engine.Options{Limits: limits}}))
		}
		for i := range 20 {
			nodes[i%2].put(fmt.Sprint(i), "@after 10ms", withLimit("a", ""))
		}
		time.Sleep(time.Minute)
		if a, b := len(sinks[0].got()), len(sinks[1].got()); a+b != 20 || a*b != 0 || c.mostOf("a") != 2 {
			t.Errorf("%d and %d fires, %d at a time", a, b, c.mostOf("a"))
		}
	})
}

// TestALimitIsKeptWhileItsBucketMoves: the next owner of a bucket counts the attempts that the last one has
// there, for as long as they take.
func TestALimitIsKeptWhileItsBucketMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 2})
		c := newCounted()
		var sinks []*recorder
		var strategies []*manualStrategy
		var nodes []*harness
		for i := range 2 {
			sinks = append(sinks, &recorder{answer: c.answerAfter(7 * time.Second)})
			strategies = append(strategies, newManual(uint32(i)))
			nodes = append(nodes, join(t, store, strategies[i], sinks[i], timers.Options{Engine: engine.Options{Limits: limits}}))
		}
		for i := range 20 {
			nodes[0].put(fmt.Sprint(i), "@after 10ms", withLimit("a", ""))
		}
		owner := 0
		time.Sleep(time.Second)
		if len(sinks[0].got()) == 0 {
			owner = 1
		}
		for range 4 { // as a cluster moves buckets: the new owner begins when the old one has left them
			time.Sleep(10 * time.Second)
			left := len(strategies[owner].gone()) + len(strategies[owner].buckets)
			strategies[owner].give()
			for len(strategies[owner].gone()) < left {
				time.Sleep(time.Millisecond)
			}
			owner = 1 - owner
			strategies[owner].give(0, 1)
		}
		time.Sleep(2 * time.Minute)
		a, b := len(sinks[0].got()), len(sinks[1].got())
		if a+b != 20 || a == 0 || b == 0 || c.mostOf("a") != 2 {
			t.Errorf("%d and %d fires, %d at a time", a, b, c.mostOf("a"))
		}
	})
}
