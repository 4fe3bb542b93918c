package scheduler

import (
	"context"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// of returns the ref of the job in a call if the caller may access it.
func (f *service) of(ctx context.Context, name string, m *schedulerv1.JobMetadata) (job.Ref, error) {
	if err := f.admit(ctx, m.GetNamespace(), m.GetAppId()); err != nil {
		return job.Ref{}, err
	}
	return job.Of(name, m)
}

// within returns the ref of all jobs in a call if the caller may access them.
func (f *service) within(ctx context.Context, m *schedulerv1.JobMetadata) (job.Ref, error) {
	if err := f.admit(ctx, m.GetNamespace(), m.GetAppId()); err != nil {
		return job.Ref{}, err
	}
	return job.Within(m)
}

// admit refuses a call whose caller is not the app that it names. A call that names none is only counted
// here; it is refused where it is read.
func (f *service) admit(ctx context.Context, namespace, app string) error {
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

// admitted is a watch whose first message is authorized before it is used.
type admitted struct {
	schedulerv1.Scheduler_WatchJobsServer
	service *service
	begun   bool
}

// Recv returns the next message if the client is authorized.
func (a *admitted) Recv() (*schedulerv1.WatchJobsRequest, error) {
	m, err := a.Scheduler_WatchJobsServer.Recv()
	if err != nil || a.begun {
		return m, err
	}
	a.begun = true
	if initial := m.GetInitial(); initial != nil {
		return m, a.service.admit(a.Context(), initial.Namespace, initial.AppId)
	}
	return m, nil
}
