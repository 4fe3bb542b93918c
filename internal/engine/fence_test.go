package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// laggingStore delays the next write before it is made and before its response.
type laggingStore struct {
	rouse.Shared
	before, after atomic.Int64
}

func (l *laggingStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	before, after := time.Duration(l.before.Swap(0)), time.Duration(l.after.Swap(0))
	time.Sleep(before)
	results, err := l.Shared.Apply(ctx, changes)
	time.Sleep(after)
	return results, err
}

// TestAnEditWrittenWhileATimerComesDueBeginsNoOtherAttempt: an edit through a node that does not have the
// timer starts before the due time, and its write is made or acknowledged after it. The node that has the
// timer may have sent it by then.
func TestAnEditWrittenWhileATimerComesDueBeginsNoOtherAttempt(t *testing.T) {
	const early, lag = 20 * time.Millisecond, 40 * time.Millisecond
	for verb := range edits(t, nil, "") {
		for _, answered := range []bool{false, true} {
			for _, takes := range []time.Duration{0, 3 * time.Second} {
				for _, name := range []string{"owned", "held", "held, scattered"} {
					t.Run(verb+map[bool]string{false: ", written late, ", true: ", answered late, "}[answered]+takes.String()+", "+name, func(t *testing.T) {
						bubble(t, func(t *testing.T) { crossing(t, verb, name, answered, takes, early, lag) })
					})
				}
			}
		}
	}
}

func crossing(t *testing.T, verb, name string, answered bool, takes, early, lag time.Duration) {
	store, sink := mem.New(), &recorder{answer: slowly(takes)}
	all, none := rouse.Strategy(newManual(0, 1)), rouse.Strategy(newManual())
	if name != "owned" {
		all, none = claimStrategy{8 * time.Second, 2}, claimStrategy{8 * time.Second, 2}
	}
	o := timers.Options{Engine: engine.Options{Hold: 8 * time.Second}}
	a := join(t, store, all, sink, o)
	slow := &laggingStore{Shared: store}
	o.Engine.Scatter = name == "held, scattered"
	b := join(t, slow, none, sink, o)
	due := a.put("a", "@every 10s", func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireAll }).Due
	time.Sleep(time.Until(due.Time()) - early)
	if answered {
		slow.after.Store(int64(lag))
	} else {
		slow.before.Store(int64(lag))
	}
	edits(t, b, "a")[verb]()
	time.Sleep(25 * time.Second)
	seen := map[string]int{}
	for _, g := range sink.got() {
		if seen[g.ID]++; seen[g.ID] == 2 {
			t.Errorf("two attempts of the occurrence that was due %v, the second at %v", g.Due, g.at)
		}
	}
	page, err := a.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
	of := slices.DeleteFunc(page.Records, func(r rouse.Record) bool { return r.Manual || r.Due != due })
	if err != nil || len(of) != 1 {
		t.Fatalf("records of the occurrence: %+v, %v", of, err)
	}
	if sent := seen[rouse.FireID("n", "a", of[0].Generation, due, false)]; (of[0].Ending == rouse.EndFired) != (sent > 0) {
		t.Errorf("it was sent %d times, and its record tells that it was %v, %v", sent, of[0].Ending, of[0].Cause)
	}
}

// TestAnEditDuringALookAtAnOldVersionTakesNothing: a node edits a timer while it is checking an old revision
// of it. Another node has taken the timer over and sends it, so this node must not send it as well.
func TestAnEditDuringALookAtAnOldVersionTakesNothing(t *testing.T) {
	for early := -6 * time.Millisecond; early <= 6*time.Millisecond; early += time.Millisecond {
		bubble(t, func(t *testing.T) {
			store, sink := mem.New(), &recorder{}
			sink.answers(slowly(3 * time.Second))
			w := &faultyConn{Shared: store, rnd: newRnd()} // makes revision checks slow
			a := join(t, w, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
			b := join(t, store, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
			due := a.put("a", "@every 4s").Due
			time.Sleep(time.Until(due.Time()) - 500*time.Millisecond)
			edits(t, b, "a")["run"]() // b takes it over
			time.Sleep(time.Until(due.Time()) - early)
			edits(t, a, "a")["run"]() // reads b's version while a checks its own
			time.Sleep(30 * time.Second)
			seen := map[string]int{}
			for _, g := range sink.got() {
				if seen[g.ID]++; seen[g.ID] == 2 {
					t.Errorf("asked for %v before: two attempts of what was due %v, the second at %v", early, g.Due, g.at)
				}
			}
		})
	}
}
