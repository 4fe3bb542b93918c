package server

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

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
	p, err := f.preview(ctx, keyFrom(r.Namespace, r.Name, ""), spec, rouse.Instant(r.FromMs), r.Count)
	if err != nil {
		return nil, renamed(err, plainNames)
	}
	out := &rousev1.PreviewResponse{NextMs: make([]int64, len(p.Next)), Next: make([]*rousev1.Coming, len(p.Next)), Words: p.Words, Timezone: zoneName(p.Location)}
	for i := range p.Next {
		out.NextMs[i], out.Next[i] = int64(p.Next[i].Due), rousev1.ComingToProto(&p.Next[i], p.Location)
	}
	return out, nil
}

func (f *timersServer) Explain(ctx context.Context, r *rousev1.ExplainRequest) (*rousev1.ExplainResponse, error) {
	e, err := f.explain(ctx, keyFrom(r.Namespace, r.Name, ""), rouse.Instant(r.AtMs))
	if err != nil {
		return nil, renamed(err, plainNames)
	}
	out := &rousev1.ExplainResponse{Summary: e.Summary, Words: e.Words, Records: recordsToProto(e.Records)}
	for _, reason := range e.Reasons {
		out.Reasons = append(out.Reasons, &rousev1.Reason{Code: reason.Code, Text: reason.Text, AtMs: rousev1.InstantToProto(reason.At)})
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
	s, err := f.simulation(ctx, q, rouse.Instant(r.FromMs), rouse.Instant(r.UntilMs), r.Limit)
	if err != nil {
		return nil, renamed(err, filterMessage)
	}
	out := &rousev1.SimulateResponse{Fires: make([]*rousev1.Coming, len(s.Fires)), Timers: s.Timers, More: s.More}
	for i := range s.Fires {
		fire := &s.Fires[i]
		out.Fires[i] = rousev1.ComingToProto(&fire.Coming, fire.Zone)
		out.Fires[i].Namespace, out.Fires[i].Name, out.Fires[i].FireId = fire.Key.Namespace, fire.Key.Name, fire.FireID
	}
	return out, nil
}
