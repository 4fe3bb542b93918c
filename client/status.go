package client

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Status reads the current state of nodes, targets and pools.
type Status struct{ c *Client }

// Status returns the calls that read the current state of nodes, targets and pools.
func (c *Client) Status() *Status { return &Status{c} }

// StatusNode is a node that was asked for its status.
type StatusNode struct {
	ID    string
	Error string // why its part is missing; empty: it answered
}

// Stats counts recent events, by steps of time.
type Stats struct {
	Step   time.Duration
	Points []rouse.StatsPoint // oldest first; the last step is not over
	Nodes  []StatusNode
}

// Stats returns the counts of events in a window before now, on all nodes together; 0 is an hour. It is
// retried.
func (s *Status) Stats(ctx context.Context, window time.Duration) (out Stats, err error) {
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.Stats, error) {
		return s.c.status.GetStats(ctx, &rousev1.GetStatsRequest{WindowMs: window.Milliseconds()})
	})
	out.Step, out.Nodes = time.Duration(p.GetStepMs())*time.Millisecond, statusNodes(p.GetNodes())
	for _, point := range p.GetPoints() {
		out.Points = append(out.Points, rousev1.StatsPointFromProto(point))
	}
	return out, err
}

// Targets holds the state of targets, those with trouble first.
type Targets struct {
	Targets []rouse.TargetStatus
	More    bool // there are others
	Nodes   []StatusNode
}

// TargetQuery selects targets.
type TargetQuery struct {
	Namespace string // empty: all
	Name      string // such as https://example.com; empty: all
	Limit     uint32 // up to 1,000; 0: 100
}

// Targets returns the fires in flight and in queues of each target, on all nodes together and by node. It is
// retried.
func (s *Status) Targets(ctx context.Context, q TargetQuery) (out Targets, err error) {
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.ListTargetsResponse, error) {
		return s.c.status.ListTargets(ctx, &rousev1.ListTargetsRequest{Namespace: q.Namespace, Name: q.Name, Limit: q.Limit})
	})
	out.More, out.Nodes = p.GetMore(), statusNodes(p.GetNodes())
	for _, t := range p.GetTargets() {
		out.Targets = append(out.Targets, rousev1.TargetFromProto(t))
	}
	return out, err
}

// Buckets returns the buckets of the timers with the nodes that have them; none if the nodes do not share
// buckets. It is retried.
func (s *Status) Buckets(ctx context.Context) (list []rouse.BucketStatus, err error) {
	return s.fetchBuckets(ctx, &rousev1.ListBucketsRequest{})
}

// BucketOf returns the bucket of a timer with the node that has it; none if the nodes do not share buckets.
// It is retried.
func (s *Status) BucketOf(ctx context.Context, namespace, name string) (list []rouse.BucketStatus, err error) {
	return s.fetchBuckets(ctx, &rousev1.ListBucketsRequest{Namespace: namespace, Timer: name})
}

func (s *Status) fetchBuckets(ctx context.Context,
	r *rousev1.ListBucketsRequest) (list []rouse.BucketStatus, err error) {
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.ListBucketsResponse, error) {
		return s.c.status.ListBuckets(ctx, r)
	})
	for _, b := range p.GetBuckets() {
		list = append(list, rousev1.BucketFromProto(b))
	}
	return list, err
}

// Pools is the pools of workers of each node.
type Pools struct {
	Pools []rouse.PoolStatus // by name and node
	More  bool               // there are other groups
	Nodes []StatusNode
}

// Pools returns the pools of workers of each node, or one of them, with their groups, those with trouble
// first; limit is of groups, up to 1,000, and 0 is 100. It is retried.
func (s *Status) Pools(ctx context.Context, pool string, limit uint32) (out Pools, err error) {
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.ListPoolsResponse, error) {
		return s.c.status.ListPools(ctx, &rousev1.ListPoolsRequest{Pool: pool, Limit: limit})
	})
	out.More, out.Nodes = p.GetMore(), statusNodes(p.GetNodes())
	for _, one := range p.GetPools() {
		out.Pools = append(out.Pools, rousev1.PoolFromProto(one))
	}
	return out, err
}

// Diagnosis holds the findings of the checks of an installation.
type Diagnosis struct {
	Worst    string          // the most urgent severity of the findings
	Findings []rouse.Finding // the most urgent first
	Nodes    []StatusNode
}

// Doctor checks the nodes, their settings and the store. It is retried.
func (s *Status) Doctor(ctx context.Context) (out Diagnosis, err error) {
	p, err := callIdempotent(ctx, s.c.opts.Patience, func(bool) (*rousev1.DoctorResponse, error) {
		return s.c.status.Doctor(ctx, &rousev1.DoctorRequest{})
	})
	out.Worst, out.Nodes = p.GetWorst(), statusNodes(p.GetNodes())
	for _, f := range p.GetFindings() {
		out.Findings = append(out.Findings, rousev1.FindingFromProto(f))
	}
	return out, err
}

func statusNodes(list []*rousev1.StatusNode) (out []StatusNode) {
	for _, n := range list {
		out = append(out, StatusNode{n.GetId(), n.GetError()})
	}
	return out
}
