package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Aggregate sums up the records that a query matches by a property, such as rouse.ByTarget; step is the
// length of the groups of rouse.ByTime, 0 for a minute. An empty namespace asks for all. A server reads a
// bounded number of records: begin with an empty token, and if the next one is not empty, the rest can be
// aggregated with it. It is retried.
func (c *Client) Aggregate(ctx context.Context, q rouse.RecordQuery, by string, step time.Duration,
	token string) (groups rouse.RecordGroups, next string, err error) {
	request := &rousev1.AggregateRecordsRequest{Namespace: orAll(q.Namespace), Name: q.Name,
		Filter: rousev1.RecordFilterToProto(&q), By: by, PageToken: token}
	if step != 0 {
		request.Step = durationpb.New(step)
	}
	page, err := callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.AggregateRecordsResponse, error) { return c.timers.AggregateRecords(ctx, request) })
	if err != nil {
		return groups, "", err
	}
	groups.Other, groups.Searched = page.Other, page.Searched
	for _, g := range page.Groups {
		groups.Groups = append(groups.Groups, rousev1.RecordGroupFromProto(g))
	}
	return groups, page.NextPageToken, nil
}

// Outcomes returns the last endings of each of up to rouse.MaxOutcomeNames timers, at most limit of each,
// newest first; 0 is rouse.MaxOutcomes. With an empty namespace, names are NAMESPACE/NAME. It is retried.
func (c *Client) Outcomes(ctx context.Context, namespace string, names []string, limit int) ([]rouse.Outcomes, error) {
	request := &rousev1.ListOutcomesRequest{Namespace: orAll(namespace), Names: names, Limit: uint32(limit)}
	page, err := callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.ListOutcomesResponse, error) { return c.timers.ListOutcomes(ctx, request) })
	if err != nil {
		return nil, err
	}
	out := make([]rouse.Outcomes, len(page.Timers))
	for i, t := range page.Timers {
		out[i].Key = rouse.Key{Namespace: t.Namespace, Name: t.Name}
		if out[i].Records, err = rousev1.RecordsFromProto(t.Outcomes); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// orAll returns how a request names a namespace; an empty one is all of them.
func orAll(namespace string) string {
	if namespace == "" {
		return rousev1.AllNamespaces
	}
	return namespace
}
