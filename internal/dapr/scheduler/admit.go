package scheduler

import (
	"context"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// of returns the ref of the one job that a call is about, if its caller may ask for it.
func (f *face) of(ctx context.Context, name string, m *schedulerv1.JobMetadata) (job.Ref, error) {
	if err := f.admit(ctx, m.GetNamespace(), m.GetAppId()); err != nil {
		return job.Ref{}, err
	}
	return job.Of(name, m)
}

// within returns the ref of all jobs that a call is about, if its caller may ask for them.
func (f *face) within(ctx context.Context, m *schedulerv1.JobMetadata) (job.Ref, error) {
	if err := f.admit(ctx, m.GetNamespace(), m.GetAppId()); err != nil {
		return job.Ref{}, err
	}
	return job.Within(m)
}

// admit refuses a call by somebody else than it says. One that says nothing is counted here, and refused for that where it is read.
func (f *face) admit(ctx context.Context, namespace, app string) error {
	if namespace == "" || app == "" {
		f.counters.unauthorized.Add(1)
		return nil
	}
	if !f.identified {
		return nil
	}
	err := identity.Authorize(ctx, namespace, app)
	if err != nil {
		f.counters.unauthorized.Add(1)
	}
	return err
}

// admitted is a watch whose first word is looked at before anybody acts on it.
type admitted struct {
	schedulerv1.Scheduler_WatchJobsServer
	face  *face
	begun bool
}

// Recv returns what the client says, if it may.
func (a *admitted) Recv() (*schedulerv1.WatchJobsRequest, error) {
	m, err := a.Scheduler_WatchJobsServer.Recv()
	if err != nil || a.begun {
		return m, err
	}
	a.begun = true
	if initial := m.GetInitial(); initial != nil {
		return m, a.face.admit(a.Context(), initial.Namespace, initial.AppId)
	}
	return m, nil
}
