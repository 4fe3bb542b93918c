package server

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/timers"
)

// fireOps are the operations of this file.
type fireOps interface {
	Report(ctx context.Context, key rouse.Key, r timers.Report) (deadline rouse.Instant, err error)
}

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
	return f.subscriber.Subscribe(admittedFires{stream, f.control()})
}

// admittedFires is a stream that opens the subscriptions that its caller may have only.
type admittedFires struct {
	rousev1.Fires_SubscribeServer
	control *access.Control
}

// Recv refuses a request that opens another subscription.
func (s admittedFires) Recv() (*rousev1.SubscribeRequest, error) {
	r, err := s.Fires_SubscribeServer.Recv()
	if open := r.GetOpen(); err == nil && open != nil {
		namespace, target := cmp.Or(open.Namespace, defaultNamespace), "stream:"+open.Channel
		if strings.HasPrefix(open.Channel, poolScheme) { // requests of all namespaces go to the workers of a key
			namespace, target = "", open.Channel
		}
		if err = s.control.Require(s.Context(), access.FiresSubscribe, namespace, target, open.Labels); err == nil {
			err = audit.Opened(s.Context())
		}
	}
	return r, err
}

// poolScheme begins the targets of pools, and the channels of their workers.
const poolScheme = "pool:"

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

var firesRoutes = []route{
	{method: "POST", path: firePath + ":complete", serve: (*httpHandler).completeFire, rpc: "Fires/Report", body: api.Complete{}, answer: "Deadline",
		summary: "Reports that a fire which was accepted with 202 is done."},
	{method: "POST", path: firePath + ":fail", serve: (*httpHandler).failFire, rpc: "Fires/Report", body: api.Fail{}, answer: "Deadline",
		summary: "Reports that a fire which was accepted with 202 has failed."},
	{method: "POST", path: firePath + ":heartbeat", serve: (*httpHandler).heartbeatFire, rpc: "Fires/Report", body: api.Heartbeat{}, answer: "Deadline",
		summary: "Moves the deadline of a fire that was accepted with 202."},
}

func (f *httpHandler) completeFire(c *call) error {
	var body api.Complete
	if err := c.whole(&body); err != nil {
		return err
	}
	return c.report(body.Token, rouse.Outcome{Verdict: rouse.Done})
}

func (f *httpHandler) failFire(c *call) error {
	var body api.Fail
	if err := c.whole(&body); err != nil {
		return err
	}
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: body.Detail}
	if body.Permanent {
		o.Verdict = rouse.Rejected
	}
	if body.RetryAfter != nil {
		o.After = max(time.Duration(*body.RetryAfter), rouse.AtOnce)
	}
	return c.report(body.Token, o)
}

func (f *httpHandler) heartbeatFire(c *call) error {
	var body api.Heartbeat
	if err := c.whole(&body); err != nil {
		return err
	}
	return c.report(body.Token, rouse.Outcome{After: time.Duration(body.Extend)})
}

func (c *call) report(token uint64, o rouse.Outcome) error {
	deadline, err := c.handler.timers.Report(c.ctx, c.key(), timers.Report{FireID: c.fire(), Token: token, Outcome: o})
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.Deadline{Deadline: api.TimeOf(deadline)})
}
