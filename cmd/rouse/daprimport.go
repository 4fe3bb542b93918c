package main

import (
	"context"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/client"
)

// daprImportCmd imports the jobs of another Dapr scheduler.
type daprImportCmd struct {
	From string `arg:"" optional:"" help:"Address of the scheduler that has the jobs, HOST:PORT."`
	Etcd string `help:"Read all jobs, with their progress, from the scheduler's etcd at this address instead." placeholder:"HOST:PORT"`

	DaprNamespace string   `help:"Namespace of the apps and actors, as Dapr has it." default:"default" placeholder:"NAME"`
	App           []string `help:"Jobs of these apps." placeholder:"APP"`
	ActorType     []string `help:"Reminders of actors of these types." placeholder:"TYPE"`
	Workflows     bool     `help:"Reminders of the workflows of the apps too: of their instances, activities and retention."`
	As            string   `help:"App that requests reminders; default the first --app, or else rouse." placeholder:"APP"`

	Since   moment `help:"Time up to which that scheduler was on time: recurring jobs fire what was due since then; default now." placeholder:"TIME"`
	Exact   bool   `help:"Exclude jobs whose progress that scheduler does not report."`
	Replace bool   `help:"Replace existing jobs."`
	DryRun  bool   `help:"Print what would be done, and change nothing; needs no server."`

	sourceFlags `embed:""`
}

func (daprImportCmd) Help() string {
	return `Reads jobs over the protocol of Dapr's scheduler, from a running one or from another rouse, and writes them into the server as
timers that go on from there. Their names, data, schedules and policies are as they were. The protocol does not tell when a job was
scheduled, nor how often it has ticked: the output names what each job loses by that; it counts from now. The scheduler's etcd has it all:
with --etcd, jobs of all namespaces, apps and actors go on exactly where they are, durations, counters and concurrency keys included.
--dapr-namespace, --app and --actor-type then leave out what they do not name.

It can be run again: jobs that are there already stay as they are. Have sidecars connect to the new scheduler first, so that no scheduler fires
what is being read.

Examples:

    rouse dapr-import --etcd 127.0.0.1:2379 --dry-run
    rouse dapr-import 127.0.0.1:50006 --app shop --dry-run
    rouse dapr-import 127.0.0.1:50006 --app shop --app bills --workflows
    rouse dapr-import 127.0.0.1:50006 --dapr-namespace prod --actor-type Cart --as shop --since=-5m
    rouse dapr-import dapr-scheduler:443 --app shop --cert tls.crt --key tls.key --trust-anchors ca.crt`
}

// workflowKinds are the kinds of actors of an app's workflows that have reminders.
var workflowKinds = []string{"workflow", "activity", "retentioner"}

// daprGroup is the content of one list: the jobs of an app, or the reminders of an actor type.
type daprGroup struct {
	what     string
	metadata *schedulerv1.JobMetadata
}

// groups returns the requested lists.
func (c *daprImportCmd) groups() (list []daprGroup, err error) {
	as := c.As
	switch {
	case as != "":
	case len(c.App) > 0:
		as = c.App[0]
	default:
		as = "rouse"
	}
	actors := func(as, typ string) {
		list = append(list, daprGroup{"actors " + typ, &schedulerv1.JobMetadata{Namespace: c.DaprNamespace, AppId: as, Target: &schedulerv1.JobTargetMetadata{
			Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: typ}}}}})
	}
	for _, app := range c.App {
		list = append(list, daprGroup{"app " + app, &schedulerv1.JobMetadata{Namespace: c.DaprNamespace, AppId: app, Target: &schedulerv1.JobTargetMetadata{
			Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}})
		if c.Workflows {
			for _, kind := range workflowKinds {
				actors(app, strings.Join([]string{"dapr.internal", c.DaprNamespace, app, kind}, "."))
			}
		}
	}
	for _, typ := range c.ActorType {
		actors(as, typ)
	}
	if len(list) == 0 {
		return nil, &usage{text: "whose jobs? the protocol has no list of all: give --app or --actor-type", help: "rouse dapr-import --help"}
	}
	return list, nil
}

// Run imports.
func (c *daprImportCmd) Run(a *app) error {
	i := &daprImport{daprImportCmd: c, a: a}
	read, end, err := c.open(a, i)
	if err != nil {
		return err
	}
	defer end()
	if c.DryRun {
		return i.result(read(rouse.At(time.Now())))
	}
	return a.remote(func(s *client.Client) error {
		i.server = s
		ctx, cancel := context.WithTimeout(a.ctx, a.cli.Timeout)
		clock, err := s.Clock(ctx)
		cancel()
		if err != nil {
			return err
		}
		return i.result(read(clock.Now))
	})
}

// open returns a function that reads the jobs from the scheduler or its etcd, and one that closes the
// connection.
func (c *daprImportCmd) open(a *app, i *daprImport) (read func(now rouse.Instant) error, end func(), err error) {
	switch {
	case c.Etcd != "" && c.From != "":
		return nil, nil, &usage{text: "jobs are read from a scheduler or from its etcd: give HOST:PORT or --etcd", help: "rouse dapr-import --help"}
	case c.Etcd != "" && (c.Since != moment{} || c.Cert != "" || c.Key != "" || c.TrustAnchors != ""):
		return nil, nil, &usage{text: "--since, --cert, --key and --trust-anchors do not go with --etcd: it tells how far each job is, in plain text", help: "rouse dapr-import --help"}
	case c.Etcd != "":
		return c.openEtcd(i, a.given["dapr-namespace"])
	case c.From == "":
		return nil, nil, &usage{text: "where are the jobs? give the scheduler's HOST:PORT, or --etcd", help: "rouse dapr-import --help"}
	}
	groups, err := c.groups()
	if err != nil {
		return nil, nil, err
	}
	if i.source, end, err = c.dial(a); err != nil {
		return nil, nil, err
	}
	return func(now rouse.Instant) error { return i.run(groups, now) }, end, nil
}
