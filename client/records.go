package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Records returns how occurrences of a timer ended, newest first, as they are read page by page; an empty
// name asks for the whole namespace. An error ends the list. Each page is retried.
func (c *Client) Records(ctx context.Context, namespace, name string) iter.Seq2[rouse.Record, error] {
	return c.History(ctx, rouse.RecordQuery{Namespace: cmp.Or(namespace, "default"), Name: name})
}

// History returns the records that a query matches, in the order of the query, as they are read page by page;
// an empty namespace asks for all. A Limit that is not 0 ends the list there; the sequence numbers of From
// and Until are not used. An error ends it as well. Each page is retried.
func (c *Client) History(ctx context.Context, q rouse.RecordQuery) iter.Seq2[rouse.Record, error] {
	return func(yield func(rouse.Record, error) bool) {
		request := &rousev1.ListRecordsRequest{Namespace: orAll(q.Namespace), Name: q.Name, PageSize: pageSize,
			Filter: rousev1.RecordFilterToProto(&q), Oldest: q.Oldest}
		left := q.Limit
		for {
			if q.Limit > 0 {
				request.PageSize = uint32(min(left, pageSize))
			}
			page, err := callIdempotent(ctx, c.opts.Patience,
				func(bool) (*rousev1.ListRecordsResponse, error) { return c.timers.ListRecords(ctx, request) })
			if err != nil {
				yield(rouse.Record{}, err)
				return
			}
			for _, p := range page.Records {
				r, err := rousev1.RecordFromProto(p)
				if !yield(r, err) || err != nil {
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

// Follow calls do with records as occurrences end, best effort: dropped is the number of records missed since
// the last call. An empty name follows the whole namespace. It returns the error of do, nil when ctx ends, or
// the error that ended the stream. It does not resume: History has the occurrences that ended between two
// calls of Follow.
func (c *Client) Follow(ctx context.Context, namespace, name string,
	do func(records []rouse.Record, dropped uint64) error) error {
	return receiveStream(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[rousev1.FollowRecordsResponse],
		error) {
		return c.timers.FollowRecords(ctx, &rousev1.FollowRecordsRequest{Namespace: namespace, Name: name})
	}, func(response *rousev1.FollowRecordsResponse) error {
		records, err := rousev1.RecordsFromProto(response.Records)
		if err != nil {
			return err
		}
		return do(records, response.Dropped)
	})
}

// receiveStream opens a stream and calls do with each message. It returns the error of do, nil when ctx ends,
// or the error that ended the stream: these streams end only when the service stops.
func receiveStream[T any](ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[T], error),
	do func(*T) error) error {
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(streamCtx)
	if err != nil {
		return errorFromGRPC(err)
	}
	for {
		response, err := stream.Recv()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the service ended the stream: %w", rouse.ErrClosed)
		case err != nil:
			return errorFromGRPC(err)
		}
		if err := do(response); err != nil {
			return err
		}
	}
}

// Redrive gives a dead letter a new set of attempts, and returns the target that it goes to. A dead letter
// has the target, payload, headers and policies that its timer had when it died; with currentSpec, it takes
// those that the timer has now. It is retried, with an Idempotency-Key.
func (c *Client) Redrive(ctx context.Context, namespace, name, fireID string,
	currentSpec bool) (target string, err error) {
	request := &rousev1.RedriveRequest{Namespace: namespace, Name: name, FireId: fireID, WithCurrentSpec: currentSpec}
	p, err := onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.RedriveResponse,
		error) {
		return c.timers.Redrive(ctx, request)
	})
	return p.GetTarget(), err
}

// Purge deletes a dead letter. It is retried: a second try that finds nothing assumes that the first one
// succeeded.
func (c *Client) Purge(ctx context.Context, namespace, name, fireID string) error {
	request := &rousev1.PurgeRequest{Namespace: namespace, Name: name, FireId: fireID}
	_, err := callIdempotent(ctx, c.opts.Patience, func(unsure bool) (*rousev1.PurgeResponse, error) {
		response, err := c.timers.Purge(ctx, request)
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.PurgeResponse{}, nil
		}
		return response, err
	})
	return err
}
