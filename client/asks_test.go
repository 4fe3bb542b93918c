package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func TestSkipAndReschedule(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	if _, err := c.Skip(ctx, "ns", "a", 3, "why"); err != nil {
		t.Error(err)
	}
	if r := asked[*rousev1.SkipRequest](f); r.Namespace != "ns" || r.Name != "a" || r.Count != 3 || r.Reason != "why" {
		t.Errorf("asked for %v", r)
	}
	when := rouse.Spec{Schedule: "0 9 * * *", Timezone: "Asia/Tokyo", Target: "stream:", Payload: []byte("x"), Start: 5, MaxOccurrences: 9}
	got, err := c.Reschedule(ctx, "ns", "a", when, IfRevision(4))
	if err != nil || !got.InFlight || got.Key.Name != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	if r := asked[*rousev1.RescheduleRequest](f); r.When.GetSchedule() != when.Schedule || r.When.GetTimezone() != when.Timezone || r.ExpectedRevision != 4 {
		t.Errorf("asked for %v", r)
	}
	if got, err := c.Patch(ctx, "ns", "a", `{"retry": null}`, IfRevision(4)); err != nil || got.Key.Name != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	if r := asked[*rousev1.PatchRequest](f); r.Patch != `{"retry": null}` || r.ExpectedRevision != 4 {
		t.Errorf("asked for %v", r)
	}
	if _, err := c.PauseUntil(ctx, "ns", "none", "", 7); !errors.Is(err, rouse.ErrNotFound) {
		t.Error(err)
	}
	_, _ = c.Create(ctx, "ns", "p", spec)
	if _, err := c.PauseUntil(ctx, "ns", "p", "why", 7); err != nil || asked[*rousev1.PauseRequest](f).UntilMs != 7 {
		t.Errorf("asked for %v, %v", f.last, err)
	}
}

func TestReplaceTellsWhatIsInFlight(t *testing.T) {
	c, _ := start(t, Options{})
	if r, err := c.Replace(t.Context(), "ns", "a", spec); err != nil || r.InFlight {
		t.Errorf("a new timer: %+v, %v", r, err)
	}
	if r, err := c.Replace(t.Context(), "ns", "a", spec); err != nil || !r.InFlight || r.Revision != 2 {
		t.Errorf("a replaced timer: %+v, %v", r, err)
	}
	got, err := c.BatchCreate(t.Context(), "ns", CreateOrReplace, []NewTimer{{"a", spec}, {"b", spec}})
	if err != nil || !got[0].InFlight || got[1].InFlight {
		t.Errorf("in a batch: %+v, %v", got, err)
	}
}

func TestDebounceAndThrottle(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	work := rouse.Spec{Target: "stream:"}
	if got, err := c.Debounce(ctx, "ns", "a", work, time.Second, time.Minute); err != nil || !got.InFlight {
		t.Errorf("%+v, %v", got, err)
	}
	d := asked[*rousev1.CreateRequest](f).GetDebounce()
	if d.GetQuiet().AsDuration() != time.Second || d.GetMaxWait().AsDuration() != time.Minute {
		t.Errorf("asked for %v", d)
	}
	if _, err := c.Throttle(ctx, "ns", "a", work, time.Hour); err != nil {
		t.Error(err)
	}
	if r := asked[*rousev1.CreateRequest](f); r.GetThrottle().GetEvery().AsDuration() != time.Hour || r.GetDebounce() != nil {
		t.Errorf("asked for %v", r)
	}
	var inv *rouse.Invalid
	if _, err := c.Debounce(ctx, "ns", "a", work, time.Minute, time.Second); !errors.As(err, &inv) || inv.Problems[0].Field != "debounce.max_wait" {
		t.Errorf("a bound that is shorter than the quiet: %v", err)
	}
	if _, err := c.Throttle(ctx, "ns", "a", work, 0); !errors.As(err, &inv) {
		t.Errorf("a throttle of nothing: %v", err)
	}
	if f.count("Create") != 2 {
		t.Errorf("%d calls", f.count("Create"))
	}
}

func TestExplainSimulatePreview(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	e, err := c.Explain(ctx, "ns", "a", 7)
	if err != nil || e.Summary != "it is paused" || e.Words != "every minute" || e.Timer == nil || e.Timer.Key.Name != "a" ||
		!slices.Equal(e.Reasons, []Reason{{"paused", "why", 7, 5, 9, "resume it"}}) || len(e.Records) != 1 || e.Records[0].Ending != rouse.EndMissed {
		t.Errorf("%+v, %v", e, err)
	}
	if r := asked[*rousev1.ExplainRequest](f); r.AtMs != 7 {
		t.Errorf("asked for %v", r)
	}
	if len(e.Next) != 1 || e.Next[0].Due != 1_799_971_200_000 || e.Next[0].At.Sub(e.Next[0].Due) != time.Minute || e.Next[0].Mark != "odd" ||
		e.Next[0].Local.Format(time.RFC3339) != "2027-01-15T13:00:00+01:00" || e.Next[0].Name != "a" || e.Next[0].FireID != "fire" {
		t.Errorf("next: %+v", e.Next)
	}
	if e, err := c.Explain(ctx, "ns", "none", 0); err != nil || e.Timer != nil || e.Summary == "" {
		t.Errorf("of no timer: %+v, %v", e, err)
	}
	s, err := c.Simulate(ctx, rouse.Query{Namespace: "ns", Prefix: "a"}, 5, 9, 17)
	if err != nil || len(s.Fires) != 1 || s.Timers != 9 || !s.More {
		t.Errorf("%+v, %v", s, err)
	}
	if r := asked[*rousev1.SimulateRequest](f); r.Filter.NamePrefix != "a" || r.FromMs != 5 || r.UntilMs != 9 || r.Limit != 17 {
		t.Errorf("asked for %v", r)
	}
	load, next, err := c.Forecast(ctx, rouse.Query{Prefix: "a"}, rouse.ByTarget, 5, 9, time.Minute, "token")
	if err != nil || next != "next" || load.From != 5 || !slices.Equal(load.Loads, []rouse.Load{{From: 6, Count: 7}}) || load.Timers != 8 || load.Of != 9 {
		t.Errorf("%+v, %q, %v", load, next, err)
	}
	if r := asked[*rousev1.ForecastRequest](f); r.Filter.NamePrefix != "a" || r.By != "target" || r.FromMs != 5 || r.UntilMs != 9 || r.Step.AsDuration() != time.Minute || r.PageToken != "token" {
		t.Errorf("asked for %v", r)
	}
	p, err := c.Preview(ctx, PreviewRequest{Spec: rouse.Spec{Schedule: "* * * * *", MaxOccurrences: 3}, Namespace: "ns", Name: "a", After: 10, Count: 2})
	if err != nil || p.Words != "every minute" || p.Timezone != "Europe/Berlin" || len(p.Next) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if r := asked[*rousev1.PreviewRequest](f); r.Spec.GetSchedule() != "* * * * *" || r.Namespace != "ns" || r.Name != "a" || r.FromMs != 10 || r.Count != 2 {
		t.Errorf("asked for %v", r)
	}
}

func TestBackfill(t *testing.T) {
	c, f := start(t, Options{})
	b, err := c.Backfill(t.Context(), "ns", "a", BackfillRequest{From: 5, Until: 9, DryRun: true, PerSecond: 2.5})
	if err != nil || b.Count != 3 || b.Waiting != 1 || len(b.Fires) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	if r := asked[*rousev1.BackfillRequest](f); r.Name != "a" || r.FromMs != 5 || r.UntilMs != 9 || !r.DryRun || r.PerSecond != 2.5 {
		t.Errorf("asked for %v", r)
	}
}

// Calls that are not idempotent are made once, whatever the response is, unless they have a key.
func TestWhatIsNotTriedAgain(t *testing.T) {
	c, f := start(t, Options{})
	for method, call := range map[string]func(ctx context.Context) error{
		"Create": func(ctx context.Context) error {
			_, err := c.Debounce(ctx, "ns", "a", spec, time.Second, 0)
			return err
		},
		"BatchCreate": func(ctx context.Context) error {
			_, err := c.BatchCreate(ctx, "ns", CreateOnly, []NewTimer{{"b", spec}})
			return err
		},
		"Import": func(ctx context.Context) error { _, err := c.Import(ctx, CreateOnly, nil, nil); return err },
	} {
		f.fail = []failing{{err: errDown, after: true}}
		if err := call(t.Context()); !errors.Is(err, rouse.ErrUnavailable) || f.count(method) != 1 {
			t.Errorf("%s was called %d times: %v", method, f.count(method), err)
		}
		f.fail = []failing{{err: errDown, after: true}}
		if err := call(WithIdempotencyKey(WithIdempotencyKey(t.Context(), "old"), "mine")); err != nil || !slices.Equal(f.keys[method], []string{"", "mine", "mine"}) {
			t.Errorf("%s was called with the keys %q: %v", method, f.keys[method], err)
		}
	}
	if made, err := c.Create(WithIdempotencyKey(t.Context(), "mine"), "ns", "", spec); err != nil || asked[*rousev1.CreateRequest](f).Name != "" {
		t.Errorf("the client made up a name: %+v, %v", made, err)
	}
}

// TestWhatIsTriedAgainWithAKey: calls that change something more each time have a key of their own, the same
// for each try.
func TestWhatIsTriedAgainWithAKey(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	for method, call := range map[string]func(ctx context.Context) error{
		"Skip":  func(ctx context.Context) error { _, err := c.Skip(ctx, "ns", "a", 1, ""); return err },
		"Patch": func(ctx context.Context) error { _, err := c.Patch(ctx, "ns", "a", "{}"); return err },
		"Reschedule": func(ctx context.Context) error {
			_, err := c.Reschedule(ctx, "ns", "a", spec, IfRevision(4))
			return err
		},
		"Backfill": func(ctx context.Context) error {
			_, err := c.Backfill(ctx, "ns", "a", BackfillRequest{From: 5, Until: 9})
			return err
		},
		"Run":          func(ctx context.Context) error { _, _, err := c.Run(ctx, "ns", "a"); return err },
		"AdvanceClock": func(ctx context.Context) error { _, err := c.AdvanceClock(ctx, Advance{By: time.Hour}); return err },
	} {
		for range 2 {
			f.fail = []failing{{err: errDown, after: true}}
			if err := call(ctx); err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
		if k := f.keys[method]; len(k) != 4 || k[0] == "" || k[0] != k[1] || k[2] != k[3] || k[0] == k[2] {
			t.Errorf("%s was called with the keys %q", method, k)
		}
		if err := call(WithIdempotencyKey(ctx, "mine")); err != nil || f.keys[method][4] != "mine" {
			t.Errorf("%s was called with the keys %q: %v", method, f.keys[method], err)
		}
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	for method, call := range map[string]func() error{
		"Reschedule": func() error { _, err := c.Reschedule(ctx, "ns", "a", spec); return err },
		"Backfill": func() error {
			_, err := c.Backfill(ctx, "ns", "a", BackfillRequest{From: 5, Until: 9, DryRun: true})
			return err
		},
		"GetBadge":       func() error { _, err := c.Badge(ctx, "ns", "a"); return err },
		"Explain":        func() error { _, err := c.Explain(ctx, "ns", "a", 0); return err },
		"Simulate":       func() error { _, err := c.Simulate(ctx, rouse.Query{}, 0, 9, 0); return err },
		"Forecast":       func() error { _, _, err := c.Forecast(ctx, rouse.Query{}, "", 0, 9, 0, ""); return err },
		"Import":         func() error { _, err := c.Import(ctx, CreateOrReplace, nil, nil); return err },
		"PutCalendar":    func() error { _, err := c.PutCalendar(ctx, "ns", "a", nil); return err },
		"GetCalendar":    func() error { _, err := c.Calendar(ctx, "ns", "a"); return err },
		"ListCalendars":  func() error { _, err := c.Calendars(ctx, "ns"); return err },
		"DeleteCalendar": func() error { return c.DeleteCalendar(ctx, "ns", "a") },
		"GetClock":       func() error { _, err := c.Clock(ctx); return err },
	} {
		f.fail = []failing{{err: errDown, after: true}}
		if err := call(); err != nil || f.count(method) != 2 {
			t.Errorf("%s was called %d times: %v", method, f.count(method), err)
		}
	}
	if err := c.DeleteCalendar(ctx, "ns", "a"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("delete a calendar that was never there: %v", err)
	}
}

func TestImport(t *testing.T) {
	c, f := start(t, Options{})
	timers := []rouse.Timer{{Key: rouse.Key{Namespace: "ns", Name: "a"}, Spec: spec, Ended: 17}, {Key: rouse.Key{Namespace: "ns", Name: "b"}, Spec: spec}}
	calendars := []rouse.Calendar{{Namespace: "ns", Name: "days", Days: []rouse.Day{{Date: 1, Text: "one"}}}}
	got, err := c.Import(t.Context(), CreateOnly, timers, calendars)
	if err != nil || len(got) != 2 || got[0].Err != nil || got[0].Generation != 5 || !errors.Is(got[1].Err, rouse.ErrExists) {
		t.Errorf("%+v, %v", got, err)
	}
	r := asked[*rousev1.ImportRequest](f)
	if len(r.Timers) != 2 || r.Timers[0].Ended != 17 || r.Timers[0].State != "scheduled" || r.Calendars[0].Name != "days" || r.Calendars[0].Days[0].Date != "1970-01-02" {
		t.Errorf("asked for %v", r)
	}
}

func TestCalendars(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	saved, err := c.PutCalendar(ctx, "ns", "days", []rouse.Day{{Date: 1, Text: "one"}, {Date: 0}})
	if err != nil || saved.Revision != 4 || saved.Days != 2 || saved.Moved != 6 || !slices.Equal(saved.Warnings, []string{"careful"}) {
		t.Errorf("%+v, %v", saved, err)
	}
	if r := asked[*rousev1.PutCalendarRequest](f); r.Days[0].Date != "1970-01-02" || r.Days[0].Text != "one" || r.Days[1].Date != "1970-01-01" || r.Icalendar != nil {
		t.Errorf("asked for %v", r)
	}
	if _, err := c.PutICalendar(ctx, "ns", "days", []byte("BEGIN:VCALENDAR")); err != nil || string(asked[*rousev1.PutCalendarRequest](f).Icalendar) != "BEGIN:VCALENDAR" {
		t.Errorf("asked for %v, %v", f.last, err)
	}
	var inv *rouse.Invalid
	if _, err := c.PutICalendar(ctx, "ns", "days", nil); !errors.As(err, &inv) {
		t.Errorf("an empty file: %v", err)
	}
	got, err := c.Calendar(ctx, "ns", "days")
	if err != nil || got.Name != "days" || len(got.Days) != 1 || got.Days[0].Date.String() != "2027-12-24" || got.Days[0].Text != "Eve" || got.Revision != 4 || got.Updated != 8 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Calendar(ctx, "ns", "bad"); !errors.As(err, &inv) {
		t.Errorf("a day that is none: %v", err)
	}
	if list, err := c.Calendars(ctx, "ns"); err != nil || len(list) != 2 || list[1].Name != "b" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestClock(t *testing.T) {
	c, f := start(t, Options{})
	if now, err := c.Clock(t.Context()); err != nil || now != (Clock{Now: 5, Ahead: -1, Virtual: true}) {
		t.Errorf("%+v, %v", now, err)
	}
	if now, err := c.AdvanceClock(t.Context(), Advance{By: time.Hour, Jump: true}); err != nil || now != (Clock{Now: 6, Fired: 3}) {
		t.Errorf("%+v, %v", now, err)
	}
	if r := asked[*rousev1.AdvanceClockRequest](f); r.By.AsDuration() != time.Hour || !r.Jump || r.ToMs != 0 {
		t.Errorf("asked for %v", r)
	}
}

func TestBulk(t *testing.T) {
	c, f := start(t, Options{})
	var got *rousev1.BulkRequest
	f.bulk = func(r *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
		got = r
		_ = stream.Send(&rousev1.BulkProgress{Matched: 2, Changed: 1, Failed: 1, Names: []string{"a"},
			Failures: []*rousev1.BulkFailure{{Name: "b", FireId: "fire", Problem: rousev1.ErrorToProblem(rouse.ErrConflict)}}})
		return stream.Send(&rousev1.BulkProgress{Matched: 3, Changed: 2, Failed: 1, Names: []string{"c"}, Done: true})
	}
	var told []uint64
	sum, err := c.Bulk(t.Context(), BulkRequest{Query: rouse.Query{Namespace: "ns"}, Action: BulkReschedule, DryRun: true, Reason: "why", Until: 5,
		When: &spec, Limit: 7, ErrorContains: "x", PerSecond: 2.5}, func(p BulkProgress) error {
		told = append(told, p.Matched, uint64(len(p.Names)), uint64(len(p.Failures)))
		return nil
	})
	if err != nil || sum.Matched != 3 || sum.Changed != 2 || sum.Failed != 1 || !slices.Equal(sum.Names, []string{"a", "c"}) || len(sum.Failures) != 1 ||
		sum.Failures[0].Name != "b" || sum.Failures[0].FireID != "fire" || !errors.Is(sum.Failures[0].Err, rouse.ErrConflict) {
		t.Errorf("%+v, %v", sum, err)
	}
	if !slices.Equal(told, []uint64{2, 1, 1, 3, 1, 0}) {
		t.Errorf("was told %v", told)
	}
	if got.Filter.Namespace != "ns" || got.Action != "reschedule" || !got.DryRun || got.Reason != "why" || got.UntilMs != 5 || got.When.Schedule != spec.Schedule ||
		got.Limit != 7 || got.ErrorContains != "x" {
		t.Errorf("asked for %v", got)
	}
}

// A bulk request that is cut off returns its progress, and an error.
func TestBulkThatDoesNotEnd(t *testing.T) {
	c, f := start(t, Options{})
	for what, end := range map[string]struct{ returned, is error }{"breaks": {errDown, rouse.ErrUnavailable}, "just ends": {nil, io.ErrUnexpectedEOF}} {
		f.bulk = func(_ *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
			_ = stream.Send(&rousev1.BulkProgress{Matched: 2, Changed: 2})
			return end.returned
		}
		if sum, err := c.Bulk(t.Context(), BulkRequest{Action: BulkDelete}, nil); !errors.Is(err, end.is) || sum.Changed != 2 {
			t.Errorf("a stream that %s: %+v, %v", what, sum, err)
		}
	}
	over := make(chan error, 1)
	f.bulk = func(_ *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
		_ = stream.Send(&rousev1.BulkProgress{Matched: 1})
		<-stream.Context().Done()
		over <- stream.Context().Err()
		return stream.Context().Err()
	}
	enough := errors.New("enough")
	if _, err := c.Bulk(t.Context(), BulkRequest{}, func(BulkProgress) error { return enough }); err != enough {
		t.Errorf("the error of the caller came as %v", err)
	}
	within(t, over, "the service to hear of it")
}

func TestBackup(t *testing.T) {
	c, f := start(t, Options{})
	f.backup = func(stream grpc.ServerStreamingServer[rousev1.BackupChunk]) error {
		for _, part := range []string{"one ", "two ", "three"} {
			if err := stream.Send(&rousev1.BackupChunk{Data: []byte(part)}); err != nil {
				return err
			}
		}
		return nil
	}
	var b bytes.Buffer
	if n, err := c.Backup(t.Context(), &b); err != nil || n != 13 || b.String() != "one two three" {
		t.Errorf("%d bytes, %q, %v", n, b.String(), err)
	}
	if _, err := c.Backup(t.Context(), full{}); err != io.ErrShortWrite {
		t.Errorf("a disk that is full: %v", err)
	}
	f.backup = func(stream grpc.ServerStreamingServer[rousev1.BackupChunk]) error {
		_ = stream.Send(&rousev1.BackupChunk{Data: []byte("one ")})
		return errDown
	}
	b.Reset()
	if n, err := c.Backup(t.Context(), &b); !errors.Is(err, rouse.ErrUnavailable) || n != 4 {
		t.Errorf("%d bytes of a backup that breaks: %v", n, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// A call without a deadline gets the one of the options; a call that has one keeps it.
func TestTimeout(t *testing.T) {
	for what, o := range map[string]struct{ own, timeout time.Duration }{
		"of the call":    {10 * time.Millisecond, time.Hour},
		"of the options": {0, 10 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			c, f := start(t, Options{Timeout: o.timeout})
			f.mu.Lock() // the service hangs
			defer f.mu.Unlock()
			ctx := t.Context()
			if o.own > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, o.own)
				defer cancel()
			}
			if _, err := c.Count(ctx, rouse.Query{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	}
}
