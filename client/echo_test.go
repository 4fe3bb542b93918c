package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Calls that the fake answers without an effect: it stores the request for the test.

func echo[T any](f *fake, method string, request proto.Message, answer T) (T, error) {
	return do(f, method, func() (T, error) { f.last = request; return answer, nil })
}

// asked returns the latest request.
func asked[T proto.Message](f *fake) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, _ := f.last.(T)
	return m
}

func someTimer(name string) *rousev1.Timer {
	return &rousev1.Timer{Namespace: "ns", Name: name, Spec: rousev1.SpecToProto(&spec), State: "scheduled", DueMs: 1000, InFlight: true}
}

var someComing = &rousev1.Coming{DueMs: 1_799_971_200_000, SentAtMs: 1_799_971_260_000, Local: "2027-01-15T13:00:00+01:00", Mark: "odd", Name: "a", FireId: "fire"}

func (f *fake) Skip(_ context.Context, r *rousev1.SkipRequest) (*rousev1.Timer, error) {
	return echo(f, "Skip", r, someTimer(r.Name))
}

func (f *fake) Patch(_ context.Context, r *rousev1.PatchRequest) (*rousev1.Timer, error) {
	return echo(f, "Patch", r, someTimer(r.Name))
}

func (f *fake) Reschedule(_ context.Context, r *rousev1.RescheduleRequest) (*rousev1.Timer, error) {
	return echo(f, "Reschedule", r, someTimer(r.Name))
}

func (f *fake) Backfill(_ context.Context, r *rousev1.BackfillRequest) (*rousev1.BackfillResponse, error) {
	return echo(f, "Backfill", r, &rousev1.BackfillResponse{Count: 3, Waiting: 1, Fires: []*rousev1.Coming{someComing}})
}

func (f *fake) GetBadge(_ context.Context, r *rousev1.GetBadgeRequest) (*rousev1.Badge, error) {
	return echo(f, "GetBadge", r, &rousev1.Badge{State: "ok", Path: "/v1/badges/x.svg"})
}

func (f *fake) Explain(_ context.Context, r *rousev1.ExplainRequest) (*rousev1.ExplainResponse, error) {
	answer := &rousev1.ExplainResponse{Summary: "there is none"}
	if r.Name == "a" {
		answer = &rousev1.ExplainResponse{Summary: "it is paused", Reasons: []*rousev1.Reason{{Code: "paused", Text: "why", AtMs: 7, SinceMs: 5, UntilMs: 9, Cure: "resume it"}}, Timer: someTimer("a"),
			Words: "every minute", Next: []*rousev1.Coming{someComing},
			Records: []*rousev1.Record{rousev1.RecordToProto(&rouse.Record{Namespace: "ns", Name: "a", Ending: rouse.EndMissed})}}
	}
	return echo(f, "Explain", r, answer)
}

func (f *fake) Simulate(_ context.Context, r *rousev1.SimulateRequest) (*rousev1.SimulateResponse, error) {
	return echo(f, "Simulate", r, &rousev1.SimulateResponse{Fires: []*rousev1.Coming{someComing}, Timers: 9, More: true})
}

func (f *fake) Forecast(_ context.Context, r *rousev1.ForecastRequest) (*rousev1.ForecastResponse, error) {
	return echo(f, "Forecast", r, &rousev1.ForecastResponse{FromMs: 5, Loads: []*rousev1.Load{{FromMs: 6, Count: 7}}, Timers: 8, Of: 9, NextPageToken: "next"})
}

func (f *fake) Preview(_ context.Context, r *rousev1.PreviewRequest) (*rousev1.PreviewResponse, error) {
	return echo(f, "Preview", r, &rousev1.PreviewResponse{Next: []*rousev1.Coming{someComing}, Words: "every minute", Timezone: "Europe/Berlin"})
}

func (f *fake) Import(_ context.Context, r *rousev1.ImportRequest) (*rousev1.ImportResponse, error) {
	answer := &rousev1.ImportResponse{}
	for i, t := range r.Timers {
		created := &rousev1.Created{Name: t.Name, Generation: 5}
		if i > 0 {
			created.Problem = rousev1.ErrorToProblem(rouse.ErrExists)
		}
		answer.Created = append(answer.Created, created)
	}
	return echo(f, "Import", r, answer)
}

func (f *fake) Bulk(r *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
	return f.bulk(r, stream)
}

func (f *fake) PutCalendar(_ context.Context, r *rousev1.PutCalendarRequest) (*rousev1.PutCalendarResponse, error) {
	return echo(f, "PutCalendar", r, &rousev1.PutCalendarResponse{Calendar: &rousev1.Calendar{Revision: 4}, Days: 2, Moved: 6, Warnings: []string{"careful"}})
}

func (f *fake) GetCalendar(_ context.Context, r *rousev1.GetCalendarRequest) (*rousev1.Calendar, error) {
	date := "2027-12-24"
	if r.Name == "bad" {
		date = "Christmas"
	}
	return echo(f, "GetCalendar", r, &rousev1.Calendar{Namespace: r.Namespace, Name: r.Name, Days: []*rousev1.Day{{Date: date, Text: "Eve"}}, Revision: 4, UpdatedMs: 8})
}

func (f *fake) ListCalendars(_ context.Context, r *rousev1.ListCalendarsRequest) (*rousev1.ListCalendarsResponse, error) {
	return echo(f, "ListCalendars", r, &rousev1.ListCalendarsResponse{Calendars: []*rousev1.Calendar{{Name: "a"}, {Name: "b"}}})
}

func (f *fake) DeleteCalendar(_ context.Context, r *rousev1.DeleteCalendarRequest) (*rousev1.DeleteCalendarResponse, error) {
	return do(f, "DeleteCalendar", func() (*rousev1.DeleteCalendarResponse, error) {
		if f.calls["DeleteCalendar"] > 1 {
			return nil, rouse.ErrNotFound
		}
		return &rousev1.DeleteCalendarResponse{}, nil
	})
}

func (f *fake) Backup(_ *rousev1.BackupRequest, stream grpc.ServerStreamingServer[rousev1.BackupChunk]) error {
	return f.backup(stream)
}

func (f *fake) GetClock(_ context.Context, r *rousev1.GetClockRequest) (*rousev1.Clock, error) {
	return echo(f, "GetClock", r, &rousev1.Clock{NowMs: 5, Ahead: durationpb.New(-1), Virtual: true})
}

func (f *fake) AdvanceClock(_ context.Context, r *rousev1.AdvanceClockRequest) (*rousev1.Clock, error) {
	return echo(f, "AdvanceClock", r, &rousev1.Clock{NowMs: 6, Fired: 3})
}
