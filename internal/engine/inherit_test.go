package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// TestWhatADeadNodeClaimedOrWasToRetryGoesOnAtOnce: a node that claims rows crashes with one timer claimed
// but not started, and with one whose attempt failed. Another node that is told of the crash sends both on
// time, without shortening the delay of the retry.
func TestWhatADeadNodeClaimedOrWasToRetryGoesOnAtOnce(t *testing.T) {
	const span = 8 * time.Second
	for _, retried := range []bool{false, true} {
		for _, alike := range []bool{false, true} {
			bubble(t, func(t *testing.T) { afterADeath(t, span, retried, alike) })
		}
	}
}

// afterADeath crashes a node, and lets another node inherit its rows, with the same grain or a different one.
func afterADeath(t *testing.T, span time.Duration, retried, alike bool) {

	store, dying, living := mem.New(), &recorder{}, &recorder{}
	dying.answers(func(context.Context, rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Failed} })
	w := &faultyConn{Shared: store, rnd: newRnd()}
	a := join(t, w, claimStrategy{span, 2}, dying, timers.Options{Engine: engine.Options{Hold: span, Grain: 7}})
	at := a.put("a", "@after 30s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Interval: time.Second, Jitter: -1} }).Due.Time()
	if time.Sleep(time.Until(at) - 500*time.Millisecond); retried {
		time.Sleep(time.Second)
		at = at.Add(time.Second)
	}
	w.cut.Store(true) // a has claimed it, or is about to retry it
	o := timers.Options{Engine: engine.Options{Hold: span, Grain: 8}}
	if alike {
		o.Engine.Grain = 7
	}
	b := join(t, store, claimStrategy{span, 2}, living, o)
	own := b.put("b", "@after 2s").Due.Time()
	if err := b.Inherit(t.Context(), 7, func(uint32) bool { return true }); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * span)
	got := living.got()
	if len(dying.got()) != map[bool]int{false: 0, true: 1}[retried] || len(got) != 2 {
		t.Fatalf("retried: %t, alike: %t: the dead node sent %d, the living one %+v", retried, alike, len(dying.got()), got)
	}
	for _, g := range got {
		want := map[string]time.Time{"a": at, "b": own}[g.Name]
		if late := g.at.Sub(want); late < 0 || late > 1500*time.Millisecond {
			t.Errorf("retried: %t, alike: %t: %s was sent %v late", retried, alike, g.Name, late)
		}
	}
}

// TestWhatADeadNodeHeldIsLateBecauseOfItsDeath: occurrences missed until a hold was ended have the node's
// death as their cause, not a client's write.
func TestWhatADeadNodeHeldIsLateBecauseOfItsDeath(t *testing.T) {
	const span = 8 * time.Second
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{}
		b := join(t, store, claimStrategy{span, 2}, sink, timers.Options{Engine: engine.Options{Hold: span, Grain: 8}})
		w := &faultyConn{Shared: store, rnd: newRnd()}
		a := join(t, w, claimStrategy{span, 2}, sink, timers.Options{Engine: engine.Options{Hold: span, Grain: 7}})
		a.put("a", "@every 300ms", func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireLatest })
		w.cut.Store(true)
		time.Sleep(2 * time.Second)
		if err := b.Inherit(t.Context(), 7, func(uint32) bool { return true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		page, err := b.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 200})
		missed := slices.DeleteFunc(page.Records, func(r rouse.Record) bool { return r.Ending != rouse.EndMissed })
		if err != nil || len(missed) == 0 {
			t.Fatalf("nothing was missed: %v", err)
		}
		for _, r := range missed {
			if r.Cause != rouse.CauseServerDown {
				t.Errorf("due %v was missed because of %v", r.Due, r.Cause)
			}
		}
	})
}

// TestANodeInheritsNothingFromItself: a node whose grain is that of the dead one leaves the rows alone that
// it holds itself, such as one that it is sending: without their hold another node would send them too.
func TestANodeInheritsNothingFromItself(t *testing.T) {
	const span = 8 * time.Second
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{answer: slowly(5 * time.Second)}
		a := join(t, store, claimStrategy{span, 2}, sink, timers.Options{Engine: engine.Options{Hold: span, Grain: 7, Scatter: true, Poll: 1500 * time.Millisecond}})
		a.put("a", "@after 2s")
		time.Sleep(3 * time.Second)
		if got := sink.got(); len(got) != 1 {
			t.Fatalf("%d attempts are out", len(got))
		}
		join(t, store, claimStrategy{span, 2}, sink, timers.Options{Engine: engine.Options{Hold: span, Grain: 9, Scatter: true}})
		if err := a.Inherit(t.Context(), 7, func(uint32) bool { return true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * span)
		if got := sink.got(); len(got) != 1 {
			t.Errorf("sent %d times: %+v", len(got), got)
		}
	})
}
