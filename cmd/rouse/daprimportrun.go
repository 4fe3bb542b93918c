package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/schedule"
)

// daprImport is an import in progress.
type daprImport struct {
	*daprImportCmd
	a      *app
	source daprSource
	server *client.Client // nil: nothing is written

	batch  []rouse.Timer
	jobs   []daprJob // of the batch
	size   int       // bytes of it, about
	counts map[string]int
	told   int
	noKeys bool // the list contains reminders and lacks their concurrency keys
}

// Outcomes of a job.
const (
	daprImported = "imported"
	daprThere    = "there already"
	daprOver     = "over"
	daprLeftOut  = "left out"
	daprFailed   = "failed"
)

var daprOutcomes = []string{daprImported, daprThere, daprOver, daprLeftOut, daprFailed}

// daprJob is the output for a job.
type daprJob struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"` // of its timer
	Outcome   string       `json:"outcome"`
	Unknown   []string     `json:"unknown,omitzero"`
	Problem   *api.Problem `json:"problem,omitzero"`
}

func (i *daprImport) run(groups []daprGroup, now rouse.Instant) error {
	since := now
	if at := i.Since.instant(); at != 0 {
		since = min(at, now)
	}
	for _, g := range groups {
		list, err := i.source.list(i.a, g)
		if err != nil {
			return err
		}
		for _, named := range list {
			if err := i.take(g, named, since, now); err != nil {
				return err
			}
		}
		if err := i.flush(); err != nil {
			return err
		}
	}
	return nil
}

// take converts a job to a timer.
func (i *daprImport) take(g daprGroup, named *schedulerv1.NamedJob, since, now rouse.Instant) error {
	if named.Job == nil {
		named.Job = &schedulerv1.Job{}
	}
	i.complete(g, named)
	ref, err := job.Of(named.Name, named.Metadata)
	var r job.Resumed
	if err == nil {
		r, err = job.Resume(ref, named, since, now, schedule.Compile)
	}
	return i.put(ref, r, err)
}

// put queues the timer of a job for writing, or reports why not.
func (i *daprImport) put(ref job.Ref, r job.Resumed, err error) error {
	told := daprJob{Namespace: ref.Key().Namespace, Name: ref.Key().Name, Unknown: r.Unknown}
	switch {
	case err != nil:
		return i.tell(told, err)
	case r.Over:
		told.Outcome = daprOver
		return i.tell(told, nil)
	case i.Exact && len(r.Unknown) > 0:
		told.Outcome = daprLeftOut
		return i.tell(told, nil)
	}
	i.batch, i.jobs, i.size = append(i.batch, r.Timer), append(i.jobs, told), i.size+len(r.Timer.Spec.Payload)
	if len(i.batch) == bulkTimers || i.size > bulkBytes {
		return i.flush()
	}
	return nil
}

// complete adds the owner of a job, which a list may omit: Dapr's own scheduler omits the app of reminders.
func (i *daprImport) complete(g daprGroup, named *schedulerv1.NamedJob) {
	actor := g.metadata.Target.GetActor()
	if named.Metadata == nil {
		named.Metadata = &schedulerv1.JobMetadata{}
	}
	m := named.Metadata
	if actor == nil {
		named.Metadata = g.metadata
		return
	}
	if m.AppId == "" {
		m.AppId, i.noKeys = g.metadata.AppId, true
	}
	m.Namespace = g.metadata.Namespace
	m.Target = &schedulerv1.JobTargetMetadata{Type: &schedulerv1.JobTargetMetadata_Actor{
		Actor: &schedulerv1.TargetActorReminder{Type: actor.Type, Id: m.Target.GetActor().GetId()}}}
}

// flush writes the queued timers.
func (i *daprImport) flush() error {
	timers, jobs := i.batch, i.jobs
	i.batch, i.jobs, i.size = nil, nil, 0
	if len(timers) == 0 {
		return nil
	}
	created, err := i.write(timers)
	if refuses(err) && len(timers) > 1 { // retry each alone to find the one that is refused
		for n := range timers {
			i.batch, i.jobs = timers[n:n+1], jobs[n:n+1]
			if err := i.flush(); err != nil {
				return err
			}
		}
		return nil
	}
	if refuses(err) {
		created = []client.Created{{Err: err}}
	} else if err != nil {
		return err
	}
	for n, c := range created {
		told, err := jobs[n], c.Err
		told.Outcome = daprImported
		if errors.Is(err, rouse.ErrExists) {
			told.Outcome, err = daprThere, nil
		}
		if err := i.tell(told, err); err != nil {
			return err
		}
	}
	return nil
}

func (i *daprImport) write(timers []rouse.Timer) ([]client.Created, error) {
	if i.server == nil {
		return make([]client.Created, len(timers)), nil
	}
	mode := client.CreateOnly
	if i.Replace {
		mode = client.CreateOrReplace
	}
	ctx, cancel := context.WithTimeout(i.a.ctx, i.a.cli.Timeout)
	defer cancel()
	return i.server.Import(ctx, mode, timers, nil)
}

// tell counts and prints the outcome of a job.
func (i *daprImport) tell(j daprJob, err error) error {
	if err != nil {
		j.Outcome = daprFailed
		_, p := problemOf(err)
		j.Problem = &p
	}
	if i.counts == nil {
		i.counts = map[string]int{}
	}
	i.counts[j.Outcome]++
	if i.a.cli.JSON {
		return i.a.printJSON(j)
	}
	if err == nil && (len(j.Unknown) == 0 || j.Outcome == daprThere) {
		return nil
	}
	if i.told++; i.told > maxTold {
		return nil
	}
	name := j.Namespace + "/" + j.Name
	if err != nil {
		fmt.Fprintf(i.a.errOut, "%s %s: %s\n", i.a.styleErr.red("rouse:"), clean(name), clean(err.Error()))
		return nil
	}
	for _, text := range j.Unknown {
		i.a.note("%s: %s", name, text)
	}
	return nil
}

// result prints the totals.
func (i *daprImport) result(err error) error {
	if i.told > maxTold {
		i.a.note("and %d more jobs of which there is something to say; --json tells of all", i.told-maxTold)
	}
	if i.noKeys {
		i.a.note("that scheduler does not tell of concurrency keys: limits of theirs hold for reminders when they are scheduled again")
	}
	if !i.a.cli.JSON {
		var parts []string
		for _, outcome := range daprOutcomes {
			text := fmt.Sprint(i.counts[outcome], " ", outcome)
			if i.server == nil && outcome == daprImported {
				text = fmt.Sprint(i.counts[outcome], " good")
			}
			parts = append(parts, text)
		}
		i.a.say("%s", strings.Join(parts, ", "))
	}
	switch {
	case err != nil:
		return fmt.Errorf("the rest is not imported: %w", err)
	case i.counts[daprFailed] > 0:
		return silent{exitFailure}
	}
	return nil
}
