package client

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Jobs returns the jobs of a namespace, the latest first, without their failures: the changes of many timers
// that go on without the client that asked for them. An empty namespace is "default", and rouse.Everywhere
// all. It is retried.
func (c *Client) Jobs(ctx context.Context, namespace string) ([]rouse.Job, error) {
	request := &rousev1.ListJobsRequest{Namespace: namespace}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.ListJobsResponse,
		error) {
		return c.jobs.ListJobs(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	list := make([]rouse.Job, len(p.GetJobs()))
	for i, j := range p.GetJobs() {
		if list[i], err = jobFrom(j); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Job returns a job, or rouse.ErrNotFound. One of all namespaces is in the namespace rouse.Everywhere. It is
// retried.
func (c *Client) Job(ctx context.Context, namespace, id string) (rouse.Job, error) {
	request := &rousev1.GetJobRequest{Namespace: namespace, Id: id}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.Job, error) { return c.jobs.GetJob(ctx, request) })
	if err != nil {
		return rouse.Job{}, err
	}
	return jobFrom(p)
}

// CancelJob ends a bulk change that is running, and returns its job. Its changes so far stay. It is retried.
func (c *Client) CancelJob(ctx context.Context, namespace, id string) (rouse.Job, error) {
	request := &rousev1.CancelJobRequest{Namespace: namespace, Id: id}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.Job,
		error) {
		return c.jobs.CancelJob(ctx, request)
	})
	if err != nil {
		return rouse.Job{}, err
	}
	return jobFrom(p)
}

func jobFrom(p *rousev1.Job) (rouse.Job, error) {
	q, err := rousev1.FilterFromProto(p.GetFilter())
	j := rouse.Job{Namespace: p.GetNamespace(), ID: p.GetId(), Kind: rouse.JobKind(p.GetKind()), Action: p.GetAction(),
		Calendar: p.GetCalendar(), Query: q,
		By: p.GetBy(), State: rouse.JobState(p.GetState()), Matched: p.GetMatched(), Changed: p.GetChanged(),
		Failed:  p.GetFailed(),
		Created: rouse.Instant(p.GetCreatedMs()), Updated: rouse.Instant(p.GetUpdatedMs()),
		Ended: rouse.Instant(p.GetEndedMs())}
	if p.GetProblem() != nil {
		j.Err = rousev1.ProblemToError(p.GetProblem())
	}
	for _, f := range p.GetFailures() {
		j.Failures = append(j.Failures, rouse.JobFailure{Key: rouse.Key{Namespace: f.GetNamespace(), Name: f.GetName(),
			Fire: f.GetFireId()},
			Err: rousev1.ProblemToError(f.GetProblem())})
	}
	return j, err
}
