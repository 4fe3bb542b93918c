package scheduler

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// authorizedRef returns the ref of the job in a call if the caller may access it.
func (f *service) authorizedRef(ctx context.Context, name string, m *schedulerv1.JobMetadata) (job.Ref, error) {
	if err := f.admitApp(ctx, m.GetNamespace(), m.GetAppId()); err != nil {
		return job.Ref{}, err
	}
	return job.Of(name, m)
}

// authorizedScope returns the ref of all jobs in a call if the caller may access them.
func (f *service) authorizedScope(ctx context.Context, m *schedulerv1.JobMetadata) (job.Ref, error) {
	if err := f.admitApp(ctx, m.GetNamespace(), m.GetAppId()); err != nil {
		return job.Ref{}, err
	}
	return job.Within(m)
}

// admitApp refuses a call whose caller is not the app that it names. A call that names none is only counted
// here; it is refused where it is read.
func (f *service) admitApp(ctx context.Context, namespace, app string) error {
	if namespace == "" || app == "" {
		f.counters.unauthorized.Add(1)
		return nil
	}
	var err error
	if f.identified {
		if another := identity.Authorize(ctx, namespace, app); another != nil {
			err = f.access.Refuse(&access.Refusal{Reason: access.ReasonScope, Err: another,
				Text: status.Convert(another).Message()})
		}
	}
	if err == nil {
		err = f.access.RequireApp(ctx, access.DaprUse, job.Namespace(namespace), app)
	}
	if err != nil {
		f.counters.unauthorized.Add(1)
	}
	return err
}

// actsAsAny reports whether a caller may act as any app of a namespace.
func (f *service) actsAsAny(ctx context.Context, namespace string) bool {
	return !f.identified && f.access.AllowsApp(ctx, access.DaprUse, job.Namespace(namespace), "*")
}

// sidecarGate returns a gate that knows sidecars by their certificates, in addition to its other credentials.
func sidecarGate(gate *access.Gate) *access.Gate {
	if gate == nil {
		return nil
	}
	of := *gate
	of.Authenticators = append(access.Chain{sidecars{}}, gate.Authenticators...)
	return &of
}

// sidecars authenticates callers that send no credentials but their certificate. The handshake has verified
// it.
type sidecars struct{}

// Authenticate implements access.Authenticator.
func (sidecars) Authenticate(ctx context.Context, c *access.Credentials) (*access.Principal, error) {
	if c.Bearer != "" {
		return nil, nil
	}
	id, ok := identity.Of(ctx)
	if !ok {
		// as Dapr's own scheduler
		return nil, access.Unauthenticated(access.ReasonNoCredentials, "failed to get identity from context")
	}
	return principalOf(id), nil
}

// principalOf returns the principal of an app, which has the rights of sidecars in the namespace of its jobs,
// as this app. It does not expire: sidecars renew their certificates, but not the connections that they have
// opened.
func principalOf(id identity.ID) *access.Principal {
	return &access.Principal{ID: "certificate:" + id.String(), Source: "certificate",
		Grants: []access.Grant{{Role: access.Sidecar, Scope: access.Scope{Namespaces: []string{job.Namespace(id.Namespace)},
			Apps: []string{id.App}}}}}
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
		return m, a.service.admitApp(a.Context(), initial.Namespace, initial.AppId)
	}
	return m, nil
}

// SendHeader signals to the client that its watch is open, once the audit log has it.
func (a *admitted) SendHeader(h metadata.MD) error {
	if err := audit.Opened(a.Context()); err != nil {
		return err
	}
	return a.Scheduler_WatchJobsServer.SendHeader(h)
}
