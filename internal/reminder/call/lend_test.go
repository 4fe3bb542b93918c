package call

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// An execution without a sidecar here goes to an instance that has one, and comes back if that instance is
// gone; this applies to waiting ones too.
func TestExecutionsGoToOtherInstances(t *testing.T) {
	var mu sync.Mutex
	var lent []string
	answers := make(chan rouse.Outcome)
	o := Options{Lend: func(ctx context.Context, address, app, timer string, r *reminderv1.ExecuteReminderRequest, _ uint32) rouse.Outcome {
		mu.Lock()
		lent = append(lent, r.FireId+" at "+address)
		mu.Unlock()
		select {
		case o := <-answers:
			return o
		case <-ctx.Done():
			return rouse.Outcome{Verdict: rouse.Deferred, After: time.Second, Detail: ctx.Err().Error()}
		}
	}}
	took := func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		list := lent
		lent = nil
		slices.Sort(list)
		return list
	}
	run(t, o, func(t *testing.T, ctx context.Context, s *Sink) {
		answers = make(chan rouse.Outcome) // created inside the bubble
		s.SetTable(tableOf(1, "x", "one", "two"), nil)
		waits := deliver(ctx, t, s, fires("x", 1))
		waits.is("there is no sidecar anywhere", 0)
		s.SetElsewhere(map[string]map[string]string{"x": {"other": "b:1"}})
		waits.is("one has come to another instance: the engine is asked again", rouse.Deferred)

		first := deliver(ctx, t, s, fires("x", 1))
		if got := took(); !slices.Equal(got, []string{"fire1 at b:1"}) {
			t.Errorf("lent %q", got)
		}
		first.is("it is with another instance", 0)
		busy, err := s.Hold(ctx, "h", []string{fires("x", 1)[0].Name}, time.Second)
		if err != nil || len(busy) != 1 {
			t.Errorf("a hold finds %q executing, %v", busy, err)
		}
		select {
		case answers <- rouse.Outcome{Verdict: rouse.Done}:
		case <-time.After(time.Minute):
			t.Error("it is not with another instance")
		}
		first.is("it was answered there", rouse.Done)

		// The sidecar of the bucket is preferred, wherever it is.
		one := join(s, "x", "one", 0)
		s.SetElsewhere(map[string]map[string]string{"x": {"two": "c:1"}})
		own, far := deliver(ctx, t, s, fires("x", 2)), deliver(ctx, t, s, fires("x", 12))
		demand(t, "it has a sidecar here", one, "2 ")
		if got := took(); !slices.Equal(got, []string{"fire12 at c:1"}) {
			t.Errorf("lent %q", got)
		}
		own.is("it is with the sidecar", 0)
		s.SetElsewhere(nil)
		far.is("the instance is gone", rouse.Deferred)
	})
}

// A borrowed execution is executed by a sidecar here; it neither waits nor goes on.
func TestExecutionsOfOtherInstances(t *testing.T) {
	run(t, Options{}, func(t *testing.T, ctx context.Context, s *Sink) {
		s.SetTable(tableOf(1, "x", "one"), nil)
		s.SetElsewhere(map[string]map[string]string{"x": {"other": "b:1"}})
		execute := func(ctx context.Context, fire rouse.Fire) <-chan rouse.Verdict {
			of, _ := newTask(&fire, rouse.At(time.Now()))
			ended := make(chan rouse.Verdict, 1)
			go func() {
				o, err := s.Execute(ctx, "x", fire.Name, of.request, fire.Lost)
				if err != nil {
					t.Error(err)
				}
				ended <- o.Verdict
			}()
			synctest.Wait()
			return ended
		}
		if v := <-execute(ctx, fires("x", 1)[0]); v != rouse.Deferred {
			t.Errorf("without a sidecar: %v", v)
		}
		one := join(s, "x", "one", 1)
		done, queued := execute(ctx, fires("x", 1)[0]), execute(ctx, fires("x", 2)[0])
		demand(t, "the sidecar has room for one", one, "1 ")
		if busy, err := s.Hold(ctx, "h", []string{fires("x", 2)[0].Name}, time.Second); err != nil || len(busy) != 0 {
			t.Error(busy, err)
		}
		if v := <-queued; v != rouse.Deferred {
			t.Errorf("what was not sent, and is held: %v", v)
		}
		one.answer(&reminderv1.ExecuteReminderResponse{FireId: "fire1", Success: true})
		if v := <-done; v != rouse.Done {
			t.Errorf("what was answered: %v", v)
		}
		gone, cancel := context.WithCancel(ctx)
		given := execute(gone, fires("x", 3)[0])
		demand(t, "a third one", one, "3 ")
		cancel()
		if v := <-given; v != rouse.Deferred || s.Counts().Inside != 0 {
			t.Errorf("what was given up: %v, %d in memory", v, s.Counts().Inside)
		}
		late := execute(ctx, fires("x", 5)[0])
		demand(t, "a fourth one", one, "5 ")
		if v := <-late; v != rouse.Failed { // nothing else is delivered here whose caller would notice
			t.Errorf("what was not answered in time: %v", v)
		}
		left := execute(ctx, fires("x", 4)[0])
		one.Cut()
		if v := <-left; v != rouse.Failed {
			t.Errorf("of a sidecar that has left: %v", v)
		}
	})
}

// TestAHoldRecallsWhatIsInAQueueElsewhere: a lent execution that is queued at another instance comes back
// when its reminder is held.
func TestAHoldRecallsWhatIsInAQueueElsewhere(t *testing.T) {
	back := make(chan []string, 1)
	o := Options{
		Lend: func(ctx context.Context, _, _, _ string, _ *reminderv1.ExecuteReminderRequest, _ uint32) rouse.Outcome {
			select {
			case <-back:
				return parting
			case <-ctx.Done():
				return rouse.Outcome{Verdict: rouse.Deferred}
			}
		},
		Recall: func(_ context.Context, address string, timers []string) {
			if address != "b:1" {
				t.Errorf("%s is asked for it", address)
			}
			back <- timers
		},
	}
	run(t, o, func(t *testing.T, ctx context.Context, s *Sink) {
		back = make(chan []string, 1) // created inside the bubble
		s.SetTable(tableOf(1, "x", "one"), nil)
		s.SetElsewhere(map[string]map[string]string{"x": {"one": "b:1"}})
		lent := deliver(ctx, t, s, fires("x", 1))
		lent.is("it is with another instance", 0)
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		began := time.Now()
		busy, err := s.Hold(within, "h", []string{fires("x", 1)[0].Name}, time.Minute)
		if err != nil || len(busy) != 0 || time.Since(began) != 0 {
			t.Errorf("after %v %q are still executed, %v", time.Since(began), busy, err)
		}
		lent.is("it has come back", rouse.Deferred)
	})
}
