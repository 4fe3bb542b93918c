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
)

// aggregateOps are the operations of this file.
type aggregateOps interface {
	Aggregate(ctx context.Context, q rouse.RecordQuery, by string, step time.Duration) (rouse.RecordGroups, error)
	Outcomes(ctx context.Context, keys []rouse.Key, limit int) ([]rouse.Outcomes, error)
}

// aggregateHistory sums up a history, and returns the token with which the rest of it can be.
func (s *service) aggregateHistory(ctx context.Context, q rouse.RecordQuery, by string, step time.Duration,
	token string) (rouse.RecordGroups, string, error) {
	first := q
	token, err := s.resolvePageToken(token)
	if err == nil {
		err = cursorOf(token, &q)
	}
	if err != nil {
		return rouse.RecordGroups{}, "", err
	}
	give, err := s.simulate.takePlace(ctx)
	if err != nil {
		return rouse.RecordGroups{}, "", err
	}
	defer give()
	g, err := s.timers.Aggregate(ctx, q, by, step)
	if err != nil {
		return g, "", err
	}
	token, err = s.pageToken(ctx, cursorToken(g.Next, &first), q.Namespace)
	return g, token, err
}

func (f *timersServer) AggregateRecords(ctx context.Context,
	r *rousev1.AggregateRecordsRequest) (*rousev1.AggregateRecordsResponse, error) {
	q, err := recordQuery(r.Namespace, r.Name, r.Filter)
	if err != nil {
		return nil, err
	}
	step, err := rousev1.DurationFromProto("step", r.Step)
	if err != nil {
		return nil, err
	}
	a, token, err := f.aggregateHistory(ctx, q, r.By, step, r.PageToken)
	if err != nil {
		return nil, err
	}
	out := &rousev1.AggregateRecordsResponse{Other: a.Other, Searched: a.Searched, NextPageToken: token}
	for i := range a.Groups {
		out.Groups = append(out.Groups, rousev1.RecordGroupToProto(&a.Groups[i]))
	}
	return out, nil
}

func (f *timersServer) ListOutcomes(ctx context.Context,
	r *rousev1.ListOutcomesRequest) (*rousev1.ListOutcomesResponse, error) {
	keys := make([]rouse.Key, len(r.Names))
	for i, name := range r.Names {
		keys[i] = keyFrom(r.Namespace, name, "")
		if r.Namespace == everywhere {
			keys[i].Namespace, keys[i].Name, _ = strings.Cut(name, "/")
		}
	}
	give, err := f.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	list, err := f.timers.Outcomes(ctx, keys, int(cmp.Or(r.Limit, rouse.MaxOutcomes)))
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListOutcomesResponse{}
	for i := range list {
		out.Timers = append(out.Timers, &rousev1.TimerOutcomes{Namespace: list[i].Key.Namespace, Name: list[i].Key.Name,
			Outcomes: rousev1.RecordsToProto(list[i].Records)})
	}
	return out, nil
}

func aggregateRecords(f *httpHandler, c *call) error {
	q, err := c.params.historyParams(c.pathNamespace())
	if err != nil {
		return err
	}
	q.Name = c.params.textParam("name")
	var step api.Duration
	if s := c.params.textParam("step"); s != "" {
		if err := step.UnmarshalText([]byte(s)); err != nil {
			return refuseMalformed("step", printableText(s), "is no duration", "give one such as 1m or 1h")
		}
	}
	a, token, err := f.aggregateHistory(c.ctx, q, c.params.textParam("by"), time.Duration(step),
		c.params.textParam("page_token"))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, api.RecordGroupsOf(&a, token))
}
