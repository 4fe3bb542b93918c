package client

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Skip skips the next count occurrences, 1 if count is 0; the schedule continues after them. One in flight
// ends normally, and those after it are skipped. It is retried, with an Idempotency-Key.
func (c *Client) Skip(ctx context.Context, namespace, name string, count uint32, reason string) (rouse.Timer, error) {
	request := &rousev1.SkipRequest{Namespace: namespace, Name: name, Count: count, Reason: reason}
	return timerFromAnswer(onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.Timer,
		error) {
		return c.timers.Skip(ctx, request)
	}))
}

// Patch changes members of a timer's spec, and nothing else of it. patch is a JSON merge patch (RFC 7396) of
// the spec as it is in the API of HTTP, such as {"labels": {"team": "billing"}, "retry": null}: null removes
// a member, and a payload is replaced as a whole. If nothing differs, nothing is written. It is retried, with
// an Idempotency-Key.
func (c *Client) Patch(ctx context.Context, namespace, name, patch string, cs ...Condition) (Replaced, error) {
	cond := conditionOf(cs)
	request := &rousev1.PatchRequest{Namespace: namespace, Name: name, Patch: patch, ExpectedRevision: cond.revision,
		ValidateOnly: cond.validate}
	return replacedFromAnswer(onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.Timer, error) {
		return c.timers.Patch(ctx, request)
	}))
}

// Reschedule changes when a timer fires, and nothing else of it: of when only these fields count (Schedule,
// Also, Except, Timezone, DST, Calendar, Start, End, TTL, MaxOccurrences, Jitter), and all of them are
// replaced. A new generation begins. It is retried, with an Idempotency-Key.
func (c *Client) Reschedule(ctx context.Context, namespace, name string, when rouse.Spec,
	cs ...Condition) (Replaced, error) {
	cond := conditionOf(cs)
	request := &rousev1.RescheduleRequest{Namespace: namespace, Name: name, When: rousev1.WhenToProto(&when),
		ExpectedRevision: cond.revision, ValidateOnly: cond.validate}
	return replacedFromAnswer(onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.Timer,
		error) {
		return c.timers.Reschedule(ctx, request)
	}))
}

// Backfilled is the result of a backfill.
type Backfilled struct {
	Count   uint64   // occurrences of the range
	Waiting uint64   // of them already scheduled or in progress, so that nothing was done
	Fires   []Coming // the first hundred
}

// BackfillRequest is a range of past occurrences.
type BackfillRequest struct {
	From, Until rouse.Instant // due from From on and before Until, which is not after now
	DryRun      bool          // fire nothing, and return the occurrences that would be fired
	PerSecond   float64       // at most so many start in a second, 0.01 to 10,000; 0: all start now
}

// Backfill fires the occurrences that the schedule had in a range. They have their original fire ids, so a
// receiver can recognize duplicates. It is retried, with an Idempotency-Key.
func (c *Client) Backfill(ctx context.Context, namespace, name string, r BackfillRequest) (Backfilled, error) {
	request := &rousev1.BackfillRequest{Namespace: namespace, Name: name, FromMs: int64(r.From), UntilMs: int64(r.Until),
		DryRun: r.DryRun, PerSecond: r.PerSecond}
	p, err := onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.BackfillResponse,
		error) {
		return c.timers.Backfill(ctx, request)
	})
	return Backfilled{p.GetCount(), p.GetWaiting(), comingsFromProto(p.GetFires())}, err
}
