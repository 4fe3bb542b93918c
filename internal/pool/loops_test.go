package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestNoRequestIsLost has clients use a few keys at random times, so that groups are stopped all the time,
// while calls take time and fail. Each request must be answered exactly once, and everything must be gone in
// the end.
func TestNoRequestIsLost(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			w := newSimulation(t, seed)
			w.silent = seed%3 == 0
			w.lag = time.Duration(w.rand.IntN(5000)) * time.Millisecond
			w.takes = time.Duration(1+w.rand.IntN(3000)) * time.Millisecond
			if seed%4 == 0 {
				w.takes *= 10 // longer than the delays
			}
			trouble := true
			w.fail = func(call, key string) error {
				if trouble && w.rand.IntN(5) == 0 {
					return errors.New("bad luck")
				}
				return nil
			}
			w.slow = func(call, key string) time.Duration {
				if call == "ensure" && seed%5 == 0 {
					return time.Duration(w.rand.IntN(8000)) * time.Millisecond
				}
				return time.Duration(w.rand.IntN(500)) * time.Millisecond
			}
			stop := w.start(Delays{2 * time.Second, 2 * time.Second}, Timing{Settle: time.Second, Parallel: 3})
			const requests = 150
			var clients sync.WaitGroup
			chance := rand.New(rand.NewPCG(seed, 2))
			for id := range requests {
				time.Sleep(time.Duration(chance.IntN(1000)) * time.Millisecond)
				key := fmt.Sprint("k", chance.IntN(5))
				clients.Go(func() { w.publish(key, id) })
			}
			clients.Wait()
			w.mu.Lock()
			trouble = false
			w.mu.Unlock()
			time.Sleep(30 * time.Minute)
			for id := range requests {
				if n := w.answers(id); n != 1 {
					t.Errorf("seed %d: request %d was answered %d times", seed, id, n)
				}
			}
			if left := w.left(); len(left) > 0 {
				t.Errorf("seed %d: %q are left", seed, left)
			}
			stop()
			w.life.Wait()
		})
	}
}

// TestBacklogKeepsItsWorkers checks that a group without new requests and without reports is not stopped
// while requests wait in its queue.
func TestBacklogKeepsItsWorkers(t *testing.T) {
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) { w.silent, w.takes = true, 7*time.Second }, func(t *testing.T, w *simulation) {
		for id := range 10 {
			w.publish("k", id)
		}
		time.Sleep(65 * time.Second)
		if w.called("drain k") != 0 || w.called("ensure k") != 1 {
			t.Errorf("the worker was stopped: %s", w.log())
		}
		time.Sleep(time.Minute)
		for id := range 10 {
			if w.answers(id) != 1 {
				t.Errorf("request %d was not answered", id)
			}
		}
		if left := w.left(); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// TestAwaitWaitsForItsGeneration checks that Await does not return before the loop has reached the
// generation, as the loop may be about to unbind the queue.
func TestAwaitWaitsForItsGeneration(t *testing.T) {
	l := newQueueLoop(nil, &Config{Timing: Timing{}.withTimingDefaults()}, []Queue{{Key: "k", Bound: true}})
	l.moved = newSignal()
	l.adoptTarget(Target{5, map[string]Status{"k": Unbound}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.awaitBound(ctx, "k", 6); err == nil {
		t.Error("it is let go before its generation")
	}
	l.adoptTarget(Target{6, map[string]Status{"k": Active}})
	if err := l.awaitBound(t.Context(), "k", 6); err != nil {
		t.Error(err)
	}
}

// TestGoneIsCertain checks that a group does not count as gone because of a list that was started before the
// last call for it had ended.
func TestGoneIsCertain(t *testing.T) {
	l := newGroupLoop(nil, 1, Timing{}.withTimingDefaults())
	l.moved, l.listed = newSignal(), time.Now()
	is := func(want bool, when string) {
		t.Helper()
		if got := l.hasNoWorkers("k"); got != want {
			t.Errorf("%s, gone returns: %v", when, got)
		}
	}
	is(false, "before the first list")
	l.lists = 1
	l.adoptWorkers(1, nil)
	is(true, "when it is on no list")
	l.startGroupCall(t.Context(), "k", time.Now(), "start", func(context.Context) error { return nil })
	is(false, "while a call is in flight")
	l.adoptWorkers(1, nil)
	is(false, "while a call is in flight, with another list")
	l.lists = 2 // a list is in flight
	l.landCall(<-l.landed)
	l.adoptWorkers(2, nil)
	is(false, "with a list that was begun before")
	l.lists = 3
	l.adoptWorkers(3, []driver.Worker{{Key: "k", State: driver.Draining}})
	is(false, "while a worker drains")
	l.lists = 4
	l.adoptWorkers(4, nil)
	is(true, "when it is on no list any more")
	l.calls.Wait()
}

// TestPlans checks the plan for workers in each state of a queue.
func TestPlans(t *testing.T) {
	l := newQueueLoop(nil, &Config{Timing: Timing{}.withTimingDefaults()}, nil)
	for _, c := range []struct {
		is   string
		want Status
		st   queueState
		plan plan
	}{
		{"wanted and bound", Active, queueState{phase: bound}, run},
		{"wanted and being unbound", Unbound, queueState{phase: bound, busy: true}, run},
		{"wanted and not there yet", Active, queueState{}, keep},
		{"wanted again with no call in flight", Active, queueState{phase: closing}, run},
		{"wanted again while it may be being deleted", Active, queueState{phase: closing, busy: true}, keep},
		{"not wanted, not inspected yet", Inactive, queueState{phase: unbound}, keep},
		{"not wanted, and still bound", Inactive, queueState{phase: bound}, keep},
		{"not wanted, and empty", Inactive, queueState{phase: closing}, end},
		{"not wanted, and gone", Inactive, queueState{}, end},
	} {
		l.states["k"], l.target = &c.st, Target{1, map[string]Status{"k": c.want}}
		if got := l.deriveWorkerPlan("k"); got != c.plan {
			t.Errorf("the plan for the workers of a queue that is %s is %d, not %d", c.is, got, c.plan)
		}
	}
}

// bubble runs a test with a running term of a simulation in virtual time.
func bubble(t *testing.T, timing Timing, prepare func(w *simulation), f func(t *testing.T, w *simulation)) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulation(t, 1)
		if prepare != nil {
			prepare(w)
		}
		stop := w.start(Delays{10 * time.Second, 10 * time.Second}, timing)
		f(t, w)
		stop()
		w.mu.Lock()
		for _, worker := range w.workers {
			worker.State = "draining"
		}
		w.mu.Unlock()
		stop()
		w.life.Wait()
	})
}

// TestLifeOfAGroup checks the times at which a group that is used once changes.
func TestLifeOfAGroup(t *testing.T) {
	bubble(t, Timing{Settle: 4 * time.Second}, func(w *simulation) { w.lag = 0 }, func(t *testing.T, w *simulation) {
		w.publish("k", 1)
		begun := time.Now()
		look := func(after time.Duration, status, queue string, workers int) {
			t.Helper()
			time.Sleep(time.Until(begun.Add(after)))
			synctest.Wait()
			v := w.term.manager.View()
			if status == "" {
				if len(v.Groups) != 0 {
					t.Errorf("after %v there is %+v", after, v.Groups)
				}
				return
			}
			if len(v.Groups) != 1 || v.Groups[0].Status != status || v.Groups[0].Queue != queue || len(v.Groups[0].Workers) != workers {
				t.Errorf("after %v there is %+v, not a group that is %s with a queue that is %s and %d workers", after, v.Groups, status, queue, workers)
			}
		}
		// The worker reports the request when it has booted, 100ms later; 1s is the extra lifetime.
		look(time.Second, "active", "active", 1)
		look(11*time.Second, "active", "active", 1)
		look(11200*time.Millisecond, "unbound", "unbound", 1)
		look(21*time.Second, "unbound", "unbound", 1)
		look(21200*time.Millisecond, "inactive", "closing", 0)
		look(25*time.Second, "inactive", "closing", 0)
		look(35*time.Second, "", "", 0)
		if w.called("delete k") != 1 || w.called("ensure k") != 1 || w.called("drain k") != 1 {
			t.Errorf("calls were %v", w.log())
		}
	})
}

// TestSlowCallsHoldUpTheirKeyAlone checks that a hanging call delays no other key.
func TestSlowCallsHoldUpTheirKeyAlone(t *testing.T) {
	for _, call := range []string{"open", "ensure"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, Timing{Parallel: 2, Call: time.Hour}, func(w *simulation) {
				w.slow = func(c, key string) time.Duration {
					if c == call && key == "slow" {
						return time.Hour
					}
					return 0
				}
			}, func(t *testing.T, w *simulation) {
				var slow sync.WaitGroup
				slow.Go(func() { w.publish("slow", 0) })
				synctest.Wait()
				begun := time.Now()
				for id := 1; id <= 20; id++ {
					w.publish(fmt.Sprint("k", id), id)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				for id := 1; id <= 20; id++ {
					if w.answers(id) != 1 {
						t.Errorf("request %d, of another key, was not answered within %v", id, time.Since(begun))
					}
				}
				time.Sleep(time.Hour)
				slow.Wait()
			})
		})
	}
}

// TestFailuresAreNotRepeatedAtOnce checks that a failed call is repeated after the interval, however many
// passes other changes cause.
func TestFailuresAreNotRepeatedAtOnce(t *testing.T) {
	for _, call := range []string{"open", "ensure"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, Timing{Interval: time.Second}, func(w *simulation) {
				w.fail = func(c, key string) error {
					if c == call && key == "bad" {
						return errors.New("no")
					}
					return nil
				}
			}, func(t *testing.T, w *simulation) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				var bad sync.WaitGroup
				bad.Go(func() { _ = w.term.Await(ctx, "bad", false) })
				for id := range 40 {
					w.publish(fmt.Sprint("k", id), id)
					time.Sleep(100 * time.Millisecond)
				}
				synctest.Wait()
				if n := w.called(call + " bad"); n < 3 || n > 5 {
					t.Errorf("%s was called %d times in 4 s, an interval of 1 s apart", call, n)
				}
				bad.Wait()
			})
		})
	}
}

// TestAwaitReturnsTheReason checks that the error of Await contains why the queue is not available.
func TestAwaitReturnsTheReason(t *testing.T) {
	no := errors.New("no")
	bubble(t, Timing{}, func(w *simulation) { w.fail = func(string, string) error { return no } }, func(t *testing.T, w *simulation) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.term.Await(ctx, "k", false); !errors.Is(err, no) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await returns %v", err)
		}
		if len(w.term.queues.waiting) > 0 {
			t.Error("a waiter is left")
		}
	})
}

// TestAwaitSeesAnUnbindInFlight checks that a queue does not count as bound while it is being unbound.
func TestAwaitSeesAnUnbindInFlight(t *testing.T) {
	bubble(t, Timing{}, func(w *simulation) {
		w.slow = func(call, key string) time.Duration {
			if call == "unbind" {
				return 5 * time.Second
			}
			return 0
		}
	}, func(t *testing.T, w *simulation) {
		if err := w.term.Await(t.Context(), "k", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(13 * time.Second) // the unbind is in flight
		synctest.Wait()
		if w.called("unbind k") != 1 {
			t.Fatalf("calls were %v", w.log())
		}
		if err := w.term.Await(t.Context(), "k", false); err != nil {
			t.Fatal(err)
		}
		if w.called("open k") != 2 || !w.bound("k") {
			t.Errorf("the queue is bound: %v; calls were %v", w.bound("k"), w.log())
		}
	})
}

// TestDoubtRecreatesTheQueue checks that a queue that was deleted by hand is created again when an orphan is
// returned.
func TestDoubtRecreatesTheQueue(t *testing.T) {
	bubble(t, Timing{}, nil, func(t *testing.T, w *simulation) {
		w.publish("k", 1)
		time.Sleep(2 * time.Second)
		w.mu.Lock()
		gone := w.queues["k"]
		delete(w.queues, "k")
		gone.arrived.Broadcast()
		w.mu.Unlock()
		if err := w.term.Await(t.Context(), "k", true); err != nil {
			t.Fatal(err)
		}
		if !w.bound("k") {
			t.Error("there is no queue that requests come to")
		}
	})
}

// TestBusyWorkersAreNotStopped checks that a group whose worker works on a request for much longer than both
// delays is neither unbound nor stopped, with and without reports, and that it is stopped when it is idle.
func TestBusyWorkersAreNotStopped(t *testing.T) {
	for _, silent := range []bool{false, true} {
		bubble(t, Timing{Settle: time.Second}, func(w *simulation) {
			w.silent, w.takes, w.lag = silent, 20*time.Minute, 15*time.Second // later than the delays
		}, func(t *testing.T, w *simulation) {
			w.publish("k", 1)
			time.Sleep(19 * time.Minute)
			if v := w.term.manager.View(); len(v.Groups) != 1 || v.Groups[0].Status != "active" || v.Groups[0].Held != 1 {
				t.Errorf("the groups are %+v", v.Groups)
			}
			time.Sleep(5 * time.Minute)
			if w.answers(1) != 1 || w.called("unbind k") != 1 || w.called("ensure k") != 1 {
				t.Errorf("%d answers; calls were %v", w.answers(1), w.log())
			}
			if left := w.left(); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// TestBusyWorkersOutliveTheirManager checks that a new term, which knows nothing of the requests that workers
// hold, does not stop them.
func TestBusyWorkersOutliveTheirManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulation(t, 1)
		w.takes, w.lag = 10*time.Minute, 15*time.Second
		delays, timing := Delays{10 * time.Second, 10 * time.Second}, Timing{Settle: time.Second}
		stop := w.start(delays, timing)
		w.publish("k", 1)
		time.Sleep(time.Minute)
		stop()
		w.mu.Lock()
		w.counts = nil // the next manager sees only what is counted from now on
		w.mu.Unlock()
		stop = w.start(delays, timing)
		time.Sleep(15 * time.Minute)
		if left := w.left(); w.answers(1) != 1 || w.called("drain k") != 1 || len(left) > 0 {
			t.Errorf("%d answers, %q are left; calls were %v", w.answers(1), left, w.log())
		}
		stop()
		w.life.Wait()
	})
}

// TestStopWaitsForRequests checks that the group of a busy worker that is stopped on request ends when the
// worker has finished.
func TestStopWaitsForRequests(t *testing.T) {
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) { w.takes = 5 * time.Minute }, func(t *testing.T, w *simulation) {
		w.publish("k", 1)
		time.Sleep(time.Second)
		w.mu.Lock()
		w.stops = true // that it is unbound is intended
		w.mu.Unlock()
		if err := w.term.manager.Stop("k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		if v := w.term.manager.View(); len(v.Groups) != 1 || v.Groups[0].Status != "inactive" || v.Groups[0].Queue != "unbound" ||
			w.called("drain k") != 0 {
			t.Errorf("the groups are %+v; calls were %v", v.Groups, w.log())
		}
		time.Sleep(2 * time.Minute)
		if left := w.left(); w.answers(1) != 1 || len(left) > 0 {
			t.Errorf("%d answers, %q are left", w.answers(1), left)
		}
	})
}

// TestWorkBeyondItsLimit checks that workers that hold a request for longer than max_work are replaced, not
// earlier and only then, and that the request goes to the next worker.
func TestWorkBeyondItsLimit(t *testing.T) {
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) {
		w.takes, w.stops = time.Hour, true
		w.config = func(c *Config) { c.MaxWork = 10 * time.Minute }
	}, func(t *testing.T, w *simulation) {
		w.publish("k", 1)
		time.Sleep(10 * time.Minute)
		if w.called("drain k") != 0 || w.called("unbind k") != 0 {
			t.Errorf("the worker was stopped before its time: %s", w.log())
		}
		time.Sleep(10 * time.Second)
		if w.called("drain k") != 1 || w.called("unbind k") != 0 || w.called("ensure k") != 2 {
			t.Errorf("the worker was not replaced once: %s", w.log())
		}
		if n := w.metric("rouse_pool_over_max_work_total"); n != 1 {
			t.Errorf("%v groups are counted", n)
		}
	})
}

// TestWithoutCounts checks that a group whose requests cannot be counted is kept for max_work, and no longer.
func TestWithoutCounts(t *testing.T) {
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) {
		w.blind, w.takes = true, 50*time.Minute
	}, func(t *testing.T, w *simulation) {
		w.publish("k", 1)
		time.Sleep(55 * time.Minute)
		if w.called("unbind k") != 0 || w.called("drain k") != 0 || w.answers(1) != 1 {
			t.Errorf("%d answers; calls were %s", w.answers(1), w.log())
		}
		time.Sleep(2 * time.Hour)
		if left := w.left(); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// TestStalledWorkersAreReplaced checks that workers which hold requests and have reported nothing for longer
// than the patience are drained and replaced, and that workers which have just started, reported or hold
// nothing are left alone.
func TestStalledWorkersAreReplaced(t *testing.T) {
	const patience = 5 * time.Second
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) {
		w.takes, w.blind, w.stops = time.Hour, true, true
	}, func(t *testing.T, w *simulation) {
		loads := func(k, other int) {
			w.term.Loads(map[string]Load{"k": {Held: k}, "other": {Held: other}}, time.Now(), patience)
		}
		w.publish("k", 1)
		w.publish("other", 2)
		time.Sleep(4 * time.Second)
		loads(1, 1)
		time.Sleep(2 * time.Second)
		w.term.Note("other", RequestDone)
		loads(0, 1)
		time.Sleep(time.Second)
		if w.called("drain k") != 0 || w.called("drain other") != 0 {
			t.Errorf("workers were replaced without reason: %s", w.log())
		}
		for range 3 {
			loads(1, 1)
			synctest.Wait()
		}
		if w.called("drain k") != 1 || w.called("ensure k") != 2 || w.called("drain other") != 0 {
			t.Errorf("calls were %s", w.log())
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestReports checks the effect of reports on a group: reports of work keep it Active at any interval, starts
// do not, and any report creates a missing group.
func TestReports(t *testing.T) {
	bubble(t, Timing{}, func(w *simulation) { w.silent = true }, func(t *testing.T, w *simulation) {
		w.term.Note("k", Started)
		w.term.Note("starts", Started)
		for range 60 {
			for range 3 {
				w.term.Note("k", RequestReceived)
				time.Sleep(10 * time.Millisecond)
			}
			w.term.Note("starts", Started)
			time.Sleep(2 * time.Second)
		}
		target := w.term.tracker.currentTarget()
		if target.Groups["k"] != Active || target.Groups["starts"] != Inactive && target.Groups["starts"] != Active {
			t.Errorf("the target is %v", target)
		}
		if w.called("unbind k") != 0 {
			t.Error("a group that worked was unbound")
		}
		if w.called("unbind starts") == 0 {
			t.Error("a group lives on because its worker starts again and again")
		}
		w.term.Note("odd", "an event of a later version")
		w.term.Note("bad \xff", Started)
		if n := len(w.term.tracker.currentTarget().Groups); n > 2 {
			t.Errorf("there are %d groups", n)
		}
	})
}

// TestTermsBeginFromWhatIsThere checks that existing queues are used at the start of a term, and stopped in
// the end.
func TestTermsBeginFromWhatIsThere(t *testing.T) {
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) {
		for key, bound := range map[string]bool{"a": true, "b": false} {
			w.queues[key] = w.newQueue(bound, len(key))
		}
	}, func(t *testing.T, w *simulation) {
		time.Sleep(3 * time.Second)
		if !w.bound("b") || w.called("open a") != 0 || len(w.list()) != 2 {
			t.Errorf("calls were %v, workers are %v", w.log(), w.list())
		}
		time.Sleep(time.Minute)
		if left := w.left(); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}
