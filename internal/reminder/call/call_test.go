package call

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

func ids(list []*reminderv1.ExecuteReminderRequest) string {
	s := ""
	for _, r := range list {
		s += r.Reminder.ReminderName + " "
	}
	return s
}

func demand(t *testing.T, what string, p *peer, want string) {
	t.Helper()
	if got := ids(p.take()); got != want {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

func TestExecutionsGoToTheSidecarOfTheirBucket(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		one, two := join(s, "x", "one", 0), join(s, "x", "two", 0)
		if len(one.updates) != 0 {
			t.Error("a sidecar is told a table in which it has no bucket")
		}
		s.SetTable(tableOf(1, "x", "one", "two"), nil)
		synctest.Wait()
		if len(one.updates) != 1 || len(one.updates[0].InstanceSync) != 2 || one.updates[0].Generation != 1 {
			t.Errorf("a sidecar is told %v", one.updates)
		}
		o := deliver(ctx, t, s, fires("x", 1, 11, 2, 12))
		demand(t, "the first", one, "1 2 ")
		demand(t, "the second", two, "11 12 ")
		one.answer(&reminderv1.ExecuteReminderResponse{ReminderId: "reminder||A||1||drftghrq", Success: true})
		one.answer(&reminderv1.ExecuteReminderResponse{ReminderId: "reminder||A||11||drftghrq", Success: true}) // belongs to another sidecar
		two.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire11", Detail: "busy"})
		two.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire12", Attempt: 7, Success: true}) // an attempt that was not made
		o.is("answered", rouse.Done, rouse.Failed, 0, 0)
		one.Cut()
		o.is("what the first had not answered", rouse.Done, rouse.Failed, rouse.Failed, 0)
		two.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire12", Attempt: 1, Success: true})
		two.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire12", Attempt: 1}) // too late
		o.is("all", rouse.Done, rouse.Failed, rouse.Failed, rouse.Done)
	})
}

func TestExecutionsWithoutASidecarWait(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		join(s, "y", "one", 0) // another app
		o := deliver(ctx, t, s, fires("x", 1, 2))
		time.Sleep(time.Hour)
		o.is("no sidecar is connected", 0, 0)
		if s.Obstacle("", fires("x", 1)[0].Spec) == "" || s.Counts().Waiting != 2 {
			t.Error("no obstacle is reported")
		}
		one := join(s, "x", "one", 0)
		o.is("a sidecar has connected: the engine checks again", rouse.Deferred, rouse.Deferred)
		deliver(ctx, t, s, fires("x", 1))
		demand(t, "it comes again", one, "1 ")

		o = deliver(ctx, t, s, fires("z", 1))
		s.Release()
		o.is("the nodes have changed", rouse.Deferred)
	})
}

func TestSilence(t *testing.T) {
	run(t, Options{Heartbeat: 2 * time.Second}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one", "two"), nil)
		one, two := join(s, "x", "one", 0), join(s, "x", "two", 0)
		o := deliver(ctx, t, s, fires("x", 1))
		demand(t, "its own", one, "1 ")
		time.Sleep(time.Minute / 4)
		if synctest.Wait(); one.beats < 7 || len(s.Clients()) != 2 {
			t.Errorf("%d heartbeats in 15 s, and %v are connected", one.beats, s.Clients())
		}
		close(one.silent)
		time.Sleep(5 * time.Second)
		o.is("it may still be there", 0)
		time.Sleep(3 * time.Second)
		o.is("it was silent for too long", rouse.Failed)
		deliver(ctx, t, s, fires("x", 1))
		demand(t, "the next attempt", two, "1 ")
		if err := <-one.Over; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("it is told %v", err)
		}
		if s.Counts().Lost != 1 || len(s.Clients()) != 1 {
			t.Errorf("%+v, %v", s.Counts(), s.Clients())
		}
	})
}

func TestNoAnswer(t *testing.T) {
	run(t, Options{Timeout: 10 * time.Second}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		one := join(s, "x", "one", 1)
		o := deliver(ctx, t, s, fires("x", 1, 2))
		demand(t, "one at a time", one, "1 ")
		time.Sleep(9 * time.Second)
		o.is("it may still answer", 0, 0)
		time.Sleep(2 * time.Second)
		o.is("it has not", rouse.Failed, 0)
		demand(t, "there is room", one, "2 ")
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire2", Success: true})
		o.is("the late answer is passed over", rouse.Failed, rouse.Done)
	})
}

// What waits for room is sent as soon as there is some, not with the next heartbeat.
func TestAnAnswerMakesRoomAtOnce(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		one := join(s, "x", "one", 1)
		deliver(ctx, t, s, fires("x", 1, 2))
		demand(t, "one at a time", one, "1 ")
		began := time.Now()
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})
		if demand(t, "the next", one, "2 "); time.Since(began) != 0 {
			t.Errorf("after %v", time.Since(began))
		}
	})
}

func TestASidecarThatConnectsAgainTakesOver(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		before := join(s, "x", "one", 2)
		o := deliver(ctx, t, s, fires("x", 1, 2, 3))
		demand(t, "it had", before, "1 2 ")
		after := join(s, "x", "one", 0)
		if err := <-before.Over; status.Code(err) != codes.Aborted {
			t.Errorf("the older stream is told %v", err)
		}
		o.is("what the older stream had, and what it was not sent", rouse.Failed, rouse.Failed, rouse.Deferred)
		deliver(ctx, t, s, fires("x", 1, 2, 3))
		demand(t, "the new stream has", after, "1 2 3 ")
	})
}

// What was not written to a sidecar spends no attempt when it leaves.
func TestUnwrittenExecutionsOfOneWhoLeavesAreNoAttempt(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one", "two"), nil)
		one, two := join(s, "x", "one", 0), join(s, "x", "two", 0)
		read := deliver(ctx, t, s, fires("x", 1))
		demand(t, "it reads", one, "1 ")
		one.stuck.Store(true)
		unread := deliver(ctx, t, s, fires("x", 2, 3))
		one.Cut()
		demand(t, "the other one has", two, "2 3 ")
		read.is("what was written", rouse.Failed)
		unread.is("what was not written", 0, 0)
	})
}

func TestTheTableMovesWhatWasNotSent(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one", "two"), nil)
		one, two := join(s, "x", "one", 1), join(s, "x", "two", 1)
		deliver(ctx, t, s, fires("x", 1, 2, 3))
		demand(t, "it has room for one", one, "1 ")
		s.SetTable(tableOf(2, "x", "two", "one"), nil)
		demand(t, "the rest goes", two, "2 ")
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})
		demand(t, "nothing is left", one, "")
	})
}

func TestHold(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		one := join(s, "x", "one", 2)
		list := fires("x", 1, 2, 3)
		first, second, third := list[0].Name, list[1].Name, list[2].Name
		o := deliver(ctx, t, s, list)
		demand(t, "two are executed", one, "1 2 ")

		// One is being executed, one waits, one is not here.
		held := make(chan []string, 1)
		go func() {
			within, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			busy, err := s.Hold(within, "h", []string{first, second, third, "other"}, 20*time.Second)
			if err != nil {
				t.Error(err)
			}
			held <- busy
		}()
		synctest.Wait()
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})
		demand(t, "what waits is held, though there is room", one, "")
		if busy := <-held; len(busy) != 1 || busy[0] != second {
			t.Errorf("%q are executed still", busy)
		}
		o.is("held", rouse.Done, 0, 0)
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire2", Success: true})
		again := deliver(ctx, t, s, fires("x", 1, 2))
		demand(t, "what was not held is sent, what was held is not", one, "2 ")
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire2", Success: true})
		s.ReleaseHold("h", map[string]uint64{first: 11})
		again.is("released", rouse.Deferred, rouse.Done)
		o.is("released", rouse.Done, rouse.Done, rouse.Deferred)

		stale := deliver(ctx, t, s, fires("x", 1))
		stale.is("it was on its way before the reminder was moved", rouse.Deferred)
		fresh := fires("x", 1)
		fresh[0].Token = 11
		deliver(ctx, t, s, fresh)
		demand(t, "this one was not", one, "1 ")
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})

		// A hold expires, and two holds on one reminder are independent.
		for _, name := range []string{"short", "long"} {
			length := map[string]time.Duration{"short": 5 * time.Second, "long": 15 * time.Second}[name]
			if busy, err := s.Hold(ctx, name, []string{third}, length); err != nil || len(busy) != 0 {
				t.Error(busy, err)
			}
		}
		parked := deliver(ctx, t, s, fires("x", 3))
		time.Sleep(10 * time.Second)
		parked.is("the other one holds it", 0)
		time.Sleep(6 * time.Second)
		parked.is("both are over", rouse.Deferred)
		if _, err := s.Hold(ctx, "h", []string{first}, time.Hour); err == nil {
			t.Error("a hold of an hour is taken")
		}
	})
}

func TestDelete(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		one := join(s, "x", "one", 1)
		list := fires("x", 1, 2)
		o := deliver(ctx, t, s, list)
		demand(t, "one at a time", one, "1 ")
		s.Delete(list[1].Name)
		s.Delete(list[0].Name)
		o.is("what was not sent is not", 0, rouse.Deferred)
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})
		demand(t, "nothing follows", one, "")
	})
}

func TestBounds(t *testing.T) {
	run(t, Options{MaxHeld: 16, MaxStreams: 1}, func(t *testing.T, ctx context.Context, s *Sink) {
		o := deliver(ctx, t, s, fires("x", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17))
		if s.Counts().Inside != 16 {
			t.Errorf("%d are in memory", s.Counts().Inside)
		}
		o.mu.Lock()
		if o.of[16].Verdict != rouse.Deferred || o.of[16].After < time.Second {
			t.Errorf("the one too many is %+v", o.of[16])
		}
		o.mu.Unlock()
		few := deliver(ctx, t, s, fires("y", 1))
		few.is("who has few is let in", 0)
		join(s, "y", "one", 0)
		if err := <-join(s, "y", "two", 0).Over; err == nil {
			t.Error("there is no bound for streams")
		}
	})
}

func TestWhatCannotBeExecuted(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		list := fires("x", 1, 2)
		list[0].Spec.ContentType = "text/plain"
		list[1].Spec.Labels["reminder-id"] = "7"
		deliver(ctx, t, s, list).is("not of a reminder", rouse.Rejected, rouse.Rejected)
		made, err := convert.New(convert.Place{App: "x", ID: list[0].Name, Bucket: "A1"}, &reminderv1.Reminder{InitialDelay: "1m", Ttl: timestamppb.New(time.Now().Add(time.Hour))},
			nil, rouse.At(time.Now()), 128)
		if err != nil {
			t.Fatal(err)
		}
		ends := fires("x", 3)
		ends[0].Spec = &made.Spec
		deliver(ctx, t, s, ends).is("in its time", 0)
		time.Sleep(time.Hour + time.Minute)
		deliver(ctx, t, s, ends).is("after its time to live", rouse.Gone)
		if err := s.Check(list[0].Spec); err == nil {
			t.Error("it is taken")
		}
	})
}

func TestTheEndOfWhoDelivers(t *testing.T) {
	run(t, Options{}, func(t *testing.T, _ context.Context, s *Sink) {
		ctx, cancel := context.WithCancel(t.Context())
		s.SetTable(tableOf(1, "x", "one"), nil)
		one := join(s, "x", "one", 1)
		o := deliver(ctx, t, s, fires("x", 1, 2))
		demand(t, "one at a time", one, "1 ")
		cancel()
		time.Sleep(time.Second)
		o.is("nothing is known of what was sent", rouse.Deferred, rouse.Deferred)
		deliver(ctx, t, s, fires("x", 3)).is("after the end", rouse.Deferred)
	})
}

func TestRemindersOfActorsGoToTheirHosts(t *testing.T) {
	at := map[string]string{}
	o := Options{Host: func(app string, a *reminderv1.Actor) string { return at[app+a.ActorId] }}
	run(t, o, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one", "two"), nil)
		one, two := join(s, "x", "one", 1), join(s, "x", "two", 0)
		of := func(actor string, token int32) []rouse.Fire {
			list := fires("x", token)
			list[0].Spec.Labels["reminder-actor"] = "cart||" + actor
			return list
		}
		at["xa"], at["xb"] = "two", "three"
		deliver(ctx, t, s, of("a", 1))
		demand(t, "to its host, whatever its bucket", two, "1 ")
		deliver(ctx, t, s, of("b", 2)).is("its host is not connected here", rouse.Deferred)
		deliver(ctx, t, s, of("d", 4))
		demand(t, "one of which nothing is known is like all others", one, "4 ")

		at["xd"] = "one"
		waits := deliver(ctx, t, s, of("d", 5))
		waits.is("its host has no room", 0)
		one.Cut()
		waits.is("its host has gone", rouse.Deferred)
	})
}

// A sidecar for which no bucket is dealt, as there is no leader, executes what is due all the same.
func TestASidecarWithoutABucketExecutes(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		time.Sleep(time.Hour) // the wait is the sidecar's
		one := join(s, "x", "one", 0)
		time.Sleep(2 * bucketWait)
		if n := one.tables(); n != 0 {
			t.Errorf("it has %d tables although none is known", n)
		}
		s.SetTable(tableOf(1, "x", "gone"), nil)
		two := join(s, "x", "two", 0)
		if n := two.tables(); n != 0 {
			t.Errorf("it has %d tables at once", n)
		}
		time.Sleep(bucketWait)
		if n := two.tables(); n != 1 {
			t.Errorf("it has %d tables after %v", n, bucketWait)
		}
		one.Cut()
		deliver(ctx, t, s, fires("x", 1))
		demand(t, "the sidecar without a bucket", two, "1 ")
		s.SetTable(tableOf(2, "x", "two"), nil)
		if n := two.tables(); n != 2 {
			t.Errorf("it has %d tables with a bucket", n)
		}
	})
}

// TestTheFirstTableComesBeforeExecutions: a sidecar that has no bucket yet gets neither. Executions wait for
// it, or go to another one.
func TestTheFirstTableComesBeforeExecutions(t *testing.T) {
	run(t, Options{Host: func(_ string, a *reminderv1.Actor) string { return a.GetActorId() }}, func(t *testing.T, ctx context.Context, s *Sink) {
		one := join(s, "x", "one", 0)
		o := deliver(ctx, t, s, fires("x", 1))
		o.is("no sidecar has a table", 0)
		if why := s.Obstacle("", fires("x", 1)[0].Spec); why != "no sidecar of x has a bucket yet" {
			t.Errorf("the obstacle is %q", why)
		}
		s.SetTable(tableOf(1, "x", "one"), nil)
		o.is("the engine checks again", rouse.Deferred)
		deliver(ctx, t, s, fires("x", 1))
		demand(t, "the sidecar with a table", one, "1 ")
		if len(one.updates) != 1 || s.Obstacle("", fires("x", 1)[0].Spec) != "" {
			t.Errorf("it was told %v", one.updates)
		}

		two := join(s, "x", "two", 0)
		deliver(ctx, t, s, fires("x", 11)) // of a bucket that the table does not have
		deliver(ctx, t, s, fires("x", 12))
		demand(t, "the one with a table, in turn", one, "11 12 ")
		hosted := fires("x", 2)
		of, _ := newTask(&hosted[0], rouse.At(time.Now()))
		of.request.Actor, of.host, of.borrowed = &reminderv1.Actor{ActorType: "T", ActorId: "two"}, "two", true
		ended := make(chan rouse.Outcome, 1)
		go func() {
			o, err := s.Execute(ctx, "x", hosted[0].Name, of.request, 0)
			if err != nil {
				t.Error(err)
			}
			ended <- o
		}()
		if o := <-ended; o.Verdict != rouse.Deferred {
			t.Errorf("of an actor whose host has no table: %+v", o)
		}
		s.SetTable(tableOf(2, "x", "one", "two"), nil)
		synctest.Wait()
		deliver(ctx, t, s, fires("x", 13))
		demand(t, "the other one has its table now", two, "13 ")
		if len(two.updates) != 1 {
			t.Errorf("it was told %v", two.updates)
		}
	})
}
