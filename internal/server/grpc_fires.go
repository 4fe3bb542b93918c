package server

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// Subscriber serves subscriptions; the sink of stream targets implements it. It ends its streams when all
// of their fires are settled. Streams that are open after the server's grace period are cut.
type Subscriber interface {
	Subscribe(stream rousev1.Fires_SubscribeServer) error

	// Peers sets the nodes that subscriptions report to their clients. The caller does not change the
	// message afterwards.
	Peers(p *rousev1.Peers)
}

// firesServer implements rouse.v1.Fires.
type firesServer struct {
	rousev1.UnimplementedFiresServer
	*service
	subscriber Subscriber
	roster     *roster
}

func (f *firesServer) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	if f.subscriber == nil {
		return f.UnimplementedFiresServer.Subscribe(stream)
	}
	f.roster.join(stream.Context())
	defer f.roster.leave()
	return f.subscriber.Subscribe(stream)
}

func (f *firesServer) Report(ctx context.Context, r *rousev1.ReportRequest) (*rousev1.ReportResponse, error) {
	report := timers.Report{FireID: r.FireId, Token: r.Token}
	var err error
	switch what := r.Report.(type) {
	case *rousev1.ReportRequest_Done:
		if !what.Done {
			return nil, rouse.Refuse("done", "false", "is no report", "send true, or a failure or heartbeat")
		}
		report.Outcome.Verdict = rouse.Done
	case *rousev1.ReportRequest_Failed:
		report.Outcome = rouse.Outcome{Verdict: rouse.Failed, Detail: what.Failed.GetDetail()}
		if what.Failed.GetPermanent() {
			report.Outcome.Verdict = rouse.Rejected
		}
		if after := what.Failed.GetRetryAfter(); after != nil {
			if report.Outcome.After, err = rousev1.DurationFromProto("failed.retry_after", after); err != nil {
				return nil, err
			}
			report.Outcome.After = max(report.Outcome.After, rouse.AtOnce)
		}
	case *rousev1.ReportRequest_Heartbeat:
		if report.Outcome.After, err = rousev1.DurationFromProto("heartbeat", what.Heartbeat); err != nil {
			return nil, err
		}
	default:
		return nil, rouse.Refuse("report", "", "is missing", "set one of done, failed, heartbeat")
	}
	deadline, err := f.timers.Report(ctx, keyFrom(r.Namespace, r.Name, ""), report)
	if err != nil {
		return nil, renamed(err, reportMessage)
	}
	return &rousev1.ReportResponse{DeadlineMs: rousev1.InstantToProto(deadline)}, nil
}
