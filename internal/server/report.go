package server

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// reportOps are the operations of this file.
type reportOps interface {
	ReportCheck(ctx context.Context, key rouse.Key, r rouse.CheckReport) (by rouse.Instant, err error)
}

func (f *timersServer) ReportCheck(ctx context.Context,
	r *rousev1.ReportCheckRequest) (*rousev1.ReportCheckResponse, error) {
	status, err := rouse.ParseReportStatus(r.Status)
	if err != nil {
		return nil, err
	}
	by, err := f.timers.ReportCheck(ctx, keyFrom(r.Namespace, r.Name, ""),
		rouse.CheckReport{Status: status, Log: r.Log})
	if err != nil {
		return nil, err
	}
	return &rousev1.ReportCheckResponse{ExpectedByMs: int64(by)}, nil
}
