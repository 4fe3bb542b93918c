package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Call is a request to the workers of a key of a pool. Zero fields have the defaults that their comments
// name.
type Call struct {
	Namespace   string // default "default"
	Pool        string
	Key         string
	Payload     []byte
	ContentType string
	Labels      map[string]string

	ID   string        // for Fetch, and for deduplication of repeated calls; default a random id
	Wait time.Duration // for the answer; 0 does not wait: use Fetch
	// the request expires if no worker has taken it by then; default 5 min, or Wait if that is less and
	// nothing is kept
	Deadline time.Duration
	Keep     time.Duration // how long the outcome can be fetched; default 10 min with an ID or without Wait, else 0
	Attempts uint32        // how often it is given to a worker; default 3
	Timeout  time.Duration // of one attempt; if it is not given, 30 s, which a worker may extend
}

// Called is the state of a Call: its answer, or that it is Pending.
type Called struct {
	ID       string
	Pending  bool
	Answer   Answer
	Attempts uint32
}

// CallError is the error of a request that ended without an answer.
type CallError struct {
	ID       string
	Status   CallStatus
	Detail   string
	Attempts uint32 // how often a worker had it
}

// CallStatus is why a request has ended without an answer.
type CallStatus string

// How requests end without an answer.
const (
	CallExpired       CallStatus = "expired"        // no worker has taken it in time, or none has answered in time
	CallDeliveryLimit CallStatus = "delivery_limit" // workers had it as often as they may, and none has answered
	CallRejected      CallStatus = "rejected"       // a worker has refused it permanently
	CallDeleted       CallStatus = "deleted"        // a client deleted it
)

func (e *CallError) Error() string {
	return fmt.Sprintf("request %s: %s: %s", e.ID, strings.ReplaceAll(string(e.Status), "_", " "), e.Detail)
}

// Call sends a request to a pool. When it returns without an error, the request is durable: it has an answer,
// or is Pending. A request that has ended without an answer is a *CallError. With an ID it is sent again
// while the service is unavailable, and done once; without one, or an Idempotency-Key (WithIdempotencyKey) of
// which an ID is made, it is not sent twice.
func (c *Client) Call(ctx context.Context, r Call) (Called, error) {
	request := &rousev1.CallRequest{Namespace: r.Namespace, Pool: r.Pool, Key: r.Key, Payload: r.Payload,
		ContentType: r.ContentType,
		Labels:      r.Labels, Id: r.ID, Wait: optionalDuration(r.Wait), Deadline: optionalDuration(r.Deadline),
		Keep: optionalDuration(r.Keep), Attempts: r.Attempts, Timeout: optionalDuration(r.Timeout)}
	if r.ID == "" {
		return calledFrom(callOnce(ctx, c, func(ctx context.Context) (*rousev1.Called,
			error) {
			return c.calls.Call(ctx, request)
		}))
	}
	return calledFrom(callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Called, error) { return c.calls.Call(ctx, request) }))
}

// Fetch returns the state of a request, and waits for its end up to the given time. rouse.ErrNotFound means
// that nothing is known of it.
func (c *Client) Fetch(ctx context.Context, namespace, id string, wait time.Duration) (Called, error) {
	return calledFrom(callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.Called, error) {
		return c.calls.Fetch(ctx, &rousev1.FetchRequest{Namespace: namespace, Id: id, Wait: optionalDuration(wait)})
	}))
}

// optionalDuration returns a duration that was set.
func optionalDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func calledFrom(p *rousev1.Called, err error) (Called, error) {
	if err != nil {
		return Called{}, err
	}
	out := Called{ID: p.Id, Attempts: p.Attempts}
	switch p.Status {
	case rousev1.CallStatus_CALL_STATUS_OK:
		out.Answer = Answer{Payload: p.Payload, ContentType: p.ContentType}
	case rousev1.CallStatus_CALL_STATUS_PENDING:
		out.Pending = true
	default:
		word := strings.ToLower(strings.TrimPrefix(p.Status.String(), "CALL_STATUS_"))
		return Called{ID: p.Id}, &CallError{ID: p.Id, Status: CallStatus(word), Detail: p.Detail, Attempts: p.Attempts}
	}
	return out, nil
}
