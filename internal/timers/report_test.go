package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/store/mem"
)

// watched is a check that is expected to succeed once an hour, and not more than ten minutes later.
var watched = rouse.Spec{Schedule: "@every 1h", Target: rouse.CheckTarget,
	Expect: rouse.Expect{Every: time.Hour, Grace: 10 * time.Minute, Notify: "x:pager"}}

// sentNothing is told, and fails the test if a check is sent.
type sentNothing struct {
	told
	t *testing.T
}

func (s *sentNothing) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		if fires[i].Spec.IsCheck() {
			s.t.Errorf("a check was sent: %+v", fires[i])
		}
	}
	s.told.Deliver(ctx, fires, settle)
}

// reporter reports on one check.
type reporter struct {
	*Timers
	t   *testing.T
	key rouse.Key
}

func (r reporter) report(status rouse.ReportStatus, log string) rouse.Instant {
	r.t.Helper()
	by, err := r.ReportCheck(r.t.Context(), r.key, rouse.CheckReport{Status: status, Log: log})
	if err != nil {
		r.t.Fatal(err)
	}
	return by
}

func (r reporter) get() rouse.Timer {
	r.t.Helper()
	t, err := r.Get(r.t.Context(), r.key)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// endings returns the records of the check without those of its notices, the oldest first.
func (r reporter) endings() (list []rouse.Record, text string) {
	r.t.Helper()
	page, err := r.Records(r.t.Context(), rouse.RecordQuery{Namespace: r.key.Namespace, Name: r.key.Name, Limit: 100})
	if err != nil || page.Next != nil {
		r.t.Fatal(err, page.Next)
	}
	slices.Reverse(page.Records)
	for _, rec := range page.Records {
		if rec.Cause != rouse.CauseNotice {
			list = append(list, rec)
			text += fmt.Sprintf("%v %v, ", rec.Ending, rec.Cause)
		}
	}
	return list, strings.TrimSuffix(text, ", ")
}

// wantEndings compares the endings of the check in its records, and its counts.
func (r reporter) wantEndings(want string) []rouse.Record {
	r.t.Helper()
	list, got := r.endings()
	if got != want {
		r.t.Errorf("records: %s; want: %s", got, want)
	}
	t := r.get()
	if t.Ended != uint64(len(list)) || t.Fired+t.Dead+t.Missed != t.Ended {
		r.t.Errorf("%d records; %d ended, %d fired, %d dead, %d missed", len(list), t.Ended, t.Fired, t.Dead, t.Missed)
	}
	return list
}

// TestAReportOfACheck: a success moves the check to its next time, is on record with its duration, and ends
// its being overdue; a failure is on record and is no success; being overdue is on record once. Nothing is
// sent but notices.
func TestAReportOfACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &sentNothing{t: t}
		ts := running(t, mem.New(), sink, Options{})
		answered := watched
		answered.KeepAnswer = 6
		r := reporter{ts, t, made(t, ts, "backup", answered).Key}
		first := r.get()
		if first.Visible != rouse.Never || first.Due != first.Created.Add(time.Hour) {
			t.Fatalf("visible %v, due %v", first.Visible, first.Due)
		}
		time.Sleep(62 * time.Minute)
		r.report(rouse.ReportStart, "")
		if got := r.get(); got.Began == 0 || got.Fired != 0 || got.Visible != rouse.Never {
			t.Errorf("after a start: %+v", got)
		}
		time.Sleep(5 * time.Minute)
		by := r.report(rouse.ReportSuccess, "copied 3 files\nbye")
		got := r.get()
		if got.Due != first.Due.Add(time.Hour) || got.Succeeded < rouse.Reached(time.Now()) || got.Began != 0 ||
			by != got.Succeeded.Add(70*time.Minute) || got.Visible != rouse.Never || string(got.Answer.Payload) != "copied 3 files\nbye" {
			t.Errorf("after a success: %+v, expected by %v", got, by)
		}
		list := r.wantEndings("fired reported")
		if rec := list[0]; rec.Ended.Sub(rec.Began) != 5*time.Minute || rec.Due != rec.Began || !rec.Manual ||
			rec.Reason != "copied 3 files\nbye" || rec.Attempts != 1 || string(rec.Answer.Payload) != "copied" || !rec.Answer.Cut {
			t.Errorf("record %+v", rec)
		}

		time.Sleep(time.Minute)
		succeeded := got.Succeeded
		r.report(rouse.ReportFail, "disk full")
		if got = r.get(); got.LastError != "disk full" || got.Succeeded != succeeded {
			t.Errorf("after a failure: %q, succeeded %v", got.LastError, got.Succeeded)
		}
		if rec := r.wantEndings("fired reported, dead reported")[1]; rec.Reason != "disk full" || rec.Began != 0 {
			t.Errorf("record %+v", rec)
		}
		if n := len(sink.got()); n != 0 {
			t.Errorf("%d notices of a check that is not late", n)
		}

		time.Sleep(2 * time.Hour)
		if got := sink.got(); !slices.Equal(got, []string{"overdue backup"}) || r.get().Overdue != by {
			t.Errorf("told %q, overdue %v, expected by %v", got, r.get().Overdue, by)
		}
		if rec := r.wantEndings("fired reported, dead reported, missed not_reported")[2]; rec.Due != by || rec.Manual {
			t.Errorf("record %+v", rec)
		}
		r.report(rouse.ReportSuccess, "")
		time.Sleep(time.Minute)
		if got := sink.got(); !slices.Equal(got, []string{"overdue backup", "recovered backup"}) || r.get().Overdue != 0 {
			t.Errorf("told %q, overdue %v", got, r.get().Overdue)
		}
		list = r.wantEndings("fired reported, dead reported, missed not_reported, fired reported")
		if got := r.get(); got.Answer != nil || got.LastError != "" || got.Due <= rouse.Reached(time.Now()) {
			t.Errorf("after it recovered: %+v", got)
		}
		ids := map[string]bool{}
		for _, rec := range list {
			ids[rec.FireID()] = true
		}
		if len(ids) != len(list) {
			t.Errorf("%d ids of %d records", len(ids), len(list))
		}
		for _, rec := range list {
			x, err := ts.Explain(t.Context(), r.key, rec.Due)
			if err != nil || !slices.ContainsFunc(x.Reasons, func(e Reason) bool { return strings.Contains(e.Text, "reported a") }) {
				t.Errorf("the record of %v is explained by %+v, %v", rec.Due, x.Reasons, err)
			}
		}
		if v := ts.Violations(); v.Total != 0 {
			t.Errorf("%+v", v)
		}
	})
}

// TestChecksAreExplained: what foretells and explains the times of timers calls those of a check no fires.
func TestChecksAreExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, mem.New(), &sentNothing{t: t}, Options{})
		r := reporter{ts, t, made(t, ts, "backup", watched).Key}
		due := r.get().Due
		x, err := ts.Explain(t.Context(), r.key, 0)
		if err != nil || x.Reasons[0].Code != "scheduled" || !strings.Contains(x.Summary, "check") || len(x.Next) == 0 {
			t.Errorf("%+v, %v", x, err)
		}
		now := rouse.Reached(time.Now())
		if sim, err := ts.Simulate(t.Context(), rouse.Query{Namespace: "n"}, 0, now.Add(3*time.Hour), 10); err != nil || len(sim.Fires) != 0 {
			t.Errorf("simulated %+v, %v", sim, err)
		}
		if f, err := ts.Forecast(t.Context(), rouse.Query{Namespace: "n"}, 0, now.Add(3*time.Hour), time.Hour, "", nil); err != nil || len(f.Loads) != 0 {
			t.Errorf("forecast %+v, %v", f, err)
		}
		time.Sleep(61 * time.Minute)
		if x, err := ts.Explain(t.Context(), r.key, due); err != nil || !strings.Contains(x.Summary, "A report was expected") {
			t.Errorf("%+v, %v", x, err)
		}
		r.report(rouse.ReportStart, "")
		if x, err := ts.Explain(t.Context(), r.key, 0); err != nil || !strings.Contains(x.Summary, "has not ended") {
			t.Errorf("%+v, %v", x, err)
		}
		time.Sleep(10 * time.Minute)
		if x, err := ts.Explain(t.Context(), r.key, 0); err != nil || x.Reasons[0].Code != "overdue" || x.Reasons[0].Cure != cureReport {
			t.Errorf("%+v, %v", x, err)
		}
	})
}

// TestChecksAreNotSent: operations that would send a check are refused, and so are fields that have no
// meaning for one, and reports on other timers.
func TestChecksAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, mem.New(), &sentNothing{t: t}, Options{})
		r := reporter{ts, t, made(t, ts, "backup", watched).Key}
		other := made(t, ts, "other", hourly).Key
		time.Sleep(65 * time.Minute)
		now := rouse.Reached(time.Now())
		refused := func(what, field string, err error) {
			t.Helper()
			inv, ok := errors.AsType[*rouse.Invalid](err)
			if !ok || !slices.ContainsFunc(inv.Problems, func(p rouse.Problem) bool { return p.Field == field && p.Cure != "" }) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, _, err := ts.RunNow(t.Context(), r.key)
		refused("run", "name", err)
		_, err = ts.Skip(t.Context(), r.key, 1, "")
		refused("skip", "name", err)
		_, err = ts.Backfill(t.Context(), r.key, BackfillRequest{From: now.Add(-time.Hour), Until: now})
		refused("backfill", "name", err)
		_, err = ts.ReportCheck(t.Context(), other, rouse.CheckReport{})
		refused("report on another timer", "name", err)
		_, err = ts.ReportCheck(t.Context(), r.key, rouse.CheckReport{Log: strings.Repeat("x", rouse.MaxReportLog+1)})
		refused("long log", "log", err)
		if _, err = ts.ReportCheck(t.Context(), rouse.Key{Namespace: "n", Name: "none"}, rouse.CheckReport{}); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("report on nothing: %v", err)
		}
		for field, change := range map[string]func(*rouse.Spec){
			"expect":          func(s *rouse.Spec) { s.Expect = rouse.Expect{} },
			"expect.notify":   func(s *rouse.Spec) { s.Expect.Notify = rouse.CheckTarget },
			"schedule":        func(s *rouse.Spec) { s.Schedule = "@after 1h" },
			"payload":         func(s *rouse.Spec) { s.Payload = []byte("x") },
			"end":             func(s *rouse.Spec) { s.End = now.Add(time.Hour) },
			"ttl":             func(s *rouse.Spec) { s.TTL = 48 * time.Hour },
			"max_occurrences": func(s *rouse.Spec) { s.MaxOccurrences = 3 },
			"jitter":          func(s *rouse.Spec) { s.Jitter = time.Minute },
			"retry":           func(s *rouse.Spec) { s.Retry.Attempts = 3 },
			"limit":           func(s *rouse.Spec) { s.Limit = "one" },
			"misfire":         func(s *rouse.Spec) { s.Misfire = rouse.MisfireAll },
			"overlap":         func(s *rouse.Spec) { s.Overlap = rouse.OverlapSkip },
			"deadline":        func(s *rouse.Spec) { s.Deadline = time.Minute },
			"keep":            func(s *rouse.Spec) { s.Keep = time.Minute },
			"webhook":         func(s *rouse.Spec) { s.Webhook.Method = "GET" },
			"notify.late":     func(s *rouse.Spec) { s.Notify = rouse.Notify{Target: "x:pager", Late: time.Minute} },
			"on_success":      func(s *rouse.Spec) { s.OnSuccess = rouse.CheckTarget },
			"pause_after":     func(s *rouse.Spec) { s.PauseAfter = 3 },
		} {
			spec := watched
			change(&spec)
			refused(field, field, spec.Check())
		}
		if err := watched.Check(); err != nil {
			t.Error(err)
		}
		r.wantEndings("")
	})
}

// TestChecksThroughChanges: a check that is paused is not expected to report, and after the pause from then
// on; a report counts during a pause, too. Neither a pause, a replacement nor a delete puts the times at
// which nothing was reported on record, and a timer that becomes a check is not sent, nor one that was one
// for times before.
func TestChecksThroughChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &sentNothing{t: t}
		ts := running(t, mem.New(), sink, Options{})
		put := func(name string, spec rouse.Spec) reporter {
			t.Helper()
			key := rouse.Key{Namespace: "n", Name: name}
			if res, err := ts.Put(t.Context(), []Put{{Key: key, Spec: spec, Mode: CreateOrReplace}}); err != nil || res[0].Err != nil {
				t.Fatal(err, res)
			}
			return reporter{ts, t, key}
		}
		r := put("paused", watched)
		until := rouse.Reached(time.Now().Add(2 * time.Hour))
		if _, err := ts.Pause(t.Context(), r.key, "", until); err != nil {
			t.Fatal(err)
		}
		r.report(rouse.ReportStart, "")
		time.Sleep(110 * time.Minute)
		if got := r.get(); !got.Paused || got.Visible != until || got.Overdue != 0 {
			t.Errorf("during the pause: %+v", got)
		}
		r.report(rouse.ReportSuccess, "")
		if got := r.get(); !got.Paused || got.Visible != until || got.Fired != 1 {
			t.Errorf("a success during the pause: %+v", got)
		}
		time.Sleep(20 * time.Minute)
		if got := r.get(); got.Paused || got.Visible != rouse.Never || got.ExpectFrom < until {
			t.Errorf("after the pause: %+v", got)
		}
		r.report(rouse.ReportStart, "") // a resume leaves work in progress alone
		if _, err := ts.Pause(t.Context(), r.key, "", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Minute)
		now := rouse.Reached(time.Now())
		if got, err := ts.Resume(t.Context(), r.key); err != nil || got.Visible != rouse.Never || got.Due <= now || got.Began == 0 {
			t.Errorf("resumed: %+v, %v", got, err)
		}
		time.Sleep(time.Hour)
		if n := len(sink.got()); n != 0 {
			t.Errorf("%d notices", n)
		}
		r.wantEndings("fired reported")
		time.Sleep(20 * time.Minute)
		if got := sink.got(); !slices.Equal(got, []string{"overdue paused"}) {
			t.Errorf("told %q", got)
		}
		r.wantEndings("fired reported, missed not_reported")

		hours := watched
		hours.Expect = rouse.Expect{Every: 1000 * time.Hour}
		other := hours
		other.Schedule = "@every 50m"
		r = put("replaced", hours)
		time.Sleep(150 * time.Minute)
		r.report(rouse.ReportFail, "")
		put("replaced", other)
		if got := r.get(); got.Visible != rouse.Never || got.Dead != 1 {
			t.Errorf("replaced: %+v", got)
		}
		put("replaced", hours)
		time.Sleep(150 * time.Minute)
		sends := hours
		sends.Target = "x:y"
		put("replaced", sends) // the same schedule
		if got := r.get(); got.Due <= rouse.Reached(time.Now()) || got.Visible != got.Due {
			t.Errorf("no check any more: %+v", got)
		}
		time.Sleep(90 * time.Minute)
		put("replaced", hours)
		time.Sleep(150 * time.Minute)
		if got := r.get(); got.Visible != rouse.Never {
			t.Errorf("a check again: %+v", got)
		}
		if _, text := r.endings(); text != "dead reported, fired delivered" {
			t.Errorf("records: %s", text)
		}
		if _, err := ts.Delete(t.Context(), r.key, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if _, text := r.endings(); text != "dead reported, fired delivered" {
			t.Errorf("records after a delete: %s", text)
		}
		if v := ts.Violations(); v.Total != 0 {
			t.Errorf("%+v", v)
		}
	})
}

// TestChecksOnTwoNodes: reports may come to any node, also after a restart, and each counts once; a repeated
// one with its Idempotency-Key counts no second time.
func TestChecksOnTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := mem.New(), &sentNothing{t: t}
		o := Options{}
		o.Engine.Shared = true
		run := func(f func(nodes []reporter)) {
			var nodes []reporter
			for range 2 {
				ts, stop := startBy(t, store, claim.NewLease(1, 8*time.Second), sink, o)
				defer stop()
				nodes = append(nodes, reporter{ts, t, rouse.Key{Namespace: "n", Name: "backup"}})
			}
			f(nodes)
		}
		run(func(nodes []reporter) {
			made(t, nodes[0].Timers, "backup", watched)
			time.Sleep(61 * time.Minute)
			nodes[0].report(rouse.ReportStart, "")
			time.Sleep(time.Minute)
			nodes[1].report(rouse.ReportSuccess, "")
			if got := nodes[0].get(); got.Visible != rouse.Never || got.Fired != 1 || got.Began != 0 {
				t.Errorf("%+v", got)
			}
			for range 2 {
				for _, n := range nodes {
					if _, err := n.ReportCheck(asking(t, "me", "same"), n.key, rouse.CheckReport{}); err != nil {
						t.Error(err)
					}
				}
			}
			nodes[0].wantEndings("fired reported, fired reported")
			errs := make(chan error)
			for i := range 20 {
				go func() {
					_, err := nodes[i%2].ReportCheck(t.Context(), nodes[0].key, rouse.CheckReport{})
					errs <- err
				}()
			}
			var err error
			for range 20 {
				err = cmp.Or(err, <-errs)
			}
			list, _ := nodes[1].endings()
			ids := map[string]bool{}
			for _, rec := range list {
				ids[rec.FireID()] = true
			}
			if got := nodes[0].get(); err != nil || got.Fired != 22 || len(list) != 22 || len(ids) != 22 {
				t.Errorf("%d successes, %d records, %d ids, %v", got.Fired, len(list), len(ids), err)
			}
		})
		time.Sleep(2 * time.Hour) // no node runs
		run(func(nodes []reporter) {
			time.Sleep(time.Minute)
			if got := sink.got(); !slices.Equal(got, []string{"overdue backup"}) {
				t.Errorf("told %q", got)
			}
			nodes[1].report(rouse.ReportSuccess, "")
			time.Sleep(time.Minute)
			if got := sink.got(); !slices.Equal(got, []string{"overdue backup", "recovered backup"}) {
				t.Errorf("told %q", got)
			}
			_, text := nodes[0].endings()
			if !strings.HasSuffix(text, "fired reported, missed not_reported, fired reported") {
				t.Errorf("records: %s", text)
			}
			if _, err := nodes[0].Delete(t.Context(), nodes[0].key, 0); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
			if _, after := nodes[0].endings(); after != text {
				t.Errorf("records after a delete: %s", after)
			}
			late := reporter{nodes[1].Timers, t, made(t, nodes[0].Timers, "late", watched).Key}
			time.Sleep(2 * time.Hour)
			if _, err := late.Delete(t.Context(), late.key, 0); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
			if _, text := late.endings(); text != "missed not_reported" {
				t.Errorf("records after a delete of one that is overdue: %s", text)
			}
		})
	})
}

// TestFailuresOfChecksAreTold: notify tells of a failure that is reported, and of the next success; being
// overdue is told once, not as missed, too.
func TestFailuresOfChecksAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &sentNothing{t: t}
		ts := running(t, mem.New(), sink, Options{})
		spec := watched
		spec.Expect.Notify, spec.Notify = "", rouse.Notify{Target: "x:pager"}
		r := reporter{ts, t, made(t, ts, "backup", spec).Key}
		told := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := sink.got(); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		r.report(rouse.ReportFail, "disk full")
		told("dead backup")
		r.report(rouse.ReportSuccess, "")
		told("dead backup", "recovered backup")
		time.Sleep(2 * time.Hour)
		told("dead backup", "recovered backup", "overdue backup")
		r.report(rouse.ReportSuccess, "")
		told("dead backup", "recovered backup", "overdue backup", "recovered backup")
	})
}
