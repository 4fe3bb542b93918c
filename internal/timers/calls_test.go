package timers

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/test/servers"
)

var callKey = rouse.Key{Namespace: "n", Name: "calls"}

// written has the payload of each revision of callKey that a store was given.
type written struct {
	rouse.Shared
	slow time.Duration // how long a write takes

	mu      sync.Mutex
	of      map[uint64]string
	applies int
	commits int
}

func (s *written) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(s.slow)
	out, err := s.Shared.Apply(ctx, changes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	for i := range out {
		if changes[i].Key != callKey || changes[i].To == nil {
			continue
		}
		s.applies++
		if t, err := rouse.DecodeTimer(changes[i].To); err == nil && out[i].Applied {
			s.of[out[i].Revision] = string(t.Spec.Payload)
		}
	}
	return out, err
}

// manyCalls lets clients of each node make calls, one after the other, and checks each answer: none fails,
// the timer in it is one that was written, and the calls of a client come after each other. It returns how
// many calls there were.
func manyCalls(t *testing.T, s *written, nodes []*Timers, clients, each int, how rouse.Coalesce) int {
	t.Helper()
	var all sync.WaitGroup
	var wrong atomic.Int64
	for n, ts := range nodes {
		for c := range clients {
			all.Go(func() {
				last := uint64(0)
				for i := range each {
					payload := fmt.Sprintf("%d-%d-%d", n, c, i)
					res, err := ts.Coalesce(t.Context(), callKey, rouse.Spec{Target: "x:y", Payload: []byte(payload)}, how)
					s.mu.Lock()
					stored := s.of[res.Timer.Revision]
					s.mu.Unlock()
					if err != nil || res.Timer.Revision <= last || stored != string(res.Timer.Spec.Payload) || stored == "" {
						if wrong.Add(1) < 4 {
							t.Errorf("call %s after revision %d: %d with %q, stored %q, %v", payload, last, res.Timer.Revision, res.Timer.Spec.Payload, stored, err)
						}
					}
					last = res.Timer.Revision
				}
			})
		}
	}
	all.Wait()
	return len(nodes) * clients * each
}

// wantNewest makes a last call, and checks that it is what counts.
func wantNewest(t *testing.T, ts *Timers, how rouse.Coalesce) {
	t.Helper()
	if _, err := ts.Coalesce(t.Context(), callKey, rouse.Spec{Target: "x:y", Payload: []byte("newest")}, how); err != nil {
		t.Fatal(err)
	}
	if tm, err := ts.Get(t.Context(), callKey); err != nil || string(tm.Spec.Payload) != "newest" {
		t.Errorf("the newest call is not what counts: %q, %v", tm.Spec.Payload, err)
	}
}

// TestCallsOfOneNameAreMerged: a hundred clients of one name on one node. No call is refused, each answer is
// true, and there are about as many writes as a single client would make.
func TestCallsOfOneNameAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &written{Shared: mem.New(), slow: 5 * time.Millisecond, of: map[uint64]string{}}
		ts := running(t, s, &fired{of: map[string]int{}}, Options{})
		how := rouse.Coalesce{Quiet: time.Hour, MaxWait: 2 * time.Hour}
		n := manyCalls(t, s, []*Timers{ts}, 100, 10, how)
		if s.applies > 3*10 {
			t.Errorf("%d writes for %d calls", s.applies, n)
		}
		t.Logf("%d writes for %d calls", s.applies, n)
		wantNewest(t, ts, how)
	})
}

// TestNodesShareANameOfManyCalls: two nodes have calls of one name. No call is refused because the other node
// was first.
func TestNodesShareANameOfManyCalls(t *testing.T) {
	pair := func(t *testing.T, s *written) []*Timers {
		o := Options{}
		o.Engine.Shared = true
		var nodes []*Timers
		for range 2 {
			nodes = append(nodes, runningBy(t, s, claim.NewLease(1, 8*time.Second), &fired{of: map[string]int{}}, o))
		}
		return nodes
	}
	test := func(t *testing.T, s *written) {
		nodes := pair(t, s)
		for name, how := range map[string]rouse.Coalesce{"debounce": {Quiet: time.Hour}, "throttle": {Every: time.Hour}} {
			s.mu.Lock()
			s.applies = 0
			s.mu.Unlock()
			n := manyCalls(t, s, nodes, 30, 4, how)
			if s.applies >= n/2 {
				t.Errorf("%s: %d writes for %d calls", name, s.applies, n)
			}
			t.Logf("%s: %d writes for %d calls", name, s.applies, n)
			wantNewest(t, nodes[1], how)
		}
	}
	t.Run("mem", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, &written{Shared: mem.New(), slow: 2 * time.Millisecond, of: map[uint64]string{}})
		})
	})
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), servers.Postgres(t), postgres.Options{AllowUnsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, &written{Shared: s, of: map[uint64]string{}})
	})
}

// TestCallsWithoutEndDoNotKeepATimerFromFiring: there is always a call that is being written. With one
// processor nothing else happens between two writes unless they leave time for it.
func TestCallsWithoutEndDoNotKeepATimerFromFiring(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		s := &written{Shared: mem.New(), slow: 3 * time.Millisecond, of: map[uint64]string{}}
		sink := &fired{of: map[string]int{}}
		ts := running(t, s, sink, Options{})
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := ts.Coalesce(ctx, callKey, rouse.Spec{Target: "x:y"}, rouse.Coalesce{Every: time.Second}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := sink.count(); n < 4 || n > 6 {
			t.Errorf("%d fires in 5 s of a timer throttled to one a second", n)
		}
	})
}

// TestACallerThatGivesUpTakesItsCallAlong: calls whose callers have gone while the store hangs are not kept.
func TestACallerThatGivesUpTakesItsCallAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		ts := running(t, s, &fired{of: map[string]int{}}, Options{})
		hang := make(chan struct{})
		s.set(func() { s.get = func() { <-hang } })
		call := func(ctx context.Context, payload string) error {
			_, err := ts.Coalesce(ctx, callKey, rouse.Spec{Target: "x:y", Payload: []byte(payload)}, rouse.Coalesce{Quiet: time.Hour})
			return err
		}
		var all sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		for range 20 {
			all.Go(func() {
				if err := call(ctx, "gone"); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(ts.lines.waiting[callKey]); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
		s.set(func() { s.get = nil })
		close(hang)
		if err := call(t.Context(), "there"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if tm, err := ts.Get(t.Context(), callKey); err != nil || string(tm.Spec.Payload) != "there" {
			t.Errorf("%q, %v", tm.Spec.Payload, err)
		}
		if n := len(ts.lines.waiting); n != 0 {
			t.Errorf("%d names are kept", n)
		}
	})
}

// TestARepeatedCallIsMergedOnce: a request that comes several times at once, with its Idempotency-Key, among
// others.
func TestARepeatedCallIsMergedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &written{Shared: mem.New(), slow: 5 * time.Millisecond, of: map[uint64]string{}}
		ts := running(t, s, &fired{of: map[string]int{}}, Options{})
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				payload := fmt.Sprint(i % 10)
				_, err := ts.Coalesce(asking(t, "me", payload), callKey, rouse.Spec{Target: "x:y", Payload: []byte(payload)}, rouse.Coalesce{Quiet: time.Hour})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		tm, err := ts.Get(t.Context(), callKey)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 { // none counts again, whatever it was merged with
			payload := fmt.Sprint(i)
			res, err := ts.Coalesce(asking(t, "me", payload), callKey, rouse.Spec{Target: "x:y", Payload: []byte(payload)}, rouse.Coalesce{Quiet: time.Hour})
			if err != nil || res.Timer.Revision != tm.Revision {
				t.Errorf("call %d: revision %d after %d, %v", i, res.Timer.Revision, tm.Revision, err)
			}
			if _, err = ts.Coalesce(asking(t, "me", payload), callKey, rouse.Spec{Target: "x:y", Payload: []byte("other")}, rouse.Coalesce{Quiet: time.Hour}); !otherRequest(err) {
				t.Errorf("another call with the key of call %d: %v", i, err)
			}
		}
	})
}

// TestACallWithAKeyIsOneCommit: its note is in the commit that makes it, and a call that is refused leaves
// none.
func TestACallWithAKeyIsOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &written{Shared: mem.New(), of: map[uint64]string{}}
		ts := running(t, s, &fired{of: map[string]int{}}, Options{})
		made(t, ts, "yearly", rouse.Spec{Schedule: "0 0 1 1 *", Target: "x:y"})
		coalesce := func(name string) error {
			_, err := ts.Coalesce(asking(t, "me", "k"), rouse.Key{Namespace: "n", Name: name}, rouse.Spec{Target: "x:y"}, rouse.Coalesce{Quiet: time.Hour})
			return err
		}
		synctest.Wait()
		before := s.commits
		if err := coalesce("yearly"); !errors.Is(err, rouse.ErrConflict) || s.commits != before {
			t.Errorf("a call of a timer that recurs: %v, %d commits", err, s.commits-before)
		}
		for range 2 {
			if err := coalesce("calls"); err != nil || s.commits != before+1 {
				t.Errorf("%v, %d commits", err, s.commits-before)
			}
		}
		if err := coalesce("others"); !otherRequest(err) {
			t.Errorf("another call with the key: %v", err)
		}
	})
}

// TestManyEditsOfOneTimerAreAllMade: edits that come at the same time wait for each other.
func TestManyEditsOfOneTimerAreAllMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &written{Shared: mem.New(), slow: 5 * time.Millisecond, of: map[uint64]string{}}
		ts := running(t, s, &fired{of: map[string]int{}}, Options{})
		made(t, ts, "a", rouse.Spec{Schedule: "0 0 1 1 *", Target: "x:y"})
		key := rouse.Key{Namespace: "n", Name: "a"}
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() {
				if _, err := ts.Skip(t.Context(), key, 1, ""); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		tm, err := ts.Get(t.Context(), key)
		if want := rouse.At(time.Now()); err != nil || tm.Due.Sub(want) < 59*365*24*time.Hour {
			t.Errorf("due at %v, skips %d, %v", tm.Due, tm.Skips, err)
		}
	})
}

// runningBy returns timers that run with a strategy, until the test ends.
func runningBy(t *testing.T, s rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Timers {
	t.Helper()
	ts, stop := startBy(t, s, strategy, sink, o)
	t.Cleanup(stop)
	return ts
}

// startBy is runningBy that returns how to stop it.
func startBy(t *testing.T, s rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) (ts *Timers, stop func()) {
	t.Helper()
	o.Engine.Look, o.Engine.DeadAge = -1, -1
	if o.Compile == nil {
		o.Compile = schedule.Compile
	}
	ts = New(s, strategy, sink, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ts.Run(ctx) }()
	if err := ts.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ts, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
