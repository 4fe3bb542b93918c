package server

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func (f *timersServer) Skip(ctx context.Context, r *rousev1.SkipRequest) (*rousev1.Timer, error) {
	return timerOr(f.skip(ctx, keyFrom(r.Namespace, r.Name, ""), r.Count, r.Reason))
}

func (f *timersServer) Reschedule(ctx context.Context, r *rousev1.RescheduleRequest) (*rousev1.Timer, error) {
	when, err := rousev1.WhenFromProto(r.When)
	if err != nil {
		return nil, err
	}
	return writtenOr(f.reschedule(ctx, keyFrom(r.Namespace, r.Name, ""), when, r.ExpectedRevision))
}

func (f *timersServer) Backfill(ctx context.Context, r *rousev1.BackfillRequest) (*rousev1.BackfillResponse, error) {
	b, err := f.backfill(ctx, keyFrom(r.Namespace, r.Name, ""), rouse.Instant(r.FromMs), rouse.Instant(r.UntilMs), r.DryRun)
	if err != nil {
		return nil, renamed(err, plainNames)
	}
	out := &rousev1.BackfillResponse{Count: b.Count, Waiting: b.Waiting, Fires: make([]*rousev1.Coming, len(b.First))}
	for i := range b.First {
		out.Fires[i] = rousev1.ComingToProto(&b.First[i], b.Zone)
		if i < len(b.FireIDs) {
			out.Fires[i].FireId = b.FireIDs[i]
		}
	}
	return out, nil
}

func (f *timersServer) Import(ctx context.Context, r *rousev1.ImportRequest) (*rousev1.ImportResponse, error) {
	if err := checkImport(len(r.Timers), len(r.Calendars)); err != nil {
		return nil, err
	}
	mode, err := modeFrom(r.Mode)
	if err != nil {
		return nil, err
	}
	calendars := make([]rouse.Calendar, len(r.Calendars))
	for i, p := range r.Calendars {
		if calendars[i], err = rousev1.CalendarFromProto(p); err != nil {
			return nil, rouse.Under(at("calendars", i), err)
		}
		calendars[i].Namespace = keyFrom(p.Namespace, "", "").Namespace
	}
	out := &rousev1.ImportResponse{Created: make([]*rousev1.Created, len(r.Timers))}
	timers := make([]rouse.Timer, 0, len(r.Timers))
	places := make([]int, 0, len(r.Timers)) // of the timers that were valid
	for i, p := range r.Timers {
		out.Created[i] = &rousev1.Created{Name: p.GetName()}
		t, err := rousev1.TimerFromProto(p)
		if err != nil {
			out.Created[i].Problem = rousev1.ErrorToProblem(err)
			continue
		}
		t.Key.Namespace = keyFrom(p.Namespace, "", "").Namespace
		timers, places = append(timers, t), append(places, i)
	}
	results, err := f.restore(ctx, timers, calendars, mode)
	if err != nil {
		return nil, err
	}
	for i := range results {
		created(out.Created[places[i]], &results[i])
	}
	return out, nil
}
