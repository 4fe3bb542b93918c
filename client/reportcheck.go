package client

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// ReportCheck reports on the work of a check: that it begins, has succeeded or has failed, with its output.
// It returns by when the work has to succeed next; 0 if it has not to. It is retried, with an
// Idempotency-Key: that is no other report.
func (c *Client) ReportCheck(ctx context.Context, namespace, name string,
	r rouse.CheckReport) (expectedBy rouse.Instant, err error) {
	request := &rousev1.ReportCheckRequest{Namespace: namespace, Name: name, Status: r.Status.String(), Log: r.Log}
	response, err := onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.ReportCheckResponse, error) {
		return c.timers.ReportCheck(ctx, request)
	})
	return rouse.Instant(response.GetExpectedByMs()), err
}
