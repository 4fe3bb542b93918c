package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/dapr/job"
)

func TestTriggersCountUpAndAreAnsweredInAnyOrder(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		e.deliver(fires(t, app("a"), 3)...)
		got := p.got()
		for i, m := range got {
			if m.Id != uint64(i+1) || m.Name != fmt.Sprintf("j%03d", i) || !proto.Equal(m.Metadata, app("a")) {
				t.Errorf("trigger %d: %v", i, m)
			}
		}
		p.answer(3, success)
		p.answer(1, failed)
		e.want("j002", rouse.Done)
		e.want("j000", rouse.Failed)
		e.none()
		for _, id := range []uint64{0, 1, 3, 4, 1 << 60} { // already answered, or never sent
			p.answer(id, success)
		}
		e.none()
		p.answer(2, success)
		e.want("j001", rouse.Done)
		q := join(s, jobsOf("a"))
		e.deliver(fires(t, app("a"), 2)...)
		if a, b := p.got(), q.got(); len(a) != 1 || len(b) != 1 || a[0].Id != 4 || b[0].Id != 1 {
			t.Errorf("got %v and %v", a, b)
		}
	})
}

func TestWrongWordsEndTheirOwnWatchOnly(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		good := join(s, jobsOf("a"))
		twice := jobsOf("a")
		twice.AcceptJobTypes = []schedulerv1.JobTargetType{0, 0}
		unknown := jobsOf("a")
		unknown.AcceptJobTypes = []schedulerv1.JobTargetType{7}
		for name, initial := range map[string]*schedulerv1.WatchJobsRequestInitial{
			"no namespace":           {AppId: "a"},
			"no app":                 {Namespace: "default"},
			"a type twice":           twice,
			"an unknown type":        unknown,
			"reminders of no actors": actorsOf(), // crashed the protocol's first server
			"nothing":                nil,
		} {
			var inv *rouse.Invalid
			if err := <-join(s, initial).Over; !errors.As(err, &inv) {
				t.Errorf("%s: the watch ended with %v", name, err)
			}
		}
		for name, m := range map[string]*schedulerv1.WatchJobsRequest{
			"a second initial":  {WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: jobsOf("a")}},
			"an empty message":  {},
			"an unknown status": {WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{Result: &schedulerv1.WatchJobsRequestResult{Id: 1, Status: 9}}},
		} {
			p := join(s, jobsOf("b"))
			e.deliver(fire(t, app("b"), name))
			p.Requests <- m
			var inv *rouse.Invalid
			if err := <-p.Over; !errors.As(err, &inv) {
				t.Errorf("%s: the watch ended with %v", name, err)
			}
			q := join(s, jobsOf("b"))
			e.want(name, rouse.Failed) // it is retried, as of a stream that ends by itself
			_ = q.leave()
		}
		first := newPeer()
		first.Requests <- &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{Result: &schedulerv1.WatchJobsRequestResult{Id: 1}}}
		var inv *rouse.Invalid
		if err := s.Serve(first); !errors.As(err, &inv) {
			t.Errorf("a watch without initial ended with %v", err)
		}
		e.deliver(fire(t, app("a"), "x"))
		sameNames(t, good.gotNames(), "x")
	})
}

func TestWhatIsAccepted(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		both := jobsOf("a")
		both.ActorTypes = []string{"T", "T"}
		jobs := jobsOf("b")
		jobs.ActorTypes = []string{"U"} // reminders are delivered although only jobs are accepted
		jobs.AcceptJobTypes = []schedulerv1.JobTargetType{schedulerv1.JobTargetType_JOB_TARGET_TYPE_JOB}
		reminders := actorsOf("V")
		p, q, r := join(s, both), join(s, jobs), join(s, reminders)
		e.deliver(fire(t, app("a"), "1"), fire(t, actor("T", "i", ""), "2"), fire(t, app("b"), "3"), fire(t, actor("U", "i", ""), "4"),
			fire(t, app("host"), "5"), fire(t, actor("V", "i", ""), "6"))
		other := app("a")
		other.Namespace = "other"
		e.deliver(fire(t, other, "7"))
		sameNames(t, p.gotNames(), "1", "2")
		sameNames(t, q.gotNames(), "3", "4")
		sameNames(t, r.gotNames(), "6")
		if n := s.Counts().Waiting; n != 2 {
			t.Errorf("%d wait, want the 2 that no stream accepts", n)
		}
	})
}

func TestStreamsTakeTurns(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		ps := []*peer{join(s, jobsOf("a")), join(s, jobsOf("a")), join(s, jobsOf("a"))}
		e.deliver(fires(t, app("a"), 9)...)
		for i, p := range ps {
			sameNames(t, p.gotNames(), fmt.Sprintf("j%03d", i), fmt.Sprintf("j%03d", i+3), fmt.Sprintf("j%03d", i+6))
		}
		for range 6 { // one by one as well
			e.deliver(fire(t, app("a"), "x"))
		}
		for i, p := range ps {
			if n := len(p.got()); n != 2 {
				t.Errorf("stream %d got %d of 6", i, n)
			}
		}
	})
}

func TestWhatAStreamHadGoesToTheNext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		e.deliver(fires(t, app("a"), 4)...)
		got := p.got()
		p.done(got[1])
		e.want("j001", rouse.Done)
		q := join(s, jobsOf("a"))
		sameNames(t, q.gotNames())
		_ = p.leave()
		for _, name := range []string{"j000", "j002", "j003"} {
			if o := e.want(name, rouse.Failed); !o.Lost {
				t.Errorf("%s is not counted as lost: %+v", name, o)
			}
		}
		e.deliver(fires(t, app("a"), 4)...)
		sameNames(t, q.gotNames(), "j000", "j001", "j002", "j003")
	})
}

// guarded is a peer whose stream is bound to its credential.
type guarded struct {
	*peer
	ctx context.Context
}

func (g guarded) Context() context.Context { return g.ctx }

// The end of a sidecar's credential tells nothing of the triggers that it has: they failed, but are not lost.
func TestTheEndOfACredentialIsNoLoss(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p, key := newPeer(), access.Revocable(access.Principal{})
		close(p.blocked)
		ctx, end := new(access.Control).Bound(p.Context(), key)
		defer end()
		p.Requests <- &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: jobsOf("a")}}
		p.Join(func() error { return s.Serve(guarded{p, ctx}) })
		e.deliver(fire(t, app("a"), "x"))
		sameNames(t, p.gotNames(), "x")
		key.End()
		if o := e.want("x", rouse.Failed); o.Lost {
			t.Errorf("%+v", o)
		}
	})
}

// Stores have jobs without retries that have one attempt. A loss does not spend it, but is counted.
func TestLossesOfAJobWithOneAttempt(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		for lost := range uint32(rouse.MaxLost) {
			p := join(s, jobsOf("a"))
			f := fire(t, app("a"), "x")
			f.Last, f.Lost = true, lost
			e.deliver(f)
			sameNames(t, p.gotNames(), "x")
			_ = p.leave()
			want := rouse.Deferred
			if lost+1 == rouse.MaxLost {
				want = rouse.Failed
			}
			if o := e.want("x", want); !o.Lost || (o.After >= time.Second) != (lost > 0 && want == rouse.Deferred) {
				t.Errorf("after %d losses: %+v", lost, o)
			}
		}
	})
}

// Sidecars end all their watches when the list of members changes: that is no loss, for a while.
func TestStreamsThatEndAsMembersChange(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		s.Share(0, 2) // the first list changes nothing
		lose := func(want rouse.Verdict) {
			t.Helper()
			p := join(s, jobsOf("a"))
			e.deliver(fire(t, app("a"), "x"))
			sameNames(t, p.gotNames(), "x")
			_ = p.leave()
			if o := e.want("x", want); o.Lost != (want == rouse.Failed) {
				t.Errorf("%+v", o)
			}
		}
		lose(rouse.Failed)
		s.Share(0, 3)
		time.Sleep(rewatch - time.Second)
		lose(rouse.Deferred)
		time.Sleep(time.Second)
		lose(rouse.Failed)
	})
}

// What was not written to a stream is not lost with it.
func TestWhatWasNotWrittenGoesToTheNext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		slow := newPeer()
		slow.blocked = make(chan struct{}, 1)
		slow.blocked <- struct{}{} // it reads one message
		slow.join(s, jobsOf("a"))
		e.deliver(fires(t, app("a"), 3)...)
		next := join(s, jobsOf("a"))
		_ = slow.leave()
		if o := e.want("j000", rouse.Failed); !o.Lost {
			t.Errorf("%+v", o)
		}
		e.none()
		sameNames(t, next.gotNames(), "j001", "j002")
	})
}

func TestTriggersWithoutAWatchWait(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		e.deliver(fires(t, app("a"), 2)...)
		p := join(s, jobsOf("b"))
		e.none()
		if why := s.Obstacle("dapr.default", fire(t, app("a"), "x").Spec); why == "" {
			t.Error("no reason is given why they wait")
		}
		q := join(s, jobsOf("a"))
		for _, name := range []string{"j000", "j001"} { // the engine decides whether to send them
			if o := e.want(name, rouse.Deferred); o.After > 0 && o.After.Milliseconds() > 1 {
				t.Errorf("%s is to come again after %v", name, o.After)
			}
		}
		e.deliver(fires(t, app("a"), 2)...)
		sameNames(t, q.gotNames(), "j000", "j001")
		sameNames(t, p.gotNames())
		_ = q.leave()
		e.want("j000", rouse.Failed)
		e.want("j001", rouse.Failed)
		e.deliver(fires(t, app("a"), 2)...) // they wait again
		e.none()
		if n := s.Counts().Waiting; n != 2 {
			t.Errorf("%d wait", n)
		}
		if why := s.Obstacle("dapr.default", fire(t, app("b"), "x").Spec); why != "" {
			t.Errorf("an obstacle although a sidecar watches: %s", why)
		}
	})
}

func TestNoMoreAreHeldThanFit(t *testing.T) {
	bubble(t, Options{MaxHeld: 16}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("b"))
		e.deliver(fires(t, app("a"), 14)...)
		e.deliver(fire(t, app("b"), "b1"), fire(t, app("b"), "b2"), fire(t, app("b"), "b3"))
		sameNames(t, p.gotNames(), "b1", "b2") // but not the third: there are too many, two of them from this one
		e.deliver(fire(t, app("a"), "a"), fire(t, app("c"), "c"))
		for _, name := range []string{"b3", "a"} {
			if o := e.want(name, rouse.Deferred); o.After.Seconds() < 1 || o.After.Seconds() > 30 {
				t.Errorf("%s is put off for %v", name, o.After)
			}
		}
		e.none()
		if c := s.Counts(); c.Held != 17 || c.Waiting != 15 || c.Streams != 1 || c.Sent != 2 {
			t.Errorf("it counts %+v", c)
		}
		join(s, jobsOf("a"))
		for i := range 14 {
			e.want(fmt.Sprintf("j%03d", i), rouse.Deferred)
		}
	})
}

// A stream that is not read holds up to its limit, and the others continue.
func TestSlowStreamBlocksOnlyItself(t *testing.T) {
	bubble(t, Options{MaxUnsent: 5}, func(t *testing.T, s *Sink, e *engine) {
		slow := newPeer().join(s, jobsOf("a"))
		fast := join(s, jobsOf("a"))
		other := join(s, jobsOf("b"))
		all := fires(t, app("a"), 100)
		for i := range all {
			e.deliver(all[i])
		}
		e.deliver(fire(t, app("b"), "b"))
		sameNames(t, other.gotNames(), "b")
		got := fast.got()
		if len(got) < 90 {
			t.Errorf("the stream that is read got %d of 100", len(got))
		}
		_ = slow.leave()
		came := map[string]bool{}
		for _, m := range append(got, fast.got()...) {
			fast.done(m)
			came[m.Name] = true
		}
		for i := range all {
			name, v := fmt.Sprintf("j%03d", i), rouse.Failed // of the stream that was not read
			if came[name] {
				v = rouse.Done
			}
			e.want(name, v)
		}
	})
}

func TestStreamThatDoesNotAnswerHoldsABoundedNumber(t *testing.T) {
	bubble(t, Options{MaxHeld: 12}, func(t *testing.T, s *Sink, e *engine) {
		mute, good := join(s, jobsOf("a")), join(s, jobsOf("a"))
		for _, f := range fires(t, app("a"), 20) {
			e.deliver(f)
			good.done(good.got()...)
		}
		if n := len(mute.got()); n != 3 {
			t.Errorf("the stream that does not answer has %d", n)
		}
	})
}

func TestDeletedJobsAreNotSent(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		ref, err := job.Of("x", app("a"))
		if err != nil {
			t.Fatal(err)
		}
		waiting := fire(t, app("a"), "x")
		e.deliver(waiting, fire(t, app("a"), "y"))
		s.Delete(ref, 4)
		e.want("x", rouse.Deferred)
		e.none()
		foreign := waiting
		foreign.Generation = 1 << 50 // that a timer brought from another store
		e.deliver(foreign)
		s.Delete(ref, 4)
		e.want("x", rouse.Deferred)
		e.none()
		newer := waiting
		newer.Generation = 4
		e.deliver(newer)
		s.Delete(ref, 4) // the generation that replaced the older one
		e.none()
		p := join(s, jobsOf("a"))
		e.want("x", rouse.Deferred)
		e.want("y", rouse.Deferred)
		newer.ID = "id-newer"
		e.deliver(waiting, newer)
		q := join(s, jobsOf("a"))
		s.Delete(ref, 4)
		_ = p.leave()
		e.want("x", rouse.Deferred) // the older one is not tried again
		e.want("newer", rouse.Failed)
		sameNames(t, q.gotNames())
	})
}

func TestDrainPutsOffWhatWaits(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		e.deliver(fire(t, app("a"), "1"), fire(t, app("b"), "2"))
		s.Drain()
		e.want("2", rouse.Deferred)
		e.deliver(fire(t, app("a"), "3"))
		e.want("3", rouse.Deferred)
		e.none()
		p.done(p.got()...)
		e.want("1", rouse.Done)
	})
}

func TestTheEndOfTheContextEndsEverything(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		e.deliver(fire(t, app("a"), "1"), fire(t, app("b"), "2"))
		got := p.got()
		e.stop()
		e.want("1", rouse.Deferred)
		e.want("2", rouse.Deferred)
		e.running.Wait()
		p.done(got...) // too late, without effect
		e.none()
		e.deliver(fire(t, app("a"), "3"))
		e.want("3", rouse.Deferred)
	})
}

func TestReleaseGivesBackWhatLeaves(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, limit(actorsOf("T"), "T", "", 3))
		stays := fire(t, actor("T", "i", ""), "stays")
		stayed := fire(t, app("other"), "stayed")
		leaving := func(f *rouse.Fire) bool { return f.Name != stays.Name && f.Name != stayed.Name }
		e.deliver(fire(t, actor("T", "i", ""), "old"), stays, fire(t, app("other"), "waits"), stayed)
		time.Sleep(time.Second)
		at := time.Now()
		time.Sleep(time.Second)
		e.deliver(fire(t, actor("T", "i", ""), "new"), fire(t, actor("T", "i", ""), "limited"))
		s.Release(leaving, time.Time{})
		e.want("waits", rouse.Deferred)
		e.want("limited", rouse.Deferred)
		e.none()
		got := p.got()
		s.Release(leaving, at)
		e.want("old", rouse.Deferred)
		e.none()
		p.done(got...) // the old one's is too late, without effect
		e.want("stays", rouse.Done)
		e.want("new", rouse.Done)
		e.none()
	})
}

func TestCloseEndsWatches(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		e.deliver(fire(t, app("a"), "1"))
		s.Close()
		if err := <-p.Over; !errors.Is(err, rouse.ErrClosed) {
			t.Errorf("the watch ended with %v", err)
		}
		e.want("1", rouse.Deferred)
		if err := <-join(s, jobsOf("a")).Over; !errors.Is(err, rouse.ErrClosed) {
			t.Errorf("a later one with %v", err)
		}
	})
}

func TestTooManyWatches(t *testing.T) {
	bubble(t, Options{MaxStreams: 1}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		if err := <-join(s, jobsOf("a")).Over; !errors.Is(err, rouse.ErrOverloaded) {
			t.Errorf("got %v", err)
		}
		if n := s.Counts().Refused; n != 1 {
			t.Errorf("%d were refused", n)
		}
		_ = p.leave()
		q := join(s, jobsOf("a"))
		e.deliver(fire(t, app("a"), "1"))
		sameNames(t, q.gotNames(), "1")
	})
}

func TestFiresThatAreNoJobsAreRejected(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		f := fire(t, app("a"), "x")
		spec := *f.Spec
		spec.Payload = []byte("{}")
		f.Spec = &spec
		e.deliver(f, fire(t, app("a"), "y"))
		e.want("x", rouse.Rejected)
		e.none()
	})
}

func TestCheck(t *testing.T) {
	s := New(Options{})
	good := fire(t, app("a"), "x").Spec
	if err := s.Check(good); err != nil {
		t.Errorf("a job's own spec is refused: %v", err)
	}
	for name, edit := range map[string]func(*rouse.Spec){
		"another app":     func(s *rouse.Spec) { s.Target = "dapr:job/b" },
		"another kind":    func(s *rouse.Spec) { s.Target = "dapr:actor/a" },
		"no target":       func(s *rouse.Spec) { s.Target = "dapr:" },
		"too many parts":  func(s *rouse.Spec) { s.Target = "dapr:job/a/b" },
		"another scheme":  func(s *rouse.Spec) { s.Target = "stream:job/a" },
		"no job":          func(s *rouse.Spec) { s.Payload = nil },
		"no protobuf":     func(s *rouse.Spec) { s.Payload = []byte("hello") },
		"another type":    func(s *rouse.Spec) { s.ContentType = "text/plain" },
		"a webhook":       func(s *rouse.Spec) { s.Webhook.Method = "PUT" },
		"an ack deadline": func(s *rouse.Spec) { s.Retry.Timeout = 1e9 },
		"a nameless job": func(s *rouse.Spec) {
			s.Payload, _ = proto.Marshal(&schedulerv1.NamedJob{Name: "x", Job: &schedulerv1.Job{}})
		},
	} {
		spec := *good
		edit(&spec)
		var inv *rouse.Invalid
		if err := s.Check(&spec); !errors.As(err, &inv) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLanes(t *testing.T) {
	s := New(Options{MaxHeld: 14})
	names := map[string]bool{}
	for _, m := range []*schedulerv1.JobMetadata{app("a"), app("b"), actor("a", "1", ""), actor("b", "1", "")} {
		for _, ns := range []string{"x", "y"} {
			one, two := s.Lane(ns, fire(t, m, "1").Spec), s.Lane(ns, fire(t, m, "2").Spec)
			if one != two || one.Limit != 7 || one.Batch != batch {
				t.Errorf("lanes %+v and %+v", one, two)
			}
			names[one.Name] = true
		}
	}
	if len(names) != 8 {
		t.Errorf("%d lanes for 8 channels", len(names))
	}
}

// A delivery whose context has already ended is deferred without being sent.
func TestDeliveryAfterTheEnd(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, e *engine) {
		p := join(s, jobsOf("a"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var got []rouse.Outcome
		s.Deliver(ctx, []rouse.Fire{fire(t, app("a"), "x")}, func(_ int, o rouse.Outcome) { got = append(got, o) })
		if len(got) != 1 || got[0].Verdict != rouse.Deferred || !slices.Equal(p.gotNames(), nil) {
			t.Errorf("reported %v", got)
		}
	})
}
