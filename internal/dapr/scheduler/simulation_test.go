package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/hub/hubtest"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/store/mem"
)

// simulation is the service with a running engine in virtual time, without a network.
type simulation struct {
	*service
	t      *testing.T
	engine *timers.Timers
	began  time.Time
}

// bubble runs a test with a simulation.
func bubble(t *testing.T, test func(t *testing.T, w *simulation)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * 365 * 24 * time.Hour) // bubbles start in 2000, before which a timer cannot have a time
		sinks := watch.New(watch.Options{})
		e := timers.New(mem.New(), claim.NewSole(1), sink.Mux{job.Scheme[:len(job.Scheme)-1]: sinks}, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Look: -1}})
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := e.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		w := &simulation{service: &service{counters: &counters{}, timers: e, watch: sinks, draining: ctx}, t: t, engine: e, began: time.Now()}
		test(t, w)
		sinks.Drain()
		stop()
		running.Wait()
		sinks.Close()
		sinks.Wait()
	})
}

func (w *simulation) schedule(m *schedulerv1.JobMetadata, name string, j *schedulerv1.Job, overwrite bool) error {
	_, err := w.ScheduleJob(context.Background(), &schedulerv1.ScheduleJobRequest{Name: name, Job: j, Metadata: m, Overwrite: overwrite})
	return err
}

func (w *simulation) put(name string, j *schedulerv1.Job) {
	w.t.Helper()
	if err := w.schedule(app("a"), name, j, false); err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	w.began = time.Now()
}

func (w *simulation) delete(name string) {
	w.t.Helper()
	if _, err := w.DeleteJob(context.Background(), &schedulerv1.DeleteJobRequest{Name: name, Metadata: app("a")}); err != nil {
		w.t.Fatal(err)
	}
}

// there reports whether a job exists.
func (w *simulation) there(name string) bool {
	w.t.Helper()
	synctest.Wait()
	_, err := w.GetJob(context.Background(), &schedulerv1.GetJobRequest{Name: name, Metadata: app("a")})
	return err == nil
}

// key returns the key of a job's timer.
func (w *simulation) key(name string) rouse.Key {
	w.t.Helper()
	ref, err := job.Of(name, app("a"))
	if err != nil {
		w.t.Fatal(err)
	}
	return ref.Key()
}

// peer is a watch without a network.
type peer struct {
	*hubtest.Peer[schedulerv1.WatchJobsRequest]
	w    *simulation
	came chan *schedulerv1.WatchJobsResponse
}

// join opens a watch.
func (w *simulation) join(initial *schedulerv1.WatchJobsRequestInitial) *peer {
	p := &peer{Peer: hubtest.NewPeer[schedulerv1.WatchJobsRequest](10_000), w: w, came: make(chan *schedulerv1.WatchJobsResponse, 10_000)}
	p.Requests <- &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: initial}}
	p.Join(func() error { return w.WatchJobs(p) })
	return p
}

func (p *peer) Send(m *schedulerv1.WatchJobsResponse) error {
	p.came <- proto.Clone(m).(*schedulerv1.WatchJobsResponse)
	return nil
}

// at receives the next trigger, which must come that long after the last job was scheduled, and not earlier.
func (p *peer) at(want time.Duration) *schedulerv1.WatchJobsResponse {
	p.w.t.Helper()
	const slack = 20 * time.Millisecond // the store's clock is truncated to milliseconds, and starts are dated as late as possible
	select {
	case m := <-p.came:
		if got := time.Since(p.w.began); got < want || got > want+slack {
			p.w.t.Fatalf("%s was triggered %v after it was scheduled, want %v", m.Name, got, want)
		}
		return m
	case <-time.After(100 * 24 * time.Hour):
		p.w.t.Fatalf("no trigger came, want one after %v", want)
	}
	return nil
}

// none fails if a trigger comes within d.
func (p *peer) none(d time.Duration) {
	p.w.t.Helper()
	select {
	case m := <-p.came:
		p.w.t.Fatalf("%s was triggered %v after it was scheduled, and should not have", m.Name, time.Since(p.w.began))
	case <-time.After(d):
	}
}

func (p *peer) answer(m *schedulerv1.WatchJobsResponse, s schedulerv1.WatchJobsRequestResultStatus) {
	p.Requests <- &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
		Result: &schedulerv1.WatchJobsRequestResult{Id: m.Id, Status: s}}}
	synctest.Wait()
}

func (p *peer) done(m *schedulerv1.WatchJobsResponse) {
	p.answer(m, schedulerv1.WatchJobsRequestResultStatus_SUCCESS)
}

func (p *peer) fail(m *schedulerv1.WatchJobsResponse) {
	p.answer(m, schedulerv1.WatchJobsRequestResultStatus_FAILED)
}

func (p *peer) leave() {
	p.Cut()
	<-p.Over
	synctest.Wait()
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func TestTicksDoNotDrift(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", &schedulerv1.Job{Schedule: proto.String("@every 1s"), Repeats: proto.Uint32(4)})
		for i := range 4 {
			m := p.at(seconds(float64(i + 1)))
			time.Sleep(300 * time.Millisecond)
			p.done(m)
		}
		if w.there("x") {
			t.Error("the job is there after its repeats")
		}
		p.none(time.Minute)
	})
}

// Every missed tick is delivered, one after each answer.
func TestMissedTicksComeOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", every("@every 1s"))
		m := p.at(seconds(1))
		p.none(seconds(3.2)) // a job does not overlap itself
		for range 3 {
			p.done(m)
			m = p.at(seconds(4.2))
		}
		p.none(seconds(0.5))
		p.done(m)
		p.done(p.at(seconds(5)))
		p.done(p.at(seconds(6)))
	})
}

// Answers have no deadline.
func TestSilentWatchHoldsItsTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p, q := w.join(jobsOf("a")), w.join(jobsOf("a"))
		w.put("x", due("1s"))
		m := p.at(seconds(1))
		p.none(2 * time.Hour)
		q.none(time.Second)
		p.done(m)
		if w.there("x") {
			t.Error("the answer after two hours did not count")
		}
	})
}

func TestRetriesOfAOneShotJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", due("10s"))
		for i := range 4 {
			m := p.at(seconds(10 + float64(i)))
			time.Sleep(200 * time.Millisecond) // retries are counted from when they were sent
			p.fail(m)
			if there := w.there("x"); there != (i < 3) {
				t.Errorf("after failure %d the job is there: %v", i+1, there)
			}
		}
		p.none(time.Minute)
	})
}

func TestRetriesOfARecurringJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", every("@every 5s"))
		for _, s := range []float64{5, 6, 7, 8, 10, 11} {
			p.fail(p.at(seconds(s)))
		}
		p.done(p.at(seconds(12)))
		p.done(p.at(seconds(15)))
	})
}

func TestPolicyDrop(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		drop := &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Drop{Drop: &schedulerv1.JobFailurePolicyDrop{}}}
		w.put("x", &schedulerv1.Job{Schedule: proto.String("@every 1s"), Repeats: proto.Uint32(2), FailurePolicy: drop})
		p.fail(p.at(seconds(1)))
		p.fail(p.at(seconds(2))) // a dropped tick counts
		if w.there("x") {
			t.Error("the job is there after its repeats")
		}
		p.none(time.Minute)
	})
}

func TestPolicyWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		j := due("1s")
		j.FailurePolicy = &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{Constant: &schedulerv1.JobFailurePolicyConstant{}}}
		w.put("x", j)
		for range rouse.MaxAttempts + 100 {
			p.fail(<-p.came)
		}
		p.done(<-p.came)
		if w.there("x") {
			t.Error("the job is there after it was done")
		}
	})
}

// A job without a watch does not fail and does not expire by its time to live; when a watch comes, it is sent
// at once, with its missed ticks.
func TestStaging(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		w.put("x", &schedulerv1.Job{Schedule: proto.String("@every 1s"), Ttl: proto.String("3s")})
		w.put("y", due("1s"))
		time.Sleep(10 * time.Minute)
		w.began = time.Now()
		p := w.join(jobsOf("a"))
		counts := map[string]int{}
		for range 4 {
			m := p.at(0)
			counts[m.Name]++
			p.done(m)
		}
		if counts["x"] != 3 || counts["y"] != 1 || w.there("x") || w.there("y") {
			t.Errorf("%v came", counts)
		}
	})
}

func TestWatchThatEndsGivesItsTriggersToTheNextAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", due("1s"))
		p.at(seconds(1))
		q := w.join(jobsOf("a"))
		for n := range 3 { // as often as there are retries
			time.Sleep(time.Second)
			w.began = time.Now()
			p.leave()
			pause := seconds(1)
			if n == 0 {
				pause = 0
			}
			if m := q.at(pause); m.Id != 1 {
				t.Errorf("the first trigger of a watch has the id %d", m.Id)
			}
			p, q = q, w.join(jobsOf("a"))
		}
		p.leave()
		q.none(time.Hour) // it is a dead letter
		w.put("y", due("1s"))
		w.began = time.Now()
		q.done(q.at(seconds(1)))
	})
}

func TestOverwriteInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", due("1s"))
		old := p.at(seconds(1))
		if err := w.schedule(app("a"), "x", due("10s"), true); err != nil {
			t.Fatal(err)
		}
		w.began = time.Now()
		p.fail(old) // without effect
		m := p.at(seconds(10))
		p.done(old)
		if !w.there("x") {
			t.Error("an answer for the old job ended the new one")
		}
		p.done(m)
		if w.there("x") {
			t.Error("the new job is there after it was done")
		}
	})
}

func TestDeleteInFlightEndsRetries(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("x", every("@every 1s"))
		m := p.at(seconds(1))
		w.delete("x")
		p.fail(m)
		p.none(time.Minute)
		w.put("x", due("1s"))
		p.at(seconds(1))
		w.delete("x")
		p.leave()
		q := w.join(jobsOf("a")) // it goes to no other watch either
		q.none(time.Minute)
	})
}

// A trigger that waits for a watch is not sent if its job was deleted, replaced or paused, in whatever way.
func TestStagedJobsThatAreNotToBeSentAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		for _, name := range []string{"deleted", "deleted as a timer", "replaced", "paused", "paused and resumed"} {
			w.put(name, due("1s"))
		}
		time.Sleep(time.Minute)
		w.delete("deleted")
		if _, err := w.engine.Delete(context.Background(), w.key("deleted as a timer"), 0); err != nil {
			t.Fatal(err)
		}
		if err := w.schedule(app("a"), "replaced", due("10m"), true); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"paused", "paused and resumed"} {
			if _, err := w.engine.Pause(context.Background(), w.key(name), "", 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.engine.Resume(context.Background(), w.key("paused and resumed")); err != nil {
			t.Fatal(err)
		}
		w.began = time.Now()
		p := w.join(jobsOf("a"))
		if m := p.at(0); m.Name != "paused and resumed" {
			t.Errorf("%s was triggered", m.Name)
		}
		p.none(time.Minute)
		if m := p.at(10 * time.Minute); m.Name != "replaced" {
			t.Errorf("%s was triggered", m.Name)
		}
		if _, err := w.engine.Resume(context.Background(), w.key("paused")); err != nil {
			t.Fatal(err)
		}
		if m := p.at(10 * time.Minute); m.Name != "paused" {
			t.Errorf("%s was triggered", m.Name)
		}
	})
}

func TestDueTimeInThePast(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		w.put("once", due("-1h"))
		p.done(p.at(0))
		w.put("x", &schedulerv1.Job{Schedule: proto.String("@every 1s"), DueTime: proto.String(time.Now().Add(-2500 * time.Millisecond).Format(time.RFC3339Nano))})
		for range 3 { // at its due time, and the one missed since
			p.done(p.at(0))
		}
		p.done(p.at(seconds(0.5)))
		p.done(p.at(seconds(1.5)))
		if err := w.schedule(app("a"), "x", &schedulerv1.Job{Schedule: proto.String("0 0 * * * *"), DueTime: proto.String("2000-01-01T00:00:00Z"),
			Repeats: proto.Uint32(2)}, true); err != nil {
			t.Fatal(err)
		}
		w.began = time.Now()
		p.done(p.at(0))
		p.done(p.at(0))
		if w.there("x") {
			t.Error("the job is there after its repeats")
		}
	})
}

// A first tick that is due at once, like those of most reminders, is not missed because of the time that the
// write takes.
func TestDueAtOnceAndThenByTheSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		p := w.join(jobsOf("a"))
		in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339Nano) }
		for _, at := range []func() string{func() string { return "0s" }, func() string { return in(0) }, func() string { return in(time.Millisecond) },
			func() string { return in(2 * time.Millisecond) }} {
			w.put("x", &schedulerv1.Job{Schedule: proto.String("@every 10m"), DueTime: proto.String(at())})
			p.done(p.at(0))
			w.delete("x")
			w.put("y", &schedulerv1.Job{Schedule: proto.String("@yearly"), DueTime: proto.String(at()), Repeats: proto.Uint32(1)})
			p.done(p.at(0))
			if w.there("y") {
				t.Error("the job is there after its repeats")
			}
		}
		w.put("z", &schedulerv1.Job{Schedule: proto.String("@every 10m"), DueTime: proto.String("0s")})
		p.done(p.at(0))
		p.done(p.at(10 * time.Minute))
	})
}

// A job whose time to live ends before its first tick is accepted, and deleted at once.
func TestJobThatIsOverBeforeItBegins(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		for i, j := range []*schedulerv1.Job{
			{Schedule: proto.String("@every 5s"), Ttl: proto.String("3s")},
			{Schedule: proto.String("@yearly"), Ttl: proto.String("1ms")},
			{Schedule: proto.String("@every 5s"), Ttl: proto.String("-3s")},
			{Schedule: proto.String("@every 5s"), Ttl: proto.String(time.Now().Add(time.Second).Format(time.RFC3339))},
		} {
			name := fmt.Sprint("j", i)
			w.put(name, j)
			if w.there(name) {
				t.Errorf("job %d is there", i)
			}
			w.put(name, due("1h"))
			if err := w.schedule(app("a"), name, j, false); err == nil {
				t.Errorf("job %d replaces another one that it should not", i)
			}
			if !w.there(name) {
				t.Errorf("job %d has removed another one that it should not", i)
			}
			if err := w.schedule(app("a"), name, j, true); err != nil || w.there(name) {
				t.Errorf("job %d does not replace another one: %v", i, err)
			}
		}
		wrong := &schedulerv1.Job{Schedule: proto.String("TZ=Nowhere/Atall @daily"), Ttl: proto.String("-1s")}
		if err := w.schedule(app("a"), "x", wrong, false); err == nil {
			t.Error("a time zone that there is not is taken of a job that is over")
		}
	})
}
