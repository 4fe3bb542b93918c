package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// slowly returns Done after a delay.
func slowly(d time.Duration) func(context.Context, rouse.Fire) rouse.Outcome {
	return func(ctx context.Context, _ rouse.Fire) rouse.Outcome {
		backoff.Sleep(ctx, d)
		return rouse.Outcome{Verdict: rouse.Done}
	}
}

// inPairs runs a test with two nodes on one store: once where the first node owns all buckets, and once where
// both claim rows with holds. The first node holds what is put through it; the second keeps nothing.
func inPairs(t *testing.T, f func(t *testing.T, sink *recorder, a, b *harness)) {
	for _, name := range []string{"owned", "held"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, sink := mem.New(), &recorder{}
				all, none := rouse.Strategy(newManual(0, 1)), rouse.Strategy(newManual())
				if name == "held" {
					all, none = claimStrategy{8 * time.Second, 2}, claimStrategy{8 * time.Second, 2}
				}
				o := timers.Options{Engine: engine.Options{Hold: 8 * time.Second}}
				a := join(t, store, all, sink, o)
				b := join(t, store, none, sink, o)
				time.Sleep(time.Second)
				f(t, sink, a, b)
			})
		})
	}
}

// edits are client operations that leave the current occurrence of a timer in place.
func edits(t *testing.T, b *harness, name string) map[string]func() {
	must := func(_ rouse.Timer, err error) {
		if err != nil {
			t.Error(err)
		}
	}
	return map[string]func(){
		"resume": func() { must(b.Resume(t.Context(), key(name))) },
		"skip":   func() { must(b.Skip(t.Context(), key(name), 1, "")) },
		"pause and resume": func() {
			must(b.Pause(t.Context(), key(name), "", 0))
			must(b.Resume(t.Context(), key(name)))
		},
		"pause for a moment": func() {
			must(b.Pause(t.Context(), key(name), "", rouse.Reached(time.Now().Add(500*time.Millisecond))))
		},
		"run": func() {
			_, _, err := b.RunNow(t.Context(), key(name))
			must(rouse.Timer{}, err)
		},
	}
}

func TestNoEditElsewhereBeginsAnotherAttempt(t *testing.T) {
	for verb := range edits(t, nil, "") {
		t.Run(verb, func(t *testing.T) {
			inPairs(t, func(t *testing.T, sink *recorder, a, b *harness) {
				sink.answers(slowly(3 * time.Second))
				a.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireAll })
				time.Sleep(60*time.Second + 200*time.Millisecond) // during an attempt
				edits(t, b, "a")[verb]()
				time.Sleep(1500 * time.Millisecond)
				if got := sink.got(); len(got) != 1 {
					t.Fatalf("%d attempts while one is out", len(got))
				}
				time.Sleep(20 * time.Second)
				got := sink.got()
				want := map[bool]int{false: 1, true: 2}[verb == "run"]
				if len(got) != want {
					t.Errorf("%d attempts of %d", len(got), want)
				}
				page, err := a.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
				of := slices.DeleteFunc(page.Records, func(r rouse.Record) bool { return r.Manual || r.Due != got[0].Due })
				if err != nil || len(of) != 1 || of[0].Ending != rouse.EndFired {
					t.Errorf("records of the occurrence: %+v, %v", of, err)
				}
			})
		})
	}
}

func TestAnEditElsewhereMovesNoDueTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{}
		a := join(t, store, newManual(0), sink, timers.Options{})
		b := join(t, store, newManual(1), sink, timers.Options{})
		began := time.Now()
		name := inBucket(1, 1)[0]
		a.put(name, "@every 3s") // a holds it: its visible time in the store is the end of the hold
		edits(t, b, name)["resume"]()
		edits(t, b, name)["run"]()
		edits(t, b, name)["pause and resume"]()
		time.Sleep(4 * time.Second)
		got := sink.got()
		if len(got) != 2 || !got[0].Manual || got[1].at.Sub(began) > 3500*time.Millisecond {
			t.Errorf("fired: %+v", got)
		}
	})
}

func TestTheHolderOfARowGoesOnAfterAnEditElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{}
		w := &faultyConn{Shared: store, rnd: newRnd()} // makes revision checks slow
		a := join(t, w, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
		b := join(t, store, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
		due := a.put("a", "@every 1500ms").Due
		time.Sleep(time.Until(due.Time()) + time.Millisecond) // due, but not sent yet
		edits(t, b, "a")["skip"]()
		time.Sleep(time.Second)
		if got := sink.got(); len(got) != 1 || got[0].Due != due {
			t.Fatalf("fired: %+v", got)
		}
		time.Sleep(3 * time.Second)
		if got := sink.got(); len(got) != 2 || got[1].Due != due.Add(3*time.Second) {
			t.Errorf("fired: %+v: the one after it was to be skipped", got)
		}
	})
}

func TestAPauseSkipsOnlyWhatCameDueInIt(t *testing.T) {
	inPairs(t, func(t *testing.T, sink *recorder, a, b *harness) {
		a.put("a", "@every 10s")
		time.Sleep(9 * time.Second)
		edits := edits(t, b, "a")
		if _, err := b.Pause(t.Context(), key("a"), "", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // one occurrence comes due
		if _, err := a.Pause(t.Context(), key("a"), "again", 0); err != nil {
			t.Fatal(err)
		}
		edits["run"]()
		time.Sleep(3 * time.Second)
		edits["resume"]()
		time.Sleep(4 * time.Second)
		if got := sink.got(); len(got) != 1 || !got[0].Manual {
			t.Errorf("fired: %+v: what came due in the pause is skipped, and the run does not wait", got)
		}
		page, err := a.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
		if err != nil || len(page.Records) != 2 || page.Records[0].Reason != "paused" {
			t.Errorf("records: %+v, %v", page.Records, err)
		}
	})
}

func TestWhatIsToldOfRunsOfAPausedTimer(t *testing.T) {
	inPairs(t, func(t *testing.T, sink *recorder, a, b *harness) {
		sink.answers(slowly(3 * time.Second))
		a.put("a", "@every 1h")
		if _, err := a.Pause(t.Context(), key("a"), "", 0); err != nil {
			t.Fatal(err)
		}
		edits(t, a, "a")["run"]()
		time.Sleep(100 * time.Millisecond)
		if d, err := b.Delete(t.Context(), key("a"), 0); err != nil || !d.InFlight || len(sink.got()) != 1 {
			t.Errorf("delete with a run out: %+v, %v", d, err)
		}
	})
}

func TestTheEndOfAPauseSendsNothingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{answer: slowly(3 * time.Second)}
		var nodes []*harness
		for range 3 {
			nodes = append(nodes, join(t, store, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}}))
		}
		nodes[0].put("a", "@every 1h")
		if _, err := nodes[1].Pause(t.Context(), key("a"), "", rouse.Reached(time.Now().Add(1500*time.Millisecond))); err != nil {
			t.Fatal(err) // this node has the end of the pause in memory
		}
		time.Sleep(time.Second)
		edits(t, nodes[2], "a")["run"]() // and this node sends
		time.Sleep(10 * time.Second)
		if got := sink.got(); len(got) != 1 {
			t.Errorf("%d attempts of one run", len(got))
		}
	})
}

func TestAHeartbeatElsewhereMovesTheDeadline(t *testing.T) {
	inPairs(t, func(t *testing.T, sink *recorder, a, b *harness) {
		sink.answers(func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Accepted, After: 3 * time.Second}
		})
		a.put("a", "@after 1s")
		time.Sleep(1500 * time.Millisecond)
		for range 6 {
			fire := sink.got()[0]
			if _, err := b.Report(t.Context(), key("a"), timers.Report{FireID: fire.ID, Token: fire.Token, Outcome: rouse.Outcome{After: 60 * time.Second}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		if got := sink.got(); len(got) != 1 {
			t.Errorf("%d attempts: the receiver was heard of all the time", len(got))
		}
	})
}

func TestAThrottleHoldsOnAllNodes(t *testing.T) {
	inPairs(t, func(t *testing.T, sink *recorder, a, b *harness) {
		sink.answers(slowly(2 * time.Second))
		c := rouse.Coalesce{Every: 10 * time.Second}
		for i, e := range []*harness{a, b, a, b} {
			res, err := e.Coalesce(t.Context(), key("a"), rouse.Spec{Target: "test:a"}, c)
			if err != nil || i == 1 && !res.InFlight {
				t.Errorf("call %d: %+v, %v", i, res, err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(6 * time.Second)
		if got := sink.got(); len(got) != 1 {
			t.Fatalf("%d fires in eight seconds", len(got))
		}
		time.Sleep(12 * time.Second)
		got := sink.got()
		if len(got) != 2 || got[1].at.Sub(got[0].at) < 10*time.Second {
			t.Errorf("fired: %v", slices.Collect(func(yield func(time.Time) bool) {
				for _, g := range got {
					if !yield(g.at) {
						return
					}
				}
			}))
		}
	})
}
