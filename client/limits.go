package client

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Limits has the named limits of namespaces, which timers name in Spec.Limit.
type Limits struct{ c *Client }

// Limits returns the limits of the server.
func (c *Client) Limits() *Limits { return &Limits{c} }

// Put creates a limit, or replaces it: all of its fields but Updated and Revision. One that exists keeps
// PerKey, and stays paused until Resume. All nodes obey the change within a second. An empty namespace is
// "default". It is retried.
func (l *Limits) Put(ctx context.Context, limit rouse.Limit) (rouse.Limit, error) {
	request := &rousev1.PutLimitRequest{Namespace: limit.Namespace, Name: limit.Name,
		Concurrency: int64(limit.Concurrency), PerKey: limit.PerKey, Order: limit.Order, Paused: limit.Paused}
	if limit.Rate != (rouse.LimitRate{}) {
		request.Rate = rousev1.LimitRateToProto(limit.Rate)
	}
	return l.callLimit(ctx, func() (*rousev1.Limit, error) { return l.c.limits.PutLimit(ctx, request) })
}

// callLimit makes a call that answers a limit, and retries it.
func (l *Limits) callLimit(ctx context.Context, do func() (*rousev1.Limit, error)) (rouse.Limit, error) {
	p, err := callIdempotent(ctx, l.c.opts.Patience, func(bool) (*rousev1.Limit, error) { return do() })
	return rousev1.LimitFromProto(p), err
}

// LimitUse is how much of a limit is in use, on the nodes that answered.
type LimitUse struct {
	rouse.LimitUse
	Nodes []StatusNode
}

// Get returns a limit with how much of it is in use, on all nodes together. A caller that may not read all
// timers of the namespace sees no use: it is asked of no nodes. It is retried.
func (l *Limits) Get(ctx context.Context, namespace, name string) (rouse.Limit, LimitUse, error) {
	request := &rousev1.GetLimitRequest{Namespace: namespace, Name: name}
	p, err := callIdempotent(ctx, l.c.opts.Patience, func(bool) (*rousev1.Limit, error) {
		return l.c.limits.GetLimit(ctx, request)
	})
	return rousev1.LimitFromProto(p), LimitUse{rousev1.LimitUseFromProto(p.GetUse()), statusNodes(p.GetUse().GetNodes())}, err
}

// Pause pauses a limit: no occurrence of its timers begins until Resume, and those that are due wait. It is
// retried.
func (l *Limits) Pause(ctx context.Context, namespace, name string) (rouse.Limit, error) {
	request := &rousev1.PauseLimitRequest{Namespace: namespace, Name: name}
	return l.callLimit(ctx, func() (*rousev1.Limit, error) { return l.c.limits.PauseLimit(ctx, request) })
}

// Resume resumes a limit that was paused. It is retried.
func (l *Limits) Resume(ctx context.Context, namespace, name string) (rouse.Limit, error) {
	request := &rousev1.ResumeLimitRequest{Namespace: namespace, Name: name}
	return l.callLimit(ctx, func() (*rousev1.Limit, error) { return l.c.limits.ResumeLimit(ctx, request) })
}

// Reset gives the rate of a limit its whole burst again, for each key. All nodes obey it within a second;
// occurrences in progress still count. It is retried, which may give the burst twice.
func (l *Limits) Reset(ctx context.Context, namespace, name string) (rouse.Limit, error) {
	request := &rousev1.ResetLimitRequest{Namespace: namespace, Name: name}
	return l.callLimit(ctx, func() (*rousev1.Limit, error) { return l.c.limits.ResetLimit(ctx, request) })
}

// LimitList is the limits of a namespace, ordered by name.
type LimitList struct {
	Limits []rouse.Limit
	Uses   []rouse.LimitUse // of each limit, without keys, on the nodes that answered
	Nodes  []StatusNode
}

// List returns the limits of a namespace, with how much of them is in use as Get does. It is retried.
func (l *Limits) List(ctx context.Context, namespace string) (LimitList, error) {
	request := &rousev1.ListLimitsRequest{Namespace: namespace}
	p, err := callIdempotent(ctx, l.c.opts.Patience, func(bool) (*rousev1.ListLimitsResponse, error) {
		return l.c.limits.ListLimits(ctx, request)
	})
	list := LimitList{Nodes: statusNodes(p.GetNodes())}
	for _, one := range p.GetLimits() {
		list.Limits = append(list.Limits, rousev1.LimitFromProto(one))
		list.Uses = append(list.Uses, rousev1.LimitUseFromProto(one.GetUse()))
	}
	return list, err
}

// Delete deletes a limit. Its timers have none then: those that wait begin. It is retried: a retry that finds
// no limit assumes that an earlier try succeeded.
func (l *Limits) Delete(ctx context.Context, namespace, name string) error {
	request := &rousev1.DeleteLimitRequest{Namespace: namespace, Name: name}
	_, err := callIdempotent(ctx, l.c.opts.Patience, func(unsure bool) (*rousev1.DeleteLimitResponse, error) {
		response, err := l.c.limits.DeleteLimit(ctx, request)
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return response, nil
		}
		return response, err
	})
	return err
}
