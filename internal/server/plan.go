package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// planOps are the operations of this file.
type planOps interface {
	Preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count int) (rouse.Preview, error)
	Explain(ctx context.Context, key rouse.Key, at rouse.Instant) (timers.Explanation, error)
	Simulate(ctx context.Context, q rouse.Query, from, until rouse.Instant, limit int) (timers.Simulated, error)
	Forecast(ctx context.Context, q rouse.Query, from, until rouse.Instant, step time.Duration, by string,
		place *rouse.ForecastPlace) (rouse.Forecast, error)
}

const defaultPreview = 5

// previewOccurrences returns the next due times of a schedule. The key needs no name.
func (s *service) previewOccurrences(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant,
	count uint32) (rouse.Preview, error) {
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return rouse.Preview{}, err
	}
	defer give()
	return s.timers.Preview(ctx, key, spec, from, int(cmp.Or(count, defaultPreview)))
}

// explainFiring returns why a timer fired or did not fire.
func (s *service) explainFiring(ctx context.Context, key rouse.Key, at rouse.Instant) (timers.Explanation, error) {
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return timers.Explanation{}, err
	}
	defer give()
	return s.timers.Explain(ctx, key, at)
}

const defaultSimulated = 1000

// simulateQuery returns the occurrences that would fire in a range of time. It begins now by default; a limit
// of 0 is the default.
func (s *service) simulateQuery(ctx context.Context, q rouse.Query, from, until rouse.Instant,
	limit uint32) (*rousev1.SimulateResponse, error) {
	give, err := s.simulate.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	got, err := s.timers.Simulate(ctx, q, from, until, int(cmp.Or(limit, defaultSimulated)))
	if err != nil {
		return nil, err
	}
	out := &rousev1.SimulateResponse{Fires: make([]*rousev1.Coming, len(got.Fires)), Timers: got.Timers, More: got.More}
	for i := range got.Fires {
		fire := &got.Fires[i]
		out.Fires[i] = rousev1.ComingToProto(&fire.Coming, fire.Zone)
		out.Fires[i].Namespace, out.Fires[i].Name, out.Fires[i].FireId = fire.Key.Namespace, fire.Key.Name, fire.FireID
	}
	return out, nil
}

// forecastRange counts the occurrences of each step of a range of time, and returns the token with which the
// rest can be counted.
func (s *service) forecastRange(ctx context.Context, q rouse.Query, from, until rouse.Instant, step time.Duration, by,
	token string) (rouse.Forecast, string, error) {
	hash := forecastHash(&q, from, until, step, by)
	token, err := s.resolvePageToken(token)
	if err != nil {
		return rouse.Forecast{}, "", err
	}
	place, err := forecastPlace(token, hash)
	if err != nil {
		return rouse.Forecast{}, "", err
	}
	give, err := s.simulate.takePlace(ctx)
	if err != nil {
		return rouse.Forecast{}, "", err
	}
	defer give()
	f, err := s.timers.Forecast(ctx, q, from, until, step, by, place)
	if err != nil || f.Next == nil {
		return f, "", err
	}
	token, err = s.pageToken(ctx, forecastToken(f.Next, hash), q.Namespace)
	return f, token, err
}

// nextFireID returns the fire id that an occurrence of an existing timer will have.
func nextFireID(t *rouse.Timer, due rouse.Instant) string {
	if t == nil {
		return ""
	}
	return rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, due, false)
}

// zoneName is the name of a schedule's time zone; nil is UTC.
func zoneName(zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return zone.String()
}

func (f *timersServer) Preview(ctx context.Context, r *rousev1.PreviewRequest) (*rousev1.PreviewResponse, error) {
	spec := rouse.Spec{Schedule: r.Schedule, Timezone: r.Timezone}
	if r.Spec != nil {
		if r.Schedule != "" || r.Timezone != "" {
			return nil, rouse.Refuse("spec", "", "is given in addition to schedule or timezone", "give them in the spec")
		}
		var err error
		if spec, err = rousev1.SpecFromProto(r.Spec); err != nil {
			return nil, err
		}
	}
	p, err := f.previewOccurrences(ctx, keyFrom(r.Namespace, r.Name, ""), spec, rouse.Instant(r.FromMs), r.Count)
	if err != nil {
		return nil, err
	}
	out := &rousev1.PreviewResponse{NextMs: make([]int64, len(p.Next)), Next: make([]*rousev1.Coming, len(p.Next)),
		Words: p.Words, Timezone: zoneName(p.Location)}
	for i := range p.Next {
		out.NextMs[i], out.Next[i] = int64(p.Next[i].Due), rousev1.ComingToProto(&p.Next[i], p.Location)
	}
	return out, nil
}

func (f *timersServer) Explain(ctx context.Context, r *rousev1.ExplainRequest) (*rousev1.ExplainResponse, error) {
	e, err := f.explainFiring(ctx, keyFrom(r.Namespace, r.Name, ""), rouse.Instant(r.AtMs))
	if err != nil {
		return nil, err
	}
	out := &rousev1.ExplainResponse{Summary: e.Summary, Words: e.Words, Records: rousev1.RecordsToProto(e.Records)}
	for _, reason := range e.Reasons {
		out.Reasons = append(out.Reasons, &rousev1.Reason{Code: reason.Code, Text: reason.Text,
			AtMs:    rousev1.InstantToProto(reason.At),
			SinceMs: rousev1.InstantToProto(reason.Since), UntilMs: rousev1.InstantToProto(reason.Until), Cure: reason.Cure})
	}
	if e.Timer != nil {
		out.Timer = rousev1.TimerToProto(e.Timer)
	}
	for i := range e.Next {
		c := rousev1.ComingToProto(&e.Next[i], e.Zone)
		c.FireId = nextFireID(e.Timer, e.Next[i].Due)
		out.Next = append(out.Next, c)
	}
	return out, nil
}

func (f *timersServer) Simulate(ctx context.Context, r *rousev1.SimulateRequest) (*rousev1.SimulateResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	return f.simulateQuery(ctx, q, rouse.Instant(r.FromMs), rouse.Instant(r.UntilMs), r.Limit)
}

func (f *timersServer) Forecast(ctx context.Context, r *rousev1.ForecastRequest) (*rousev1.ForecastResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	step, err := rousev1.DurationFromProto("step", r.Step)
	if err != nil {
		return nil, err
	}
	c, token, err := f.forecastRange(ctx, q, rouse.Instant(r.FromMs), rouse.Instant(r.UntilMs), step, r.By, r.PageToken)
	if err != nil {
		return nil, err
	}
	return rousev1.ForecastToProto(&c, token), nil
}

const explainedTime = `
parameters:
  - {name: at, in: query, schema: {$ref: '#/components/schemas/Time'}, description:
      'Explain the occurrence of this time, or why there is none.'}`

func previewSchedule(f *httpHandler, c *call) error {
	var body api.Preview
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	when, err := body.Parse()
	if err != nil {
		return err
	}
	p, err := f.previewOccurrences(c.ctx, rouse.Key{Namespace: c.pathNamespace(), Name: body.Name}, when,
		body.From.Instant(), body.Count)
	if err != nil {
		return err
	}
	out := api.Next{Next: make([]api.Time, len(p.Next)), Occurrences: make([]api.Coming, len(p.Next)), Words: p.Words,
		Timezone: zoneName(p.Location)}
	for i := range p.Next {
		out.Next[i], out.Occurrences[i] = api.TimeOf(p.Next[i].Due),
			api.ComingOf(&p.Next[i], rousev1.Local(p.Next[i].Due, p.Location))
	}
	return c.replyJSON(http.StatusOK, out)
}

func explainTimer(f *httpHandler, c *call) error {
	at, err := c.params.instantParam("at")
	if err != nil {
		return err
	}
	e, err := f.explainFiring(c.ctx, c.pathKey(), at)
	if err != nil {
		return err
	}
	out := api.Explanation{Summary: e.Summary, Words: e.Words, Reasons: make([]api.Reason, len(e.Reasons)),
		Records: make([]api.Record, len(e.Records)),
		Next:    make([]api.Coming, len(e.Next))}
	for i, reason := range e.Reasons {
		out.Reasons[i] = api.Reason{Code: reason.Code, Text: reason.Text, At: api.TimeOf(reason.At),
			Since: api.TimeOf(reason.Since), Until: api.TimeOf(reason.Until), Cure: reason.Cure}
	}
	if e.Timer != nil {
		t := api.TimerOf(e.Timer)
		out.Timer = &t
	}
	for i := range e.Records {
		out.Records[i] = api.RecordOf(&e.Records[i])
	}
	for i := range e.Next {
		out.Next[i] = api.ComingOf(&e.Next[i], rousev1.Local(e.Next[i].Due, e.Zone))
		out.Next[i].FireID = nextFireID(e.Timer, e.Next[i].Due)
	}
	return c.replyJSON(http.StatusOK, out)
}

func simulateTimers(f *httpHandler, c *call) error {
	var body api.Simulate
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	q, err := c.parseBodyFilter(body.Filter)
	if err != nil {
		return err
	}
	out, err := f.simulateQuery(c.ctx, q, body.From.Instant(), body.Until.Instant(), body.Limit)
	if err != nil {
		return renameFields(err, filterMember)
	}
	return c.replyJSON(http.StatusOK, simulatedToJSON(out))
}

func forecastTimers(f *httpHandler, c *call) error {
	var body api.AskForecast
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	q, err := c.parseBodyFilter(body.Filter)
	if err != nil {
		return err
	}
	counts, token, err := f.forecastRange(c.ctx, q, body.From.Instant(), body.Until.Instant(), time.Duration(body.Step),
		body.By, body.PageToken)
	if err != nil {
		return renameFields(err, filterMember)
	}
	return c.replyJSON(http.StatusOK, api.ForecastOf(&counts, token))
}

// parseBodyFilter returns the query for a filter in a body, in the namespace of the path; nil matches all
// timers.
func (c *call) parseBodyFilter(o *api.Filter) (q rouse.Query, err error) {
	if o != nil {
		if q, err = o.Parse(); err != nil {
			return q, rouse.Under("filter", err)
		}
	}
	if c.pathNamespace() != everywhere {
		q.Namespace = c.pathNamespace()
		err = rouse.CheckNamespace(q.Namespace)
	}
	return q, err
}
