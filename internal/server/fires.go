package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
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

// Polls waits for fires of a subscription for a while, and takes as many as there are, at most open.Credits;
// their receiver reports on them.
type Polls func(ctx context.Context, open *rousev1.Open, wait time.Duration) ([]*rousev1.Fire, error)

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
	f.roster.joinRoster(stream.Context())
	defer f.roster.leaveRoster()
	return f.subscriber.Subscribe(admittedFires{stream, f.accessControl()})
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
		if strings.HasPrefix(open.Channel, poolScheme) { // its workers are those of one namespace, or of all
			namespace, target = poolChannel(open.Channel)
		}
		if err = s.control.Require(s.Context(), access.FiresSubscribe, namespace, target, open.Labels); err == nil {
			err = audit.Opened(s.Context())
		}
	}
	return r, err
}

// poolScheme begins the targets of pools, and the channels of their workers.
const poolScheme = "pool:"

// poolChannel returns the namespace whose requests a channel of workers has, which is empty if these are
// those of all, and the target of the requests: "pool:NAME/NAMESPACE/KEY" has those of a namespace for
// pool:NAME/KEY.
func poolChannel(channel string) (namespace, target string) {
	parts := strings.SplitN(channel, "/", 3)
	if len(parts) < 3 {
		return "", channel
	}
	return parts[1], parts[0] + "/" + parts[2]
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
	case *rousev1.ReportRequest_Released:
		if !what.Released {
			return nil, rouse.Refuse("released", "false", "is no report", "send true, or another report")
		}
		report.Outcome.Verdict = rouse.Deferred
	default:
		return nil, rouse.Refuse("report", "", "is missing", "set one of done, failed, heartbeat, released")
	}
	deadline, err := f.timers.Report(ctx, keyFrom(r.Namespace, r.Name, ""), report)
	if err != nil {
		return nil, err
	}
	return &rousev1.ReportResponse{DeadlineMs: rousev1.InstantToProto(deadline)}, nil
}

var firesRoutes = []route{
	{method: "POST", path: nsPath + "/fires:poll", repeats: notAtAll, serve: pollFires, body: api.Poll{},
		answer:  api.Polled{},
		summary: "Takes fires of a stream target, and waits if there are none.",
		means:   "The fires; the caller reports on each before its deadline."},
	{method: "POST", path: firePath + ":complete", repeats: withKey, serve: (*httpHandler).completeFire,
		rpc: "Fires/Report", body: api.Complete{}, answer: "Deadline",
		summary: "Reports that a fire which was accepted with 202, or taken by a poll, is done."},
	{method: "POST", path: firePath + ":fail", repeats: withKey, serve: (*httpHandler).failFire, rpc: "Fires/Report",
		body: api.Fail{}, answer: "Deadline",
		summary: "Reports that a fire which was accepted with 202, or taken by a poll, has failed."},
	{method: "POST", path: firePath + ":heartbeat", repeats: withKey, serve: (*httpHandler).heartbeatFire,
		rpc: "Fires/Report", body: api.Heartbeat{}, answer: "Deadline",
		summary: "Moves the deadline of a fire that was accepted with 202, or taken by a poll."},
	{method: "POST", path: firePath + ":release", repeats: withKey, serve: releaseFire, rpc: "Fires/Report",
		body: api.Release{}, answer: "Deadline",
		summary: "Gives back a fire that was accepted with 202, or taken by a poll: it comes again at once, and the attempt does not count."},
}

// Bounds and defaults of polls.
const (
	maxPollWait  = 30 * time.Second
	pollDefault  = 16
	maxPollFires = 256
)

// pollFires waits for fires, as the principal may subscribe to.
func pollFires(f *httpHandler, c *call) error {
	var body api.Poll
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	if f.opts.Polls == nil {
		return rousev1.ErrUnimplemented
	}
	wait, most := maxPollWait, cmp.Or(body.Max, pollDefault)
	if body.Wait != nil {
		wait = time.Duration(*body.Wait)
	}
	switch {
	case wait > maxPollWait:
		return rouse.Refuse("wait", wait.String(), "is out of bounds", "give up to "+maxPollWait.String())
	case most > maxPollFires:
		return rouse.Refuse("max", strconv.FormatUint(uint64(most), 10), "is out of bounds",
			fmt.Sprintf("give 1 to %d", maxPollFires))
	case strings.HasPrefix(body.Channel, poolScheme):
		return rouse.Refuse("channel", body.Channel, "is of a pool, whose workers subscribe over gRPC",
			"give the channel of a stream target")
	}
	if err := f.accessControl().Require(c.ctx, access.FiresSubscribe, c.pathNamespace(), "stream:"+body.Channel,
		body.Labels); err != nil {
		return err
	}
	if err := c.extendDeadlines(wait); err != nil {
		return err
	}
	fires, err := f.opts.Polls(c.r.Context(), &rousev1.Open{Namespace: c.pathNamespace(), Channel: body.Channel,
		NamePrefix: body.NamePrefix, Labels: body.Labels, Credits: most}, wait)
	if err != nil {
		return renameFields(err, pollMember)
	}
	out := api.Polled{Fires: make([]api.Fire, len(fires))}
	for i, one := range fires {
		out.Fires[i] = fireOf(one)
	}
	if len(fires) > 0 {
		audit.Revealed(c.r.Context())
	}
	return c.replyJSON(http.StatusOK, out)
}

// fireOf returns the JSON form of a fire.
func fireOf(f *rousev1.Fire) api.Fire {
	o := api.Fire{FireID: f.Id, Namespace: f.Namespace, Name: f.Name, Generation: f.Generation,
		Due: api.TimeOf(rouse.Instant(f.DueMs)), Attempt: f.Attempt,
		Token: f.Token, Manual: f.Manual, Last: f.Last, Deadline: api.TimeOf(rouse.Instant(f.DeadlineMs)),
		ContentType: f.ContentType, Labels: f.Labels,
		Traceparent: f.Traceparent}
	o.Payload, o.PayloadBase64 = api.PayloadOf(f.ContentType, f.Payload)
	return o
}

func (f *httpHandler) completeFire(c *call) error {
	var body api.Complete
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	return c.reportOutcome(body.Token, rouse.Outcome{Verdict: rouse.Done})
}

func (f *httpHandler) failFire(c *call) error {
	var body api.Fail
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: body.Detail}
	if body.Permanent {
		o.Verdict = rouse.Rejected
	}
	if body.RetryAfter != nil {
		o.After = max(time.Duration(*body.RetryAfter), rouse.AtOnce)
	}
	return c.reportOutcome(body.Token, o)
}

func (f *httpHandler) heartbeatFire(c *call) error {
	var body api.Heartbeat
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	return c.reportOutcome(body.Token, rouse.Outcome{After: time.Duration(body.Extend)})
}

func releaseFire(_ *httpHandler, c *call) error {
	var body api.Release
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	return c.reportOutcome(body.Token, rouse.Outcome{Verdict: rouse.Deferred})
}

func (c *call) reportOutcome(token uint64, o rouse.Outcome) error {
	deadline, err := c.handler.timers.Report(c.ctx, c.pathKey(),
		timers.Report{FireID: c.pathFire(), Token: token, Outcome: o})
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, api.Deadline{Deadline: api.TimeOf(deadline)})
}
