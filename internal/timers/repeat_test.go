package timers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// fired is a sink that counts what it delivers.
type fired struct {
	mu     sync.Mutex
	of     map[string]int // by fire id
	answer func(f *rouse.Fire) rouse.Outcome
}

func (*fired) Check(*rouse.Spec) error { return nil }
func (*fired) Lane(_ string, s *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.Target, Limit: 64, Batch: 1}
}
func (s *fired) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		s.mu.Lock()
		s.of[fires[i].ID]++
		s.mu.Unlock()
		o := rouse.Outcome{Verdict: rouse.Done}
		if s.answer != nil {
			o = s.answer(&fires[i])
		}
		settle(i, o)
	}
}

func (s *fired) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.of {
		n += m
	}
	return n
}

// asking returns the context of a request of a caller with an Idempotency-Key.
func asking(t *testing.T, caller, key string) context.Context {
	return access.Repeatable(access.With(t.Context(), &access.Principal{ID: caller}), key)
}

func made(t *testing.T, ts *Timers, name string, spec rouse.Spec) rouse.Timer {
	t.Helper()
	res, err := ts.Put(t.Context(), []Put{{Key: rouse.Key{Namespace: "n", Name: name}, Spec: spec}})
	if err != nil || res[0].Err != nil {
		t.Fatal(err, res[0].Err)
	}
	return res[0].Timer
}

// otherRequest reports whether an error refuses the key of another request.
func otherRequest(err error) bool {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	return ok && inv.Problems[0].Field == "Idempotency-Key"
}

// TestRepetitionsAskForRights: the answer to a repeated request is the timer as it is now, and the caller may
// have no rights for that one any more.
func TestRepetitionsAskForRights(t *testing.T) {
	for name, operation := range map[string]func(context.Context, *Timers, rouse.Key) (PutResult, error){
		"create": func(ctx context.Context, ts *Timers, key rouse.Key) (PutResult, error) {
			results, err := ts.Put(ctx, []Put{{Key: key, Spec: rouse.Spec{Schedule: "@every 1h", Target: "stream:own"}}})
			return results[0], errors.Join(err, results[0].Err)
		},
		"coalesce": func(ctx context.Context, ts *Timers, key rouse.Key) (PutResult, error) {
			res, err := ts.Coalesce(ctx, key, rouse.Spec{Target: "stream:own"}, rouse.Coalesce{Quiet: time.Hour})
			return res, errors.Join(err, res.Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := running(t, newJobStore(), &fired{of: map[string]int{}}, Options{Access: access.NewControl(nil)})
				ctx := access.Repeatable(access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
					{Role: "writer", Scope: access.Scope{Namespaces: []string{"n"}, Targets: []string{"stream:own"}}}}}), "k")
				key := rouse.Key{Namespace: "n", Name: "a"}
				for range 2 {
					if res, err := operation(ctx, ts, key); err != nil || res.Timer.Spec.Target != "stream:own" {
						t.Fatalf("%+v, %v", res, err)
					}
				}
				if _, err := ts.Relabel(access.AsSystem(t.Context()), key, 0, "stream:theirs", nil); err != nil {
					t.Fatal(err)
				}
				if res, err := operation(ctx, ts, key); !errors.Is(err, rouse.ErrForbidden) || res.Timer.Revision != 0 || res.Timer.Spec.Target != "" {
					t.Errorf("again, when the timer has another target: %+v, %v", res.Timer, err)
				}
			})
		})
	}
}

// TestRepeatedRequestsAreCarriedOutOnce: on every store, a request that is repeated with its Idempotency-Key
// changes nothing more, whatever happened in between, and has the same answer; another request with the key
// is refused, and another caller may have the same one.
func TestRepeatedRequestsAreCarriedOutOnce(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			sink := &fired{of: map[string]int{}}
			ts := running(t, s, sink, Options{})
			yearly := rouse.Spec{Schedule: "0 0 1 1 *", Target: "x:y"}
			key := rouse.Key{Namespace: "n", Name: "a"}
			made(t, ts, "a", yearly)
			get := func() rouse.Timer {
				t.Helper()
				tm, err := ts.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				return tm
			}

			id, due, err := ts.RunNow(asking(t, "me", "run"), key)
			if err != nil {
				t.Fatal(err)
			}
			poll.Until(t, "it has fired", func() bool { return get().Fired == 1 })
			if again, at, err := ts.RunNow(asking(t, "me", "run"), key); err != nil || again != id || at != due {
				t.Errorf("a repeated run: %s %v %v, first %s %v", again, at, err, id, due)
			}
			if n := len(get().Runs); n != 0 || sink.count() != 1 {
				t.Errorf("%d runs wait, %d fires", n, sink.count())
			}
			if other, _, err := ts.RunNow(asking(t, "you", "run"), key); err != nil || other == id {
				t.Errorf("the same key of another caller: %s, %v", other, err)
			}
			poll.Until(t, "it has fired twice", func() bool { return get().Fired == 2 })

			if _, err := ts.Skip(asking(t, "me", "skip"), key, 1, ""); err != nil {
				t.Fatal(err)
			}
			skipped := get()
			if again, err := ts.Skip(asking(t, "me", "skip"), key, 1, ""); err != nil || again.Due != skipped.Due || get().Due != skipped.Due {
				t.Errorf("a repeated skip: due %v and %v, first %v; %v", again.Due, get().Due, skipped.Due, err)
			}
			if _, err := ts.Skip(asking(t, "me", "skip"), key, 2, ""); !otherRequest(err) {
				t.Errorf("another skip with the same key: %v", err)
			}
			if _, _, err := ts.RunNow(asking(t, "me", "skip"), key); !otherRequest(err) {
				t.Errorf("a run with the key of a skip: %v", err)
			}

			when := rouse.Spec{Schedule: "0 0 2 2 *"}
			revision := get().Revision
			res, err := ts.Reschedule(asking(t, "me", "when"), key, when, revision, false)
			if err != nil {
				t.Fatal(err)
			}
			again, err := ts.Reschedule(asking(t, "me", "when"), key, when, revision, false)
			if first := get(); err != nil || again.Timer.Generation != res.Timer.Generation || first.Generation != res.Timer.Generation {
				t.Errorf("a repeated reschedule: generation %d and %d, first %d; %v", again.Timer.Generation, first.Generation, res.Timer.Generation, err)
			}
			if _, err := ts.Reschedule(asking(t, "me", "when"), key, when, revision+1, false); !otherRequest(err) {
				t.Errorf("another reschedule with the same key: %v", err)
			}

			patch := func(text, schedule string) (PutResult, error) {
				return ts.Patch(asking(t, "me", "patch"), key, PatchRequest{Text: text, Change: func(s rouse.Spec) (rouse.Spec, error) {
					s.Schedule = schedule
					return s, nil
				}})
			}
			if res, err = patch("one", "0 0 3 3 *"); err != nil {
				t.Fatal(err)
			}
			if again, err := patch("one", "0 0 4 4 *"); err != nil || again.Timer.Revision != res.Timer.Revision {
				t.Errorf("a repeated patch: %+v, %v", again.Timer, err)
			}
			if _, err := patch("two", "0 0 3 3 *"); !otherRequest(err) {
				t.Errorf("another patch with the same key: %v", err)
			}

			if _, err := ts.Pause(asking(t, "me", "pause"), key, "why", 0); err != nil {
				t.Fatal(err)
			}
			if _, err := ts.Resume(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if again, err := ts.Pause(asking(t, "me", "pause"), key, "why", 0); err != nil || again.Paused || get().Paused {
				t.Errorf("a repeated pause ended the resume in between: %v", err)
			}

			coalesced := rouse.Key{Namespace: "n", Name: "calls"}
			var first rouse.Timer
			for i := range 3 {
				res, err := ts.Coalesce(asking(t, "me", "call"), coalesced, rouse.Spec{Target: "x:y"}, rouse.Coalesce{Quiet: time.Hour})
				if err != nil || res.Timer.Generation == 0 || i > 0 && !res.Replaced {
					t.Fatal(err, res)
				}
				if i == 0 {
					first = res.Timer
				} else if res.Timer.Due != first.Due || res.Timer.Generation != first.Generation {
					t.Errorf("call %d moved it: %+v", i, res.Timer)
				}
			}

			export, err := ts.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			imports := func() PutResult {
				t.Helper()
				res, err := ts.Import(asking(t, "me", "import"), []rouse.Timer{export}, CreateOrReplace)
				if err != nil || res[0].Err != nil {
					t.Fatal(err, res[0].Err)
				}
				return res[0]
			}
			imported := imports()
			if _, err := ts.Skip(t.Context(), key, 1, ""); err != nil {
				t.Fatal(err)
			}
			if again := imports(); again.Timer.Generation != imported.Timer.Generation || again.Timer.Due == imported.Timer.Due || get().Due == imported.Timer.Due {
				t.Errorf("a repeated import brought the state back: %+v", again.Timer)
			}
			replaced := func(spec rouse.Spec) PutResult {
				t.Helper()
				res, err := ts.Put(asking(t, "me", "replace"), []Put{{Key: key, Spec: spec, Mode: CreateOrReplace}})
				if err != nil {
					t.Fatal(err)
				}
				return res[0]
			}
			one := replaced(yearly)
			if two := replaced(yearly); one.Err != nil || two.Err != nil || two.Timer.Generation != one.Timer.Generation {
				t.Errorf("a repeated replacement: %+v, first %+v", two, one)
			}
			if res := replaced(rouse.Spec{Schedule: "@every 1h", Target: "x:y"}); !otherRequest(res.Err) {
				t.Errorf("another replacement with the same key: %v", res.Err)
			}

			hourly := made(t, ts, "past", rouse.Spec{Schedule: "30 * * * *", Target: "x:y"})
			before, past := sink.count(), hourly.Anchor.Add(-5*time.Hour)
			made := func() Backfilled {
				t.Helper()
				b, err := ts.Backfill(asking(t, "me", "fill"), hourly.Key, BackfillRequest{From: past, Until: hourly.Anchor})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			b := made()
			onTheirWay := func() int64 {
				n, err := ts.store.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateFiring}})
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			poll.Until(t, "all have ended", func() bool { return sink.count() == before+5 && onTheirWay() == 0 })
			if again := made(); b.Count != 5 || again.Count != b.Count || again.Waiting != b.Waiting || fmt.Sprint(again.FireIDs) != fmt.Sprint(b.FireIDs) {
				t.Errorf("a repeated backfill: %+v, first %+v", again, b)
			}
			if n := onTheirWay(); n != 0 || sink.count() != before+5 {
				t.Errorf("%d occurrences are on their way, %d fired", n, sink.count()-before)
			}

			for i := range 3 {
				for range 2 {
					if err := ts.Bulk(asking(t, "me", fmt.Sprint("bulk", i)), BulkRequest{Query: rouse.Query{Namespace: "n", Name: "a"}, Action: "skip"}, func(p BulkProgress) error {
						if p.Done && (p.Changed != 1 || p.Failed != 0) {
							t.Errorf("%+v", p)
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if years := time.UnixMilli(int64(get().Due)).UTC().Year() - time.UnixMilli(int64(one.Timer.Due)).UTC().Year(); years != 3 {
				t.Errorf("three skips, each repeated, skipped %d", years)
			}

			if page, err := ts.Search(t.Context(), rouse.Query{Namespace: "n", States: rouse.AllStates, Limit: 100}); err != nil || len(page.Timers) != 3 {
				t.Errorf("%d rows are in lists; %v", len(page.Timers), err)
			}
		})
	}
}

// TestConcurrentRepetitions: of requests with one key at the same moment, one is carried out, and all have
// its answer.
func TestConcurrentRepetitions(t *testing.T) {
	ts := running(t, mem.New(), &fired{of: map[string]int{}, answer: func(*rouse.Fire) rouse.Outcome {
		return rouse.Outcome{Verdict: rouse.Deferred, After: time.Hour}
	}}, Options{})
	made(t, ts, "a", rouse.Spec{Schedule: "0 0 1 1 *", Target: "x:y"})
	key := rouse.Key{Namespace: "n", Name: "a"}
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], _, err = ts.RunNow(asking(t, "me", "k"), key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("ids %v", ids)
			break
		}
	}
	if tm, err := ts.Get(t.Context(), key); err != nil || len(tm.Runs) != 1 {
		t.Errorf("runs %v, %v", tm.Runs, err)
	}
}

// TestAnAnswerOutlivesItsTimer: a run of a timer that ended with it is answered, and so is a report.
func TestAnAnswerOutlivesItsTimer(t *testing.T) {
	ts := running(t, mem.New(), &fired{of: map[string]int{}, answer: func(f *rouse.Fire) rouse.Outcome {
		if f.Manual {
			return rouse.Outcome{Verdict: rouse.Done}
		}
		return rouse.Outcome{Verdict: rouse.Accepted, After: time.Hour}
	}}, Options{})
	made(t, ts, "a", rouse.Spec{Schedule: "@after 1ms", Target: "x:y"})
	key := rouse.Key{Namespace: "n", Name: "a"}
	var tm rouse.Timer
	poll.Until(t, "it was accepted", func() bool {
		tm, _ = ts.Get(t.Context(), key)
		return tm.Token != 0
	})
	occ, _ := tm.Current()
	r := Report{FireID: tm.Fire(occ).ID, Token: tm.Token, Outcome: rouse.Outcome{Verdict: rouse.Done}}
	for range 2 {
		if _, err := ts.Report(asking(t, "me", "done"), key, r); err != nil {
			t.Fatal(err)
		}
	}
	other := r
	other.Outcome.Verdict = rouse.Failed
	if _, err := ts.Report(asking(t, "me", "done"), key, other); !otherRequest(err) {
		t.Errorf("another report with the key: %v", err)
	}
	if _, err := ts.Report(t.Context(), key, r); err == nil {
		t.Error("a report on a timer that is gone")
	}
}

// TestRedrivesAreRepeated: a redrive is made once with its key, which is that of no other dead letter.
func TestRedrivesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := rejecting()
		ts := running(t, mem.New(), sink, Options{})
		deadLetters(t, ts, 2, 2)
		page, err := ts.Search(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 10})
		if err != nil || len(page.Timers) != 2 {
			t.Fatal(len(page.Timers), err)
		}
		one, two := page.Timers[0].Key, page.Timers[1].Key
		dead := func() rouse.Timer {
			time.Sleep(time.Minute)
			d, err := ts.Get(t.Context(), one)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if _, err := ts.Redrive(asking(t, "me", "k"), one, false); err != nil {
			t.Fatal(err)
		}
		first := dead()
		if _, err := ts.Redrive(asking(t, "me", "k"), one, false); err != nil || dead().Revision != first.Revision {
			t.Errorf("a repeated redrive: revision %d after %d, %v", dead().Revision, first.Revision, err)
		}
		for _, other := range []struct {
			key     rouse.Key
			current bool
		}{{one, true}, {two, false}} {
			if _, err := ts.Redrive(asking(t, "me", "k"), other.key, other.current); !otherRequest(err) {
				t.Errorf("another redrive with the key: %+v: %v", other, err)
			}
		}
		if _, err := ts.Redrive(asking(t, "me", "l"), one, false); err != nil || dead().Revision == first.Revision {
			t.Errorf("another key: %v", err)
		}
	})
}

// TestMarksEnd: a timer keeps so many marks, and the engine removes them when they are a day old.
func TestMarksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sink := mem.New(), &fired{of: map[string]int{}}
		ts, stop := startBy(t, s, claim.NewSole(1), sink, Options{})
		key := rouse.Key{Namespace: "n", Name: "a"}
		made(t, ts, "a", rouse.Spec{Schedule: "0 0 1 1 *", Target: "x:y"})
		marks := func() rouse.Row {
			rows, err := ts.store.Get(t.Context(), []rouse.Key{markKey(key)})
			if err != nil {
				t.Fatal(err)
			}
			return rows[0]
		}
		for i := range maxMarks + 6 {
			if _, err := ts.Skip(asking(t, "me", fmt.Sprint(i)), key, 1, ""); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(string(marks().Body), `"tag"`); n != maxMarks {
			t.Errorf("%d marks", n)
		}
		was, _ := ts.Get(t.Context(), key)
		if _, err := ts.Skip(asking(t, "me", "5"), key, 1, ""); err != nil { // the last that was given up
			t.Fatal(err)
		}
		if _, err := ts.Skip(asking(t, "me", "8"), key, 1, ""); err != nil { // one that is kept
			t.Fatal(err)
		}
		now, _ := ts.Get(t.Context(), key)
		if years := now.Due.Sub(was.Due).Hours() / 24 / 365; years < 0.9 || years > 1.1 {
			t.Errorf("moved by %.1f years", years)
		}
		stop() // a day of a node at work takes long to simulate
		time.Sleep(access.RepeatAge - 10*time.Minute)
		ts = running(t, s, sink, Options{})
		time.Sleep(9 * time.Minute)
		if marks().Revision == 0 {
			t.Error("the marks are gone before their time")
		}
		time.Sleep(2 * time.Minute)
		if marks().Revision != 0 {
			t.Error("the marks are still there")
		}
		if v := ts.Violations(); v.Total != 0 {
			t.Errorf("%+v", v)
		}
	})
}
