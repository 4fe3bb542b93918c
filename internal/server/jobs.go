package server

import (
	"context"
	"net/http"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// jobOps are the operations of this file.
type jobOps interface {
	Job(ctx context.Context, namespace, id string) (rouse.Job, error)
	Jobs(ctx context.Context, namespace string) ([]rouse.Job, error)
	CancelJob(ctx context.Context, namespace, id string) (rouse.Job, error)
}

// readJobs returns the jobs of a namespace.
func (s *service) readJobs(ctx context.Context, namespace string) ([]rouse.Job, error) {
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	return s.timers.Jobs(ctx, namespace)
}

// jobsServer implements rouse.v1.Jobs.
type jobsServer struct {
	rousev1.UnimplementedJobsServer
	*service
}

func (f *jobsServer) ListJobs(ctx context.Context, r *rousev1.ListJobsRequest) (*rousev1.ListJobsResponse, error) {
	list, err := f.readJobs(ctx, keyFrom(r.Namespace, "", "").Namespace)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListJobsResponse{Jobs: make([]*rousev1.Job, len(list))}
	for i := range list {
		out.Jobs[i] = jobToProto(&list[i])
	}
	return out, nil
}

func (f *jobsServer) GetJob(ctx context.Context, r *rousev1.GetJobRequest) (*rousev1.Job, error) {
	return jobOr(f.timers.Job(ctx, keyFrom(r.Namespace, "", "").Namespace, r.Id))
}

func (f *jobsServer) CancelJob(ctx context.Context, r *rousev1.CancelJobRequest) (*rousev1.Job, error) {
	return jobOr(f.timers.CancelJob(ctx, keyFrom(r.Namespace, "", "").Namespace, r.Id))
}

func jobOr(j rouse.Job, err error) (*rousev1.Job, error) {
	if err != nil {
		return nil, err
	}
	return jobToProto(&j), nil
}

func jobToProto(j *rouse.Job) *rousev1.Job {
	out := &rousev1.Job{Namespace: j.Namespace, Id: j.ID, Kind: string(j.Kind), Action: j.Action, Calendar: j.Calendar,
		By: j.By, State: string(j.State),
		Matched: j.Matched, Changed: j.Changed, Failed: j.Failed, CreatedMs: int64(j.Created), UpdatedMs: int64(j.Updated),
		EndedMs: int64(j.Ended)}
	if j.Kind == rouse.JobBulk {
		out.Filter = rousev1.FilterToProto(&j.Query)
	}
	if j.Err != nil {
		out.Problem = rousev1.ErrorToProblem(j.Err)
	}
	for _, f := range j.Failures {
		out.Failures = append(out.Failures, failureToProto(f.Key, f.Err))
	}
	return out
}

func jobOf(j *rouse.Job) api.Job {
	out := api.JobOf(j)
	if j.Err != nil {
		problem, _ := problemOf(j.Err)
		out.Problem = &problem
	}
	for _, f := range j.Failures {
		out.Failures = append(out.Failures, failureOf(f.Key, f.Err))
	}
	return out
}

const jobID = `
parameters:
  - {name: id, in: path, required: true, schema: {type: string, minLength: 1, maxLength: 256}, description: 'As in the list of jobs.'}`

// The HTTP handlers are written by hand: a protobuf message has less of the errors of a job.

func listJobs(f *httpHandler, c *call) error {
	list, err := f.readJobs(c.ctx, c.pathNamespace())
	if err != nil {
		return err
	}
	out := api.JobList{Jobs: make([]api.Job, len(list))}
	for i := range list {
		out.Jobs[i] = jobOf(&list[i])
	}
	return c.replyJSON(http.StatusOK, out)
}

func getJob(f *httpHandler, c *call) error {
	return c.replyJob(f.timers.Job(c.ctx, c.pathNamespace(), c.pathName()))
}

func cancelJob(f *httpHandler, c *call) error {
	return c.replyJob(f.timers.CancelJob(c.ctx, c.pathNamespace(), c.pathName()))
}

// replyJob responds with a job.
func (c *call) replyJob(j rouse.Job, err error) error {
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, jobOf(&j))
}
