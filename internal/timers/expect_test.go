package timers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// told is a sink whose timers fail while down is set, and which keeps the notices that it gets.
type told struct {
	mu      sync.Mutex
	down    bool
	notices []string
	ids     []string
	times   []time.Time
}

func (*told) Check(s *rouse.Spec) error {
	if s.Target == "no:target" {
		return rouse.Refuse("target", s.Target, "is no target", "give one")
	}
	return nil
}

func (*told) Lane(_ string, s *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.Target, Limit: 64, Batch: 1}
}

func (s *told) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *told) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notices)
}

func (s *told) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		s.mu.Lock()
		o := rouse.Outcome{Verdict: rouse.Done}
		if fires[i].Spec.Target == "x:pager" {
			var body struct{ Event, Name, Text string }
			_ = json.Unmarshal(fires[i].Spec.Payload, &body)
			s.notices, s.ids, s.times = append(s.notices, body.Event+" "+body.Name), append(s.ids, fires[i].ID), append(s.times, time.Now())
		} else if s.down {
			o = rouse.Outcome{Verdict: rouse.Rejected, Code: 500, Detail: "down"}
		}
		s.mu.Unlock()
		settle(i, o)
	}
}

// TestAnOverdueTimerIsToldOnce: a timer that does not succeed within its time is told once, and once more
// when it has succeeded again; in the meantime it is overdue wherever it is shown.
func TestAnOverdueTimerIsToldOnce(t *testing.T) {
	for name, spec := range map[string]rouse.Spec{
		"every":     {Schedule: "@every 2m", Target: "x:y", Expect: rouse.Expect{Every: 12 * time.Minute, Grace: time.Minute, Notify: "x:pager"}},
		"occurring": {Schedule: "*/12 * * * *", Target: "x:y", Expect: rouse.Expect{Grace: time.Minute, Notify: "x:pager"}},
		"overlap":   {Schedule: "@every 2m", Target: "x:y", Overlap: rouse.OverlapAllow, Expect: rouse.Expect{Every: 12 * time.Minute, Grace: time.Minute, Notify: "x:pager"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &told{}
				ts := running(t, mem.New(), sink, Options{})
				key := made(t, ts, name, spec).Key
				get := func() rouse.Timer {
					t.Helper()
					tm, err := ts.Get(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					return tm
				}
				count := func() int64 {
					n, err := ts.store.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateOverdue}})
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				time.Sleep(28 * time.Minute)
				if tm := get(); len(sink.got()) != 0 || tm.Overdue != 0 || tm.Succeeded == 0 {
					t.Fatalf("it works, and %q was told; succeeded %v, overdue %v", sink.got(), tm.Succeeded, tm.Overdue)
				}
				sink.set(true)
				last := get().Succeeded
				time.Sleep(20 * time.Minute)
				tm := get()
				if got := sink.got(); !slices.Equal(got, []string{"overdue " + name}) || tm.Overdue == 0 || count() != 1 {
					t.Fatalf("told %q; overdue %v, %d are", got, tm.Overdue, count())
				}
				late := rouse.At(sink.times[0]).Sub(last)
				if late < 12*time.Minute || late > 12*time.Minute+200*time.Second || rouse.At(sink.times[0]) < tm.Overdue {
					t.Errorf("told %v after the last success, expected by %v", late, tm.Overdue)
				}
				if page, err := ts.Search(t.Context(), rouse.Query{States: []rouse.State{rouse.StateOverdue}, Limit: 10}); err != nil || len(page.Timers) != 1 || page.Timers[0].Key != key {
					t.Errorf("listed %+v, %v", page.Timers, err)
				}
				if x, err := ts.Explain(t.Context(), key, 0); err != nil || !slices.ContainsFunc(x.Reasons, func(r Reason) bool { return r.Code == "overdue" && r.Since == tm.Overdue && r.Cure != "" }) {
					t.Errorf("explained by %+v, %v", x.Reasons, err)
				}
				sink.set(false)
				time.Sleep(20 * time.Minute)
				if got := sink.got(); !slices.Equal(got, []string{"overdue " + name, "recovered " + name}) || get().Overdue != 0 || count() != 0 || sink.ids[0] == sink.ids[1] {
					t.Errorf("told %q, overdue %v", got, get().Overdue)
				}
				page, err := ts.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: name, Causes: []rouse.Cause{rouse.CauseNotice}, Limit: 10})
				if err != nil || len(page.Records) != 2 {
					t.Errorf("%d records of notices, %v", len(page.Records), err)
				}
				sink.set(true)
				time.Sleep(20 * time.Minute)
				if got := sink.got(); len(got) != 3 {
					t.Errorf("the second time, told %q", got)
				}
				if _, err := ts.Delete(t.Context(), key, 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				if rows, err := ts.store.Get(t.Context(), []rouse.Key{{Namespace: "n", Name: name, Fire: rouse.ExpectFire}}); err != nil || rows[0].Revision != 0 {
					t.Errorf("the expectation of a deleted timer: %+v, %v", rows, err)
				}
				if v := ts.Violations(); v.Total != 0 {
					t.Errorf("%+v", v)
				}
			})
		})
	}
}

// TestExpectationsAndChanges: a timer that a client has paused has not to succeed, and only from when it is
// resumed; one that paused itself has to. A replacement is overdue until it succeeds, a run is a success, and
// without a target to tell, the timer is overdue all the same.
func TestExpectationsAndChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &told{}
		ts := running(t, mem.New(), sink, Options{})
		spec := rouse.Spec{Schedule: "@every 10m", Target: "x:y", Expect: rouse.Expect{Every: time.Hour, Notify: "x:pager"}}
		key := made(t, ts, "a", spec).Key
		get := func(name string) rouse.Timer {
			tm, err := ts.Get(t.Context(), rouse.Key{Namespace: "n", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return tm
		}
		if _, err := ts.Pause(t.Context(), key, "", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		sink.set(true)
		if _, err := ts.Resume(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Minute)
		if got := sink.got(); len(got) != 0 {
			t.Errorf("told %q of a timer that was paused", got)
		}
		time.Sleep(2 * time.Minute)
		if got := sink.got(); len(got) != 1 {
			t.Errorf("an hour after the pause, told %q", got)
		}
		if res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: spec, Mode: CreateOrReplace}}); err != nil || res[0].Err != nil {
			t.Fatal(err, res)
		}
		time.Sleep(5 * time.Minute)
		if get("a").Overdue == 0 {
			t.Error("a replacement is no success")
		}
		sink.set(false)
		if _, _, err := ts.RunNow(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := sink.got(); !slices.Equal(got, []string{"overdue a", "recovered a"}) || get("a").Overdue != 0 {
			t.Errorf("after a run, told %q", got)
		}

		sink.set(true)
		quiet := spec
		quiet.Expect.Notify, quiet.PauseAfter = "", 2
		made(t, ts, "quiet", quiet)
		time.Sleep(2 * time.Hour)
		if q := get("quiet"); q.Overdue == 0 || !q.Paused || len(sink.got()) != 3 {
			t.Errorf("a timer that paused itself: overdue %v, paused %t; told %q", q.Overdue, q.Paused, sink.got())
		}

		made(t, ts, "gone", rouse.Spec{Schedule: "@every 1h", Target: "x:y", Expect: rouse.Expect{Every: 240 * time.Hour}})
		if _, err := ts.Delete(t.Context(), rouse.Key{Namespace: "n", Name: "gone"}, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if rows, err := ts.store.Get(t.Context(), []rouse.Key{{Namespace: "n", Name: "gone", Fire: rouse.ExpectFire}}); err != nil || rows[0].Revision != 0 {
			t.Errorf("the expectation of a timer that was deleted: %+v, %v", rows, err)
		}

		for _, bad := range []struct {
			field string
			spec  rouse.Spec
		}{
			{"expect.every", rouse.Spec{Schedule: "@every 10m", Target: "x:y", Expect: rouse.Expect{Every: -1}}},
			{"expect.grace", rouse.Spec{Schedule: "@every 10m", Target: "x:y", Expect: rouse.Expect{Notify: "x:pager"}}},
			{"expect.notify", rouse.Spec{Schedule: "@every 10m", Target: "x:y", Expect: rouse.Expect{Every: time.Hour, Notify: "no:target"}}},
			{"expect", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Expect: rouse.Expect{Every: time.Hour}}},
			{"notify.target", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "no:target"}}},
			{"notify.target", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Every: time.Hour}}},
			{"notify.events", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "x:pager", Events: []string{"succeeded"}}}},
			{"notify.events", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "x:pager", Events: []string{"dead", "dead"}}}},
			{"notify.events", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "x:pager", Events: []string{"overdue"}}}},
			{"notify.late", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "x:pager", Events: []string{"late"}}}},
			{"notify.after", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "x:pager", After: 2}}},
			{"notify.format", rouse.Spec{Schedule: "@after 10m", Target: "x:y", Notify: rouse.Notify{Target: "x:pager", Format: "pigeon"}}},
			{"on_success", rouse.Spec{Schedule: "@after 10m", Target: "x:y", OnSuccess: "no:target"}},
			{"on_failure", rouse.Spec{Schedule: "@after 10m", Target: "x:y", OnFailure: "no:target"}},
		} {
			res, err := ts.Put(t.Context(), []Put{{Key: rouse.Key{Namespace: "n", Name: "bad"}, Spec: bad.spec}})
			var inv *rouse.Invalid
			if err != nil || !errors.As(res[0].Err, &inv) || !strings.HasPrefix(inv.Problems[0].Field, bad.field) {
				t.Errorf("%s: %v, %v", bad.field, err, res[0].Err)
			}
		}
	})
}

// TestExpectationsOnEveryStore: on every store, and over a restart, a timer is overdue, told once and
// recovers.
func TestExpectationsOnEveryStore(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			sink := &told{down: true}
			var key rouse.Key
			t.Run("before", func(t *testing.T) {
				ts := running(t, s, sink, Options{})
				key = made(t, ts, "a", rouse.Spec{Schedule: "@every 300ms", Target: "x:y", Overlap: rouse.OverlapSkip, Expect: rouse.Expect{Every: time.Second, Notify: "x:pager"}}).Key
				poll.Until(t, "it is overdue", func() bool { return len(sink.got()) > 0 })
			})
			sink.set(false)
			ts := running(t, s, sink, Options{})
			poll.Until(t, "it has recovered", func() bool { return len(sink.got()) > 1 })
			poll.Until(t, "all is written", func() bool {
				n, err := ts.store.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateFiring, rouse.StateOverdue}})
				return err == nil && n == 0
			})
			if got := sink.got(); !slices.Equal(got[:2], []string{"overdue a", "recovered a"}) {
				t.Errorf("told %q", got)
			}
			if tm, err := ts.Get(t.Context(), key); err != nil || tm.Succeeded == 0 {
				t.Errorf("%+v, %v", tm.Succeeded, err)
			}
		})
	}
}
