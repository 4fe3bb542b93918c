// Package dapr reads jobs and reminders of Dapr as timers that go on from where they are: over the protocol
// of its scheduler (Scheduler), from the etcd of that (Etcd), and from exports of the state stores in which
// Dapr before 1.15 kept reminders (State).
package dapr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/schedule"
)

// Selection is which jobs and reminders are read.
type Selection struct {
	Namespace  string   // of Dapr; empty: all of them, which only Etcd can read
	Apps       []string // jobs of these
	ActorTypes []string // reminders of these
	Workflows  bool     // reminders of the workflows of Apps
	As         string   // app of reminders, if the source does not contain it
	Exact      bool     // jobs are left out if they lose anything
}

// workflowKinds are the kinds of actors of an app's workflows that have reminders.
var workflowKinds = []string{"workflow", "activity", "retentioner"}

func workflowActor(namespace, app, kind string) string {
	return strings.Join([]string{"dapr.internal", namespace, app, kind}, ".")
}

// selectsJob reports whether a job is to be read. Without apps and types of actors every job is.
func (s *Selection) selectsJob(m *schedulerv1.JobMetadata) bool {
	actor := m.GetTarget().GetActor()
	switch {
	case s.Namespace != "" && m.Namespace != s.Namespace:
		return false
	case len(s.Apps) == 0 && len(s.ActorTypes) == 0:
		return true
	case actor == nil:
		return slices.Contains(s.Apps, m.AppId)
	}
	return slices.Contains(s.ActorTypes, actor.Type) || s.Workflows && slices.ContainsFunc(s.Apps, func(app string) bool {
		return slices.ContainsFunc(workflowKinds, func(kind string) bool {
			return actor.Type == workflowActor(m.Namespace,
				app, kind)
		})
	})
}

// jobEntry returns a job as an entry.
func (s *Selection) jobEntry(ref job.Ref, r job.Resumed, err error) foreign.Resumed {
	e := foreign.Resumed{Timer: r.Timer, Size: len(r.Timer.Spec.Payload), Notes: r.Unknown, Err: err}
	e.Timer.Key = ref.Key()
	switch {
	case r.Over:
		e.Outcome = foreign.Over
	case s.Exact && len(r.Unknown) > 0:
		e.Outcome = foreign.LeftOut
	}
	return e
}

// Scheduler reads jobs from a running scheduler, which does not report the progress of all of them.
type Scheduler struct {
	Selection
	Client  schedulerv1.SchedulerClient
	Timeout time.Duration // of each call
	Since   rouse.Instant // up to which it was on time; 0: now
}

// group is the content of one list: the jobs of an app, or the reminders of an actor type.
type group struct {
	what     string
	metadata *schedulerv1.JobMetadata
}

// jobGroups returns the lists that are to be read.
func (s *Scheduler) jobGroups() (list []group) {
	actors := func(as, typ string) {
		list = append(list, group{"actors " + typ, actorMetadata(s.Namespace, as, typ, "")})
	}
	for _, app := range s.Apps {
		list = append(list, group{"app " + app, &schedulerv1.JobMetadata{Namespace: s.Namespace, AppId: app,
			Target: &schedulerv1.JobTargetMetadata{
				Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}})
		if s.Workflows {
			for _, kind := range workflowKinds {
				actors(app, workflowActor(s.Namespace, app, kind))
			}
		}
	}
	for _, typ := range s.ActorTypes {
		actors(s.As, typ)
	}
	return list
}

// actorMetadata returns whose a reminder is.
func actorMetadata(namespace, app, typ, id string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: namespace, AppId: app, Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: typ, Id: id}}}}
}

// Read calls add for each job. notes are on all of them.
func (s *Scheduler) Read(ctx context.Context, now rouse.Instant,
	add func(foreign.Resumed) error) (notes []string, err error) {
	since := now
	if s.Since != 0 {
		since = min(s.Since, now)
	}
	for _, g := range s.jobGroups() {
		list, err := s.listGroupJobs(ctx, g)
		if err != nil {
			return notes, err
		}
		for _, named := range list {
			if g.completeMetadata(named) && notes == nil {
				notes = []string{"that scheduler does not tell of concurrency keys: limits of theirs hold for reminders when they are scheduled again"}
			}
			ref, err := job.Of(named.Name, named.Metadata)
			var r job.Resumed
			if err == nil {
				r, err = job.Resume(ref, named, since, now, schedule.Compile)
			}
			if err := add(s.jobEntry(ref, r, err)); err != nil {
				return notes, err
			}
		}
	}
	return notes, nil
}

// listGroupJobs returns the jobs of a group.
func (s *Scheduler) listGroupJobs(ctx context.Context, g group) ([]*schedulerv1.NamedJob, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	r, err := s.Client.ListJobs(ctx, &schedulerv1.ListJobsRequest{Metadata: g.metadata})
	if err == nil {
		return r.Jobs, nil
	}
	why := rousev1.StatusToError(status.Convert(err))
	if why == nil {
		why = errors.New(err.Error())
	}
	return nil, fmt.Errorf("list the jobs of %s: %w", g.what, why)
}

// completeMetadata adds the fields that a list may omit, and reports whether it omits the app: Dapr's own
// scheduler does so for reminders, whose concurrency keys it omits, too.
func (g *group) completeMetadata(named *schedulerv1.NamedJob) (noApp bool) {
	if named.Job == nil {
		named.Job = &schedulerv1.Job{}
	}
	if named.Metadata == nil {
		named.Metadata = &schedulerv1.JobMetadata{}
	}
	actor, m := g.metadata.Target.GetActor(), named.Metadata
	if actor == nil {
		named.Metadata = g.metadata
		return false
	}
	if noApp = m.AppId == ""; noApp {
		m.AppId = g.metadata.AppId
	}
	m.Namespace = g.metadata.Namespace
	m.Target = actorMetadata("", "", actor.Type, m.Target.GetActor().GetId()).Target
	return noApp
}
