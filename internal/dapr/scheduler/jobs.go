package scheduler

import (
	"context"
	"errors"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/timers"
)

// ScheduleJob creates or replaces a job. If it is refused, nothing has changed.
func (f *service) ScheduleJob(ctx context.Context,
	r *schedulerv1.ScheduleJobRequest) (*schedulerv1.ScheduleJobResponse, error) {
	ref, err := f.authorizedRef(ctx, r.Name, r.Metadata)
	if err != nil {
		return nil, err
	}
	calls := f.counters.callsOf(ref)
	if err := f.scheduleNow(ctx, ref, r); err != nil {
		calls.createFailed.Add(1)
		if errors.Is(err, rouse.ErrExists) {
			return nil, status.Error(codes.AlreadyExists, "job already exists: "+r.Name)
		}
		// Dapr's scheduler returns this code for all refusals. daprd then answers HTTP 500 to a bad time
		// zone, and applications expect that.
		if errors.As(err, new(*rouse.Invalid)) && job.Zoned(r.Job.GetSchedule()) {
			return nil, withCode(err, codes.Unknown)
		}
		return nil, err
	}
	calls.created.Add(1)
	return &schedulerv1.ScheduleJobResponse{}, nil
}

// withCode returns the status of an error with a different code.
func withCode(err error, code codes.Code) error {
	p := rousev1.ErrorToStatus(err).Proto()
	p.Code = int32(code)
	return status.ErrorProto(p)
}

// scheduleNow creates the timer of a job and writes it.
func (f *service) scheduleNow(ctx context.Context, ref job.Ref, r *schedulerv1.ScheduleJobRequest) error {
	now := f.timers.Now()
	if now == 0 {
		return rouse.ErrUnavailable
	}
	t, err := job.New(ref, &schedulerv1.NamedJob{Name: r.Name, Metadata: r.Metadata, Job: r.Job}, now)
	if err != nil {
		return err
	}
	return job.Refused(f.writeTimer(ctx, ref, &t, r.Overwrite), r.Job)
}

// writeTimer writes the timer of a job.
func (f *service) writeTimer(ctx context.Context, ref job.Ref, t *job.Timer, overwrite bool) error {
	if t.Over {
		return f.acceptEndedJob(ctx, ref, &t.Spec, overwrite)
	}
	mode := timers.CreateOnly
	if overwrite {
		mode = timers.CreateOrReplace
	}
	var results []timers.PutResult
	var err error
	if t.First != 0 {
		results, err = f.timers.Import(ctx, []rouse.Timer{{Key: ref.Key(), Spec: t.Spec, Due: t.First}}, mode)
	} else {
		results, err = f.timers.Put(ctx, []timers.Put{{Key: ref.Key(), Spec: t.Spec, Mode: mode, Restart: true}})
	}
	if err != nil {
		return err
	}
	res := &results[0]
	var inv *rouse.Invalid
	// perhaps no tick lies before its end
	if bounded := t.Spec.End != 0 || t.Spec.TTL != 0; bounded && errors.As(res.Err, &inv) {
		if f.acceptEndedJob(ctx, ref, &t.Spec, overwrite) == nil {
			return nil
		}
	}
	if res.Err == nil && res.Replaced {
		f.watch.Delete(ref, res.Timer.Generation)
	}
	return res.Err
}

// acceptEndedJob accepts a job that has no tick because it ends before its first one: it deletes an existing
// job of that name. It refuses a job that would be refused without that end.
func (f *service) acceptEndedJob(ctx context.Context, ref job.Ref, spec *rouse.Spec, overwrite bool) error {
	open := *spec
	open.End, open.TTL = 0, 0
	if _, err := f.timers.Preview(ctx, ref.Key(), open, 0, 1); err != nil {
		return err
	}
	if overwrite {
		return f.deleteJob(ctx, ref)
	}
	switch _, err := f.timers.Get(ctx, ref.Key()); {
	case err == nil:
		return rouse.ErrExists
	case !errors.Is(err, rouse.ErrNotFound):
		return err
	}
	return nil
}

// GetJob returns a job as it was scheduled, with its effective failure policy.
func (f *service) GetJob(ctx context.Context, r *schedulerv1.GetJobRequest) (*schedulerv1.GetJobResponse, error) {
	ref, err := f.authorizedRef(ctx, r.Name, r.Metadata)
	if err != nil {
		return nil, err
	}
	t, err := f.timers.Get(ctx, ref.Key())
	if errors.Is(err, rouse.ErrNotFound) {
		return nil, status.Error(codes.NotFound, "job not found: "+r.Name)
	}
	if err != nil {
		return nil, err
	}
	named, err := job.Read(&t.Spec)
	if err != nil {
		return nil, err
	}
	return &schedulerv1.GetJobResponse{Job: named.Job}, nil
}

// DeleteJob deletes a job, if it exists. No trigger of it is sent after the response, except one that was
// already being sent.
func (f *service) DeleteJob(ctx context.Context,
	r *schedulerv1.DeleteJobRequest) (*schedulerv1.DeleteJobResponse, error) {
	ref, err := f.authorizedRef(ctx, r.Name, r.Metadata)
	if err != nil {
		return nil, err
	}
	if err := f.deleteJob(ctx, ref); err != nil {
		return nil, err
	}
	f.counters.callsOf(ref).deleted.Add(1)
	return &schedulerv1.DeleteJobResponse{}, nil
}

// deleteJob deletes a job, if it exists.
func (f *service) deleteJob(ctx context.Context, ref job.Ref) error {
	_, err := f.timers.Delete(ctx, ref.Key(), 0)
	if err != nil && !errors.Is(err, rouse.ErrNotFound) {
		return err
	}
	f.watch.Delete(ref, math.MaxUint64)
	return nil
}
