package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Receipt names an attempt that a receiver accepted with 202 and reports on later. It comes with the fire.
type Receipt struct {
	Namespace string
	Name      string
	FireID    string
	Token     uint64
}

func (r Receipt) reportRequest() *rousev1.ReportRequest {
	return &rousev1.ReportRequest{Namespace: r.Namespace, Name: r.Name, FireId: r.FireID, Token: r.Token}
}

// Complete reports that the work of an accepted fire is done. It is retried: a second try that finds that the
// service no longer waits for the fire assumes that the first one succeeded. Otherwise rouse.ErrConflict and
// rouse.ErrNotFound mean that it was reported before, or is given up.
func (c *Client) Complete(ctx context.Context, r Receipt) error {
	request := r.reportRequest()
	request.Report = &rousev1.ReportRequest_Done{Done: true}
	_, err := sendReport(ctx, c, request)
	return err
}

// ErrNotBegun is for Fail: the receiver has not begun the work and gives the fire back. It comes again at
// once, perhaps to another one, and the attempt does not count.
var ErrNotBegun = errors.New("the work was not begun")

// Fail reports that the work of an accepted fire failed, with an error that Permanent and RetryAfter may have
// made, or ErrNotBegun. It is retried, like Complete.
func (c *Client) Fail(ctx context.Context, r Receipt, failure error) error {
	request := r.reportRequest()
	request.Report = &rousev1.ReportRequest_Failed{Failed: failureOf(0, failure)}
	if errors.Is(failure, ErrNotBegun) {
		request.Report = &rousev1.ReportRequest_Released{Released: true}
	}
	_, err := sendReport(ctx, c, request)
	return err
}

// Heartbeat gives an accepted fire more time, from now, and returns its deadline then, which is never earlier
// than before. It is retried.
func (c *Client) Heartbeat(ctx context.Context, r Receipt, more time.Duration) (rouse.Instant, error) {
	request := r.reportRequest()
	request.Report = &rousev1.ReportRequest_Heartbeat{Heartbeat: durationpb.New(more)}
	return sendReport(ctx, c, request)
}

func sendReport(ctx context.Context, c *Client, request *rousev1.ReportRequest) (rouse.Instant, error) {
	response, err := callIdempotent(ctx, c.opts.Patience, func(unsure bool) (*rousev1.ReportResponse, error) {
		response, err := c.fires.Report(ctx, request)
		failure := errorFromGRPC(err)
		if unsure && request.GetHeartbeat() == nil && (errors.Is(failure, rouse.ErrConflict) ||
			errors.Is(failure, rouse.ErrNotFound)) {
			return &rousev1.ReportResponse{}, nil
		}
		return response, err
	})
	return rouse.Instant(response.GetDeadlineMs()), err
}
