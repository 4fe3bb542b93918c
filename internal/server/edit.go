package server

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// editOps are the operations of this file.
type editOps interface {
	Skip(ctx context.Context, key rouse.Key, count uint32, reason string) (rouse.Timer, error)
	Reschedule(ctx context.Context, key rouse.Key, when rouse.Spec, ifRevision uint64,
		validate bool) (timers.PutResult, error)
	Patch(ctx context.Context, key rouse.Key, r timers.PatchRequest) (timers.PutResult, error)
	Backfill(ctx context.Context, key rouse.Key, r timers.BackfillRequest) (timers.Backfilled, error)
}

// skipOccurrences skips the next count occurrences; 0 means 1.
func (s *service) skipOccurrences(ctx context.Context, key rouse.Key, count uint32,
	reason string) (rouse.Timer, error) {
	return s.timers.Skip(ctx, key, max(1, count), reason)
}

func (s *service) changeSchedule(ctx context.Context, key rouse.Key, when rouse.Spec, expected uint64,
	validate bool) (timers.PutResult, error) {
	res, err := s.timers.Reschedule(ctx, key, when, expected, validate)
	return res, cmp.Or(err, res.Err)
}

// patchTimer changes members of a timer's spec by a JSON merge patch.
func (s *service) patchTimer(ctx context.Context, key rouse.Key, patch api.Patch, expected uint64,
	validate bool) (timers.PutResult, error) {
	res, err := s.timers.Patch(ctx, key, timers.PatchRequest{Text: patch.String(), IfRevision: expected,
		Validate: validate, Change: func(spec rouse.Spec) (rouse.Spec, error) { return patch.ApplyTo(&spec) }})
	return res, cmp.Or(err, res.Err)
}

func (f *timersServer) Patch(ctx context.Context, r *rousev1.PatchRequest) (*rousev1.Timer, error) {
	var patch api.Patch
	if err := api.Decode([]byte(r.Patch), &patch); err != nil {
		return nil, rouse.Under("patch", err)
	}
	return writtenOr(f.patchTimer(ctx, keyFrom(r.Namespace, r.Name, ""), patch, r.ExpectedRevision, r.ValidateOnly))
}

func (f *timersServer) Skip(ctx context.Context, r *rousev1.SkipRequest) (*rousev1.Timer, error) {
	return timerOr(f.skipOccurrences(ctx, keyFrom(r.Namespace, r.Name, ""), r.Count, r.Reason))
}

func (f *timersServer) Reschedule(ctx context.Context, r *rousev1.RescheduleRequest) (*rousev1.Timer, error) {
	when, err := rousev1.WhenFromProto(r.When)
	if err != nil {
		return nil, err
	}
	return writtenOr(f.changeSchedule(ctx, keyFrom(r.Namespace, r.Name, ""), when, r.ExpectedRevision, r.ValidateOnly))
}

func (f *timersServer) Backfill(ctx context.Context, r *rousev1.BackfillRequest) (*rousev1.BackfillResponse, error) {
	give, err := f.bulks.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	b, err := f.timers.Backfill(ctx, keyFrom(r.Namespace, r.Name, ""),
		timers.BackfillRequest{From: rouse.Instant(r.FromMs), Until: rouse.Instant(r.UntilMs), DryRun: r.DryRun,
			PerSecond: r.PerSecond})
	if err != nil {
		return nil, err
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

func skipTimer(f *httpHandler, c *call) error {
	var body api.Skip
	if err := c.decodeOptionalBody(&body); err != nil {
		return err
	}
	return c.replyTimer(f.skipOccurrences(c.ctx, c.pathKey(), body.Count, body.Reason))
}

func rescheduleTimer(f *httpHandler, c *call) error {
	revision, some, none, err := c.readPreconditions()
	if err != nil {
		return err
	}
	var body api.Reschedule
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	expected := body.ExpectedRevision
	if none || expected != 0 && revision != 0 && revision != expected {
		return rouse.Refuse("expected_revision", strconv.FormatUint(expected, 10),
			"contradicts the header If-Match, or If-None-Match is given", "give one revision, in If-Match or expected_revision")
	}
	when, err := body.Parse()
	if err != nil {
		return err
	}
	res, err := f.changeSchedule(c.ctx, c.pathKey(), when, max(expected, revision), body.ValidateOnly)
	switch {
	case err != nil && (some || revision != 0):
		return asPrecondition(err)
	case err != nil:
		return err
	}
	return c.replyPutResult(http.StatusOK, &res)
}
