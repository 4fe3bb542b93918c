package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Coming is an occurrence to come, or one of the past that is asked for again.
type Coming struct {
	rouse.Coming

	Local  time.Time // Due in the zone of the schedule; its location knows the offset only
	Name   string    // of the timer, where several are meant
	FireID string    // if the timer exists

	Namespace string // of the timer, where several are meant
}

func comingsFromProto(ps []*rousev1.Coming) []Coming {
	out := make([]Coming, len(ps))
	for i, p := range ps {
		coming := rousev1.ComingFromProto(p)
		local, err := time.Parse(time.RFC3339Nano, p.GetLocal())
		if err != nil { // it is for people: UTC will do
			local = coming.Due.Time()
		}
		out[i] = Coming{coming, local, p.GetName(), p.GetFireId(), p.GetNamespace()}
	}
	return out
}

// PreviewRequest asks for the due times of a spec. Only the parts of the spec that decide when it is due
// count.
type PreviewRequest struct {
	Spec      rouse.Spec
	Namespace string        // whose calendars are meant; empty is "default"
	Name      string        // by which H in a cron expression, and the jitter, spread
	After     rouse.Instant // times after this one; 0 is now
	Count     int           // how many, up to 1,000; 0 is 5
}

// Preview contains the next due times of a spec.
type Preview struct {
	Words    string // the schedule in English
	Timezone string // that it is read in
	Next     []Coming
}

// Preview returns the next due times of a spec; nothing is stored. It is retried.
func (c *Client) Preview(ctx context.Context, r PreviewRequest) (Preview, error) {
	request := &rousev1.PreviewRequest{Spec: rousev1.SpecToProto(&r.Spec), Namespace: r.Namespace, Name: r.Name,
		FromMs: int64(r.After),
		Count:  uint32(max(0, r.Count))}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.PreviewResponse,
		error) {
		return c.timers.Preview(ctx, request)
	})
	return Preview{p.GetWords(), p.GetTimezone(), comingsFromProto(p.GetNext())}, err
}

// Simulation holds the fires of a range of time, in its order.
type Simulation struct {
	Fires  []Coming
	Timers uint64 // that were checked
	More   bool   // the limit ended the list
}

// Simulate returns the fires between from (0 is now) and until of all timers that a query matches: up to
// limit fires (0 is 1,000). Nothing is changed. After and Limit of the query are not used. It is retried.
func (c *Client) Simulate(ctx context.Context, q rouse.Query, from, until rouse.Instant,
	limit int) (Simulation, error) {
	request := &rousev1.SimulateRequest{Filter: rousev1.FilterToProto(&q), FromMs: int64(from), UntilMs: int64(until),
		Limit: uint32(max(0, limit))}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.SimulateResponse,
		error) {
		return c.timers.Simulate(ctx, request)
	})
	return Simulation{comingsFromProto(p.GetFires()), p.GetTimers(), p.GetMore()}, err
}

// Forecast counts the occurrences that come due in each step of the time between from (0 is now) and until,
// of all timers that a query matches; a step of 0 is an hour. by divides the counts: rouse.ByNamespace,
// rouse.ByTarget or nothing. A server reads a bounded number of timers:
// begin with an empty token, and as long as the next one is not empty, Add the rest. It is retried.
func (c *Client) Forecast(ctx context.Context, q rouse.Query, by string, from, until rouse.Instant, step time.Duration,
	token string) (f rouse.Forecast, next string, err error) {
	request := &rousev1.ForecastRequest{Filter: rousev1.FilterToProto(&q), FromMs: int64(from), UntilMs: int64(until),
		By: by, PageToken: token}
	if step != 0 {
		request.Step = durationpb.New(step)
	}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.ForecastResponse,
		error) {
		return c.timers.Forecast(ctx, request)
	})
	return rousev1.ForecastFromProto(p), p.GetNextPageToken(), err
}

// Explanation is why a timer did or did not fire, with its next fires.
type Explanation struct {
	Summary string         // one sentence
	Reasons []Reason       // the most important first
	Timer   *rouse.Timer   // nil: no timer has this name
	Words   string         // its schedule in English
	Records []rouse.Record // the latest, newest first
	Next    []Coming
}

// Reason is one fact of an explanation.
type Reason struct {
	Code string // such as paused, retrying, circuit_open, missed, calendar, ended
	Text string
	At   rouse.Instant // when it happened, or will; 0 is now

	// Since is when it began to hold, and Until when it ends or ended; 0: not known, or it has none.
	Since, Until rouse.Instant
	Cure         string // the remedy; empty: none is needed, or known
}

// Explain reports why a timer did or did not fire. With a time other than 0 it explains the occurrence of
// that time, or why there is none. A timer that does not exist has an explanation, too. It is retried.
func (c *Client) Explain(ctx context.Context, namespace, name string, at rouse.Instant) (Explanation, error) {
	request := &rousev1.ExplainRequest{Namespace: namespace, Name: name, AtMs: int64(at)}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.ExplainResponse,
		error) {
		return c.timers.Explain(ctx, request)
	})
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Summary: p.Summary, Words: p.Words, Next: comingsFromProto(p.Next)}
	for _, r := range p.Reasons {
		e.Reasons = append(e.Reasons, Reason{r.GetCode(), r.GetText(), rouse.Instant(r.GetAtMs()),
			rouse.Instant(r.GetSinceMs()), rouse.Instant(r.GetUntilMs()), r.GetCure()})
	}
	if p.Timer != nil {
		t, err := rousev1.TimerFromProto(p.Timer)
		if err != nil {
			return Explanation{}, err
		}
		e.Timer = &t
	}
	for _, p := range p.Records {
		r, err := rousev1.RecordFromProto(p)
		if err != nil {
			return Explanation{}, err
		}
		e.Records = append(e.Records, r)
	}
	return e, nil
}
