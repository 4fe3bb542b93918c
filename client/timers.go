package client

import (
	"context"
	"errors"
	"iter"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Get returns a timer, or rouse.ErrNotFound. It is retried.
func (c *Client) Get(ctx context.Context, namespace, name string) (rouse.Timer, error) {
	return c.DeadLetter(ctx, namespace, name, "")
}

// Badge is the state of a timer in one word, and where it is shown to those who have no credentials.
type Badge struct {
	State string // ok, late, failing, paused or new
	Path  string // of the picture, on the server; with .json in place of .svg it is data for shields.io
}

// Badge returns the badge of a timer, or rouse.ErrNotFound. It is retried.
func (c *Client) Badge(ctx context.Context, namespace, name string) (Badge, error) {
	request := &rousev1.GetBadgeRequest{Namespace: namespace, Name: name}
	p, err := callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Badge, error) { return c.timers.GetBadge(ctx, request) })
	return Badge{p.GetState(), p.GetPath()}, err
}

// DeadLetter returns the dead letter of a fire, or rouse.ErrNotFound. It is retried.
func (c *Client) DeadLetter(ctx context.Context, namespace, name, fireID string) (rouse.Timer, error) {
	request := &rousev1.GetRequest{Namespace: namespace, Name: name, FireId: fireID}
	return timerFromAnswer(callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Timer, error) { return c.timers.Get(ctx, request) }))
}

// pageSize is the number of timers or records in one request.
const pageSize = 500

// List returns the timers that a query matches, in the order of the query, as they are read page by page. A
// Limit that is not 0 ends the list there; After is not used. An error ends it as well. Each page is retried.
func (c *Client) List(ctx context.Context, q rouse.Query) iter.Seq2[rouse.Timer, error] {
	return func(yield func(rouse.Timer, error) bool) {
		request := &rousev1.ListRequest{Filter: rousev1.FilterToProto(&q), PageSize: pageSize, OrderBy: q.Order.String(),
			Reverse: q.Reverse}
		left := q.Limit
		for {
			if q.Limit > 0 {
				request.PageSize = uint32(min(left, pageSize))
			}
			page, err := callIdempotent(ctx, c.opts.Patience,
				func(bool) (*rousev1.ListResponse, error) { return c.timers.List(ctx, request) })
			if err != nil {
				yield(rouse.Timer{}, err)
				return
			}
			for _, p := range page.Timers {
				t, err := rousev1.TimerFromProto(p)
				if !yield(t, err) || err != nil {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if page.NextPageToken == "" {
				return
			}
			request.PageToken = page.NextPageToken
		}
	}
}

// Count returns how many timers a query matches. It is retried.
func (c *Client) Count(ctx context.Context, q rouse.Query) (int64, error) {
	request := &rousev1.CountRequest{Filter: rousev1.FilterToProto(&q)}
	response, err := callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.CountResponse, error) { return c.timers.Count(ctx, request) })
	return response.GetCount(), err
}

// Deleted is the result of a delete.
type Deleted struct {
	InFlight   bool   // an attempt had started and may still arrive; none starts any more
	Generation uint64 // of the timer that was deleted; 0 if an earlier try of the same call deleted it
}

// Delete deletes a timer, or returns rouse.ErrNotFound. It is retried: if a retry finds no timer, it reports
// that an earlier try deleted it, without details.
func (c *Client) Delete(ctx context.Context, namespace, name string, cs ...Condition) (Deleted, error) {
	request := &rousev1.DeleteRequest{Namespace: namespace, Name: name, ExpectedRevision: conditionOf(cs).revision}
	response, err := callIdempotent(ctx, c.opts.Patience, func(unsure bool) (*rousev1.DeleteResponse, error) {
		response, err := c.timers.Delete(ctx, request)
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.DeleteResponse{InFlight: true}, nil
		}
		return response, err
	})
	return Deleted{InFlight: response.GetInFlight(), Generation: response.GetGeneration()}, err
}

// Pause stops scheduled occurrences until Resume. It is retried.
func (c *Client) Pause(ctx context.Context, namespace, name, reason string) (rouse.Timer, error) {
	return c.PauseUntil(ctx, namespace, name, reason, 0)
}

// PauseUntil stops scheduled occurrences until a time, at which the pause ends by itself, or until Resume; 0
// is no such time. It is tried again.
func (c *Client) PauseUntil(ctx context.Context, namespace, name, reason string,
	until rouse.Instant) (rouse.Timer, error) {
	request := &rousev1.PauseRequest{Namespace: namespace, Name: name, Reason: reason, UntilMs: int64(until)}
	return timerFromAnswer(callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Timer, error) { return c.timers.Pause(ctx, request) }))
}

// Resume ends a pause. It is retried.
func (c *Client) Resume(ctx context.Context, namespace, name string) (rouse.Timer, error) {
	request := &rousev1.ResumeRequest{Namespace: namespace, Name: name}
	return timerFromAnswer(callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Timer, error) { return c.timers.Resume(ctx, request) }))
}

// Run fires now, in addition to the schedule. It returns the id and the due time of the fire. It is retried,
// with an Idempotency-Key: that is no other fire.
func (c *Client) Run(ctx context.Context, namespace, name string) (fireID string, due rouse.Instant, err error) {
	request := &rousev1.RunRequest{Namespace: namespace, Name: name}
	response, err := onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.RunResponse,
		error) {
		return c.timers.Run(ctx, request)
	})
	return response.GetFireId(), rouse.Instant(response.GetDueMs()), err
}
