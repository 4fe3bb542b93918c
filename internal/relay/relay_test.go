package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/timers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFiresGoThroughTheQueue(t *testing.T) {
	w := newSimulation(t)
	w.startScheduler()
	hold := make(chan struct{})
	w.target.answer = func(context.Context, rouse.Fire) rouse.Outcome {
		<-hold
		return rouse.Outcome{Verdict: rouse.Done, Code: 204}
	}
	first := w.put("first", 1, rouse.Spec{Payload: []byte("x"), Labels: map[string]string{"a": "b"}})
	w.until("the fire is in the queue, and accepted", func() bool { return w.state(first[0]) == rouse.StateAccepted })
	x := w.startExecutor()
	w.until("the target is called", func() bool { return len(w.target.got()) == 1 })
	if s := w.state(first[0]); s != rouse.StateAccepted {
		t.Errorf("the timer is %v while its target works on it, want accepted", s)
	}
	close(hold)
	names := append(first, w.put("more", 300, rouse.Spec{})...)
	w.fired(names)
	if f := w.target.got()[0]; string(f.Spec.Payload) != "x" || f.Spec.Labels["a"] != "b" || f.Attempt != 1 || f.Name != "first0" {
		t.Errorf("the fire came as %+v", f)
	}
	if r := w.records(first[0])[0]; r.Code != 204 || r.Attempts != 1 {
		t.Errorf("recorded as %+v", r)
	}
	w.once()
	w.drained(x.q)
}

// once checks that no fire was delivered twice.
func (w *simulation) once() {
	w.t.Helper()
	for id, n := range w.target.counts() {
		if n != 1 {
			w.t.Errorf("fire %s was sent %d times, and nothing had failed", id, n)
		}
	}
}

func TestADeathBetweenAnyTwoStepsLosesNothing(t *testing.T) {
	for _, c := range []struct {
		at    step
		twice bool // the target may be called twice, with the same fire id
	}{
		{beforePublish, false}, {afterPublish, true}, {whenTaken, false}, {beforeCall, false}, {afterCall, true}, {beforeReport, true}, {afterReport, false},
	} {
		for _, n := range []int{1, 20} { // among others, each at a different step, and alone
			t.Run(fmt.Sprintf("%s, of %d", c.at, n), func(t *testing.T) { death(t, c.at, n, c.twice || n > 1) })
		}
	}
}

// death kills the first process that reaches a step.
func death(t *testing.T, deadly step, n int, twice bool) {
	w := newSimulation(t)
	w.startScheduler()
	died := make(chan mortal, 1)
	var once sync.Once
	w.step = func(process mortal, at step) {
		if at == deadly {
			once.Do(func() {
				process.die()
				died <- process
			})
		}
	}
	w.startExecutor()
	names := w.put("t", n, rouse.Spec{})
	select {
	case process := <-died:
		if _, ok := process.(*scheduler); ok {
			w.startScheduler()
		} else {
			w.startExecutor()
		}
	case <-time.After(patience):
		t.Fatal("no process was killed")
	}
	w.fired(names)
	w.drained(w.scheduler.q)
	for id, calls := range w.target.counts() {
		if calls > 2 || calls > 1 && !twice {
			t.Errorf("fire %s was sent %d times", id, calls)
		}
	}
	if ids := len(w.target.counts()); ids != n {
		t.Errorf("%d fire ids for %d occurrences", ids, n)
	}
}

func TestWhatEndsEachExecutorEndsAsADeadLetter(t *testing.T) {
	w := newSimulation(t)
	w.exec.MaxDeliveries = 2
	w.startScheduler()
	var deaths atomic.Int64
	w.step = func(process mortal, at step) {
		if at == beforeCall { // there is no other fire
			deaths.Add(1)
			process.die()
		}
	}
	names := w.put("poison", 1, rouse.Spec{Target: "test:deadly", Retry: rouse.Retry{Attempts: 2, Interval: 10 * time.Millisecond}})
	for len(w.records(names[0])) == 0 {
		x := w.startExecutor()
		w.until("the executor is dead, or the timer", func() bool { return x.dead.Load() || len(w.records(names[0])) > 0 })
	}
	r := w.ended(names)[0]
	if r.Ending != rouse.EndDead || r.Attempts != 2 || !strings.Contains(r.Reason, "executors had it") {
		t.Errorf("recorded as %+v", r)
	}
	if n := deaths.Load(); n != 4 {
		t.Errorf("%d executors died of it, want 2 for each of 2 attempts", n)
	}
	if n := w.noted(&w.poisoned); n != 2 {
		t.Errorf("%d messages were called poison, want 2", n)
	}
	page, err := w.store.List(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 10})
	if err != nil || len(page.Rows) != 1 {
		t.Errorf("%d dead letters: %v", len(page.Rows), err)
	}
	w.drained(w.scheduler.q)
}

func TestASinkThatPanicsFails(t *testing.T) {
	w := newSimulation(t)
	w.startScheduler()
	w.startExecutor()
	w.target.answer = func(_ context.Context, f rouse.Fire) rouse.Outcome {
		if f.Spec.Target == "test:panic" {
			panic("no")
		}
		return rouse.Outcome{Verdict: rouse.Done}
	}
	bad := w.put("bad", 3, rouse.Spec{Target: "test:panic", Retry: rouse.Retry{Attempts: 2, Interval: 10 * time.Millisecond}})
	w.fired(w.put("good", 10, rouse.Spec{}))
	for _, r := range w.ended(bad) {
		if r.Ending != rouse.EndDead || r.Attempts != 2 || !strings.Contains(r.Reason, "panicked: no") {
			t.Errorf("recorded as %+v", r)
		}
	}
}

func TestFiresWaitForABrokerThatIsDown(t *testing.T) {
	w := newSimulation(t)
	w.startScheduler()
	w.startExecutor()
	w.fired(w.put("before", 10, rouse.Spec{}))
	w.broker.Kill()
	names := w.put("during", 50, rouse.Spec{})
	for _, name := range names { // it was deferred, without spending an attempt
		w.until(name+" was put off", func() bool {
			timer, err := w.scheduler.Get(t.Context(), key(name))
			return err == nil && timer.Attempts == 0 && timer.Visible > timer.Due.Add(time.Hour)
		})
	}
	w.broker.Start()
	w.fired(append(names, w.put("after", 10, rouse.Spec{})...))
	for _, r := range w.ended(names) {
		if r.Attempts != 1 {
			t.Errorf("%s needed %d attempts: waiting for the broker spent some", r.Name, r.Attempts)
		}
	}
}

// allowed is how long a fire may take, and how long after that its report may come. What no report comes for
// in time is sent again: on a busy machine the queue of hundreds of fires is not empty for a while.
const allowed = 6 * time.Second

func TestASlowTargetDoesNotDelayOthers(t *testing.T) {
	w := newSimulation(t)
	w.exec.Prefetch = 64
	w.sink.Allowance = allowed // deferred fires come again by then
	w.target.lane = func(spec *rouse.Spec) rouse.Lane {
		if strings.HasPrefix(spec.Target, "test:slow") {
			return rouse.Lane{Name: spec.Target, Limit: 4, Batch: 1}
		}
		return rouse.Lane{Name: spec.Target, Limit: 16, Batch: 4}
	}
	release := make(chan struct{})
	w.target.answer = func(ctx context.Context, f rouse.Fire) rouse.Outcome {
		if strings.HasPrefix(f.Spec.Target, "test:slow") {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return rouse.Outcome{Verdict: rouse.Done}
	}
	w.startScheduler()
	w.startExecutor()
	var slow []string
	for _, name := range []string{"a", "b", "c"} { // more than the prefetch of each
		slow = append(slow, w.put("slow"+name, 100, rouse.Spec{Target: "test:slow" + name, Retry: rouse.Retry{Timeout: allowed}})...)
	}
	w.fired(w.put("quick", 100, rouse.Spec{}))
	for _, name := range slow {
		if len(w.records(name)) != 0 {
			t.Fatalf("%s has ended, but its target stands still", name)
		}
	}
	close(release)
	for _, r := range w.ended(slow) {
		if r.Ending != rouse.EndFired || r.Attempts != 1 {
			t.Errorf("%s ended as %v after %d attempts: %s", r.Name, r.Ending, r.Attempts, r.Reason)
		}
	}
	w.once()
}

// Some room remains for others, however many fires the sinks of slow targets accept at a time.
func TestManySlowTargetsLeaveRoom(t *testing.T) {
	w := newSimulation(t)
	w.exec.Prefetch = 64
	w.sink.Allowance = allowed
	w.target.lane = func(spec *rouse.Spec) rouse.Lane { return rouse.Lane{Name: spec.Target, Limit: 32, Batch: 1} }
	release := make(chan struct{})
	w.target.answer = func(ctx context.Context, f rouse.Fire) rouse.Outcome {
		if strings.HasPrefix(f.Spec.Target, "test:slow") {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return rouse.Outcome{Verdict: rouse.Done}
	}
	w.startScheduler()
	w.startExecutor()
	var slow []string
	for i := range 5 {
		target := fmt.Sprintf("test:slow%d", i)
		slow = append(slow, w.put(fmt.Sprintf("slow%d-", i), 60, rouse.Spec{Target: target, Retry: rouse.Retry{Timeout: allowed}})...)
	}
	w.until("each of them is called", func() bool {
		targets := map[string]bool{}
		for _, f := range w.target.got() {
			targets[f.Spec.Target] = true
		}
		return len(targets) == 5
	})
	w.fired(w.put("quick", 50, rouse.Spec{}))
	close(release)
	w.fired(slow)
	w.once()
}

// TestNamespacesWhoseTargetsHangLeaveRoom: a namespace with more targets that hang than an executor has room
// for does not keep another one waiting.
func TestNamespacesWhoseTargetsHangLeaveRoom(t *testing.T) {
	w := newSimulation(t)
	w.exec.Prefetch = 64
	w.sink.Allowance = allowed
	w.target.lane = func(spec *rouse.Spec) rouse.Lane { return rouse.Lane{Name: spec.Target, Limit: 32, Batch: 1} }
	release := make(chan struct{})
	w.target.answer = func(ctx context.Context, f rouse.Fire) rouse.Outcome {
		if f.Namespace == "hog" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return rouse.Outcome{Verdict: rouse.Done}
	}
	w.startScheduler()
	w.startExecutor()
	puts := make([]timers.Put, 200)
	for i := range puts {
		puts[i] = timers.Put{Key: rouse.Key{Namespace: "hog", Name: fmt.Sprint(i)}, Spec: rouse.Spec{Schedule: "2020-01-01T00:00:00Z", Target: fmt.Sprintf("test:slow%d", i)}}
	}
	if _, err := w.scheduler.Put(t.Context(), puts); err != nil {
		t.Fatal(err)
	}
	w.until("they have all the room that they may have", func() bool { return len(w.target.got()) >= 50 })
	w.fired(w.put("quick", 50, rouse.Spec{}))
	close(release)
}

func TestHeartbeatsKeepWhatTakesLong(t *testing.T) {
	w := newSimulation(t)
	w.sink.Allowance = 3 * time.Second
	w.target.lane = func(spec *rouse.Spec) rouse.Lane { return rouse.Lane{Name: spec.Target, Limit: 1, Batch: 1} }
	w.target.answer = func(ctx context.Context, _ rouse.Fire) rouse.Outcome {
		backoff.Sleep(ctx, 4*time.Second)
		return rouse.Outcome{Verdict: rouse.Done}
	}
	w.startScheduler()
	w.startExecutor()
	names := w.put("long", 2, rouse.Spec{Retry: rouse.Retry{Timeout: 100 * time.Millisecond}}) // 3.1 s in all; the last one ends after 8
	for _, r := range w.ended(names) {
		if r.Ending != rouse.EndFired || r.Attempts != 1 {
			t.Errorf("%s ended as %v after %d attempts: %s", r.Name, r.Ending, r.Attempts, r.Reason)
		}
	}
	w.once()
}

func TestWithoutAnExecutorTheAttemptFails(t *testing.T) {
	w := newSimulation(t)
	w.sink.Allowance = 300 * time.Millisecond
	w.startScheduler()
	names := w.put("t", 1, rouse.Spec{Retry: rouse.Retry{Attempts: 2, Interval: 10 * time.Millisecond, Timeout: 100 * time.Millisecond}})
	r := w.ended(names)[0]
	if r.Ending != rouse.EndDead || r.Attempts != 2 || !strings.Contains(r.Reason, "no report came") {
		t.Errorf("recorded as %+v", r)
	}
	w.startExecutor() // the queue contains only attempts that were given up
	w.drained(w.scheduler.q)
	if n := len(w.target.got()); n != 0 {
		t.Errorf("the target was called %d times for attempts that were given up", n)
	}
}

func TestWhatWasDeletedIsNotCalled(t *testing.T) {
	w := newSimulation(t)
	w.startScheduler()
	names := w.put("t", 20, rouse.Spec{})
	for _, name := range names {
		w.until("it is in the queue", func() bool { return w.state(name) == rouse.StateAccepted })
		if _, err := w.scheduler.Delete(t.Context(), key(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	w.startExecutor()
	w.drained(w.scheduler.q)
	if n := len(w.target.got()); n != 0 {
		t.Errorf("the target was called %d times for deleted timers", n)
	}
	if n := w.noted(&w.outdated); n != 20 {
		t.Errorf("%d messages were called outdated, want 20", n)
	}
}

// A fire that waits for its turn while its timer is deleted is not called either.
func TestWhatIsDeletedWhileItWaitsIsNotCalled(t *testing.T) {
	w := newSimulation(t)
	w.target.lane = func(spec *rouse.Spec) rouse.Lane { return rouse.Lane{Name: spec.Target, Limit: 1, Batch: 1} }
	release := make(chan struct{})
	w.target.answer = func(context.Context, rouse.Fire) rouse.Outcome { <-release; return rouse.Outcome{Verdict: rouse.Done} }
	w.startScheduler()
	x := w.startExecutor()
	names := w.put("t", 10, rouse.Spec{})
	w.until("one is called", func() bool { return len(w.target.got()) == 1 })
	mine := w.target.got()[0].Name
	time.Sleep(time.Second) // the looks are outdated now
	for _, name := range names {
		if name != mine {
			if _, err := w.scheduler.Delete(t.Context(), key(name), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(release)
	w.drained(x.q)
	if n := len(w.target.got()); n != 1 {
		t.Errorf("the target was called %d times, want once: the other timers were deleted", n)
	}
}

func TestADeadlineThatPassesInTheQueue(t *testing.T) {
	w := newSimulation(t)
	w.startScheduler()
	names := w.put("t", 1, rouse.Spec{Schedule: "@after 10ms", Deadline: 200 * time.Millisecond, Retry: rouse.Retry{Attempts: 5}})
	w.until("it is in the queue", func() bool { return w.state(names[0]) == rouse.StateAccepted })
	time.Sleep(300 * time.Millisecond)
	w.startExecutor()
	r := w.ended(names)[0]
	if r.Ending != rouse.EndDead || !strings.Contains(r.Reason, "deadline of 200ms") || len(w.target.got()) != 0 {
		t.Errorf("recorded as %+v after %d calls", r, len(w.target.got()))
	}
}

func TestATargetThatReportsLater(t *testing.T) {
	w := newSimulation(t)
	w.target.answer = func(context.Context, rouse.Fire) rouse.Outcome {
		return rouse.Outcome{Verdict: rouse.Accepted, After: time.Hour}
	}
	w.startScheduler()
	x := w.startExecutor()
	names := w.put("t", 1, rouse.Spec{})
	w.until("it is called", func() bool { return len(w.target.got()) == 1 })
	w.drained(x.q)
	timer, err := w.scheduler.Get(t.Context(), key(names[0]))
	if err != nil || timer.Visible.Sub(w.scheduler.Now()) < 50*time.Minute {
		t.Fatalf("the target has until %v to report: %v", timer.Visible, err)
	}
	f := w.target.got()[0]
	if _, err := w.scheduler.Report(t.Context(), key(names[0]), timers.Report{FireID: f.ID, Token: f.Token, Outcome: rouse.Outcome{Verdict: rouse.Done}}); err != nil {
		t.Fatalf("its report: %v", err)
	}
	w.fired(names)
}

func TestOutcomes(t *testing.T) {
	w := newSimulation(t)
	var deferred atomic.Int64
	w.target.answer = func(_ context.Context, f rouse.Fire) rouse.Outcome {
		switch f.Spec.Target {
		case "test:reject":
			return rouse.Outcome{Verdict: rouse.Rejected, Code: 410, Detail: "never"}
		case "test:fail":
			if f.Attempt < 3 {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
			}
		case "test:defer":
			if deferred.Add(1) == 1 {
				return rouse.Outcome{Verdict: rouse.Deferred, After: 20 * time.Millisecond}
			}
		}
		return rouse.Outcome{Verdict: rouse.Done}
	}
	w.startScheduler()
	x := w.startExecutor()
	retry := rouse.Retry{Attempts: 5, Interval: 10 * time.Millisecond}
	if r := w.ended(w.put("reject", 1, rouse.Spec{Target: "test:reject", Retry: retry}))[0]; r.Ending != rouse.EndDead || r.Code != 410 || r.Attempts != 1 {
		t.Errorf("rejected: %+v", r)
	}
	if r := w.ended(w.put("fail", 1, rouse.Spec{Target: "test:fail", Retry: retry}))[0]; r.Ending != rouse.EndFired || r.Attempts != 3 || len(r.Failures) != 2 {
		t.Errorf("failed twice: %+v", r)
	}
	if r := w.ended(w.put("defer", 1, rouse.Spec{Target: "test:defer", Retry: retry}))[0]; r.Ending != rouse.EndFired || r.Attempts != 1 {
		t.Errorf("put off: %+v", r)
	}
	w.drained(x.q)
}

// Overlapping occurrences have rows of their own.
func TestOverlappingOccurrences(t *testing.T) {
	w := newSimulation(t)
	hold := make(chan struct{})
	w.target.answer = func(context.Context, rouse.Fire) rouse.Outcome { <-hold; return rouse.Outcome{Verdict: rouse.Done} }
	w.startScheduler()
	x := w.startExecutor()
	names := w.put("t", 1, rouse.Spec{Schedule: "@every 1s", Overlap: rouse.OverlapAllow, MaxOccurrences: 3})
	w.until("all are called at a time", func() bool { return len(w.target.got()) == 3 })
	close(hold)
	w.until("all have ended", func() bool { return len(w.records(names[0])) == 3 })
	w.drained(x.q)
	w.once()
}

func TestWhatCannotBeReadIsReported(t *testing.T) {
	w := newSimulation(t)
	w.startScheduler()
	names := w.put("t", 1, rouse.Spec{Retry: rouse.Retry{Attempts: 1}})
	w.until("it is in the queue", func() bool { return w.state(names[0]) == rouse.StateAccepted })
	// A consumer replaces the message by one of a later version, and adds garbage.
	q := w.openQueue()
	defer q.Close() //nolint:errcheck // of a test
	ctx, cancel := context.WithCancel(t.Context())
	if err := q.Consume(ctx, 1, func(d queue.Delivery) {
		body := append([]byte{99}, d.Body[1:]...)
		body = body[:len(body)-3]
		for _, err := range w.scheduler.q.Publish(t.Context(), []queue.Message{{ID: "later", Body: body}, {ID: "rubbish", Body: []byte("rubbish")}}) {
			if err != nil {
				t.Error(err)
			}
		}
		if err := d.Ack(t.Context()); err != nil {
			t.Error(err)
		}
		cancel()
	}); err != nil {
		t.Error(err)
	}
	w.startExecutor()
	r := w.ended(names)[0]
	if r.Ending != rouse.EndDead || !strings.Contains(r.Reason, "version 99") {
		t.Errorf("recorded as %+v", r)
	}
	w.drained(q)
	if n := w.noted(&w.poisoned); n != 2 {
		t.Errorf("%d messages were called poison, want 2", n)
	}
}

// An executor that shuts down returns fires that have not begun, and finishes the others.
func TestAnExecutorThatEnds(t *testing.T) {
	w := newSimulation(t)
	w.exec.Grace = patience
	w.target.lane = func(spec *rouse.Spec) rouse.Lane { return rouse.Lane{Name: spec.Target, Limit: 3, Batch: 1} }
	release := make(chan struct{})
	w.target.answer = func(context.Context, rouse.Fire) rouse.Outcome { <-release; return rouse.Outcome{Verdict: rouse.Done} }
	w.startScheduler()
	first := w.startExecutor()
	names := w.put("t", 30, rouse.Spec{})
	w.until("three are called", func() bool { return len(w.target.got()) == 3 })
	first.stop()
	second := w.startExecutor()
	w.until("the second calls others", func() bool { return len(w.target.got()) == 6 })
	close(release)
	w.fired(names)
	<-first.done
	w.once()
	w.drained(second.q)
}
