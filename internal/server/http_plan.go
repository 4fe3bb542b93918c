package server

import (
	"net/http"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func (f *httpHandler) previewSchedule(c *call) error {
	var body api.Preview
	if err := c.whole(&body); err != nil {
		return err
	}
	when, err := body.Words()
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	p, err := f.preview(ctx, rouse.Key{Namespace: c.namespace(), Name: body.Name}, when, body.From.Instant(), body.Count)
	if err != nil {
		return err
	}
	out := api.Next{Next: make([]api.Time, len(p.Next)), Occurrences: make([]api.Coming, len(p.Next)), Words: p.Words, Timezone: zoneName(p.Location)}
	for i := range p.Next {
		out.Next[i], out.Occurrences[i] = api.TimeOf(p.Next[i].Due), api.ComingOf(&p.Next[i], rousev1.Local(p.Next[i].Due, p.Location))
	}
	return c.reply(http.StatusOK, out)
}

func (f *httpHandler) explainTimer(c *call) error {
	p, err := c.query("at")
	if err != nil {
		return err
	}
	at, err := p.instant("at")
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	e, err := f.explain(ctx, c.key(), at)
	if err != nil {
		return err
	}
	out := api.Explanation{Summary: e.Summary, Words: e.Words, Reasons: make([]api.Reason, len(e.Reasons)), Records: make([]api.Record, len(e.Records)),
		Next: make([]api.Coming, len(e.Next))}
	for i, reason := range e.Reasons {
		out.Reasons[i] = api.Reason{Code: reason.Code, Text: reason.Text, At: api.TimeOf(reason.At)}
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
	return c.reply(http.StatusOK, out)
}

func (f *httpHandler) simulateTimers(c *call) error {
	var body api.Simulate
	if err := c.whole(&body); err != nil {
		return err
	}
	q, err := c.filter(body.Filter)
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	s, err := f.simulation(ctx, q, body.From.Instant(), body.Until.Instant(), body.Limit)
	if err != nil {
		return renamed(err, filterMember)
	}
	out := api.Simulated{Fires: make([]api.Coming, len(s.Fires)), Timers: s.Timers, More: s.More}
	for i := range s.Fires {
		fire := &s.Fires[i]
		out.Fires[i] = api.ComingOf(&fire.Coming, rousev1.Local(fire.Due, fire.Zone))
		out.Fires[i].Namespace, out.Fires[i].Name, out.Fires[i].FireID = fire.Key.Namespace, fire.Key.Name, fire.FireID
	}
	return c.reply(http.StatusOK, out)
}

// filter returns the query for a filter in a body, in the namespace of the path; nil matches all timers.
func (c *call) filter(o *api.Filter) (q rouse.Query, err error) {
	if o != nil {
		if q, err = o.Words(); err != nil {
			return q, rouse.Under("filter", err)
		}
	}
	if c.namespace() != everywhere {
		q.Namespace = c.namespace()
		err = rouse.CheckNamespace(q.Namespace)
	}
	return q, err
}
