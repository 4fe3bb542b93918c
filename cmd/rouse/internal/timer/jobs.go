package timer

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// JobsCmd groups the commands for jobs.
type JobsCmd struct {
	List   jobsListCmd   `cmd:"" default:"withargs" help:"List jobs, the latest first."`
	Get    jobsGetCmd    `cmd:"" help:"Show a job, with what it could not change."`
	Cancel jobsCancelCmd `cmd:"" help:"End a bulk change that is running."`
}

func (JobsCmd) Help() string {
	return `A job is a change of many timers: a command with a filter or --all, or the change of a calendar, whose timers move. It goes on
without the command that began it, and after a crash of the server. A job that has ended is kept for 7 days.

Examples:

    rouse jobs
    rouse jobs --namespace - --json
    rouse jobs get calendar-holidays
    rouse jobs cancel bulk-0mwzracjx-oforg`
}

// jobsListCmd lists jobs.
type jobsListCmd struct {
	cli.WatchFlag `embed:""`
}

func (jobsListCmd) Help() string {
	return `The namespace - is all of them.

Examples:

    rouse jobs list
    rouse jobs list --namespace billing --json`
}

// Run lists them.
func (c *jobsListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Jobs(ctx, a.Flags.Namespace)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "ID", "NAMESPACE", "WHAT", "STATE", "CHANGED", "FAILED", "CREATED")
		for i := range list {
			j := &list[i]
			if a.Flags.JSON {
				err = a.PrintJSON(jobJSON(j))
			} else {
				err = t.AddTableRow(j.ID, j.Namespace, cmp.Or(j.Action, string(j.Kind)), string(j.State),
					strconv.FormatUint(j.Changed, 10),
					strconv.FormatUint(j.Failed, 10), cli.FormatRFC3339(j.Created))
			}
			if err != nil {
				return err
			}
		}
		if len(list) == 0 && !a.Flags.JSON {
			a.PrintNote("no jobs")
		}
		return t.FlushTable()
	})
}

// jobsGetCmd shows a job.
type jobsGetCmd struct {
	ID string `arg:"" help:"Id of the job, as the list has it."`
}

func (jobsGetCmd) Help() string {
	return `Examples:

    rouse jobs get calendar-holidays
    rouse jobs get calendar-holidays --json`
}

// Run shows it.
func (c *jobsGetCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		j, err := s.Job(ctx, a.Flags.Namespace, c.ID)
		if err != nil {
			return cli.AddObjectName("job", c.ID, err)
		}
		return a.ShowValue(jobJSON(&j), func() error {
			factsOfJob(a, &j)
			return nil
		})
	})
}

// jobsCancelCmd cancels a job.
type jobsCancelCmd struct {
	ID string `arg:"" help:"Id of the job, as the list has it."`
}

func (jobsCancelCmd) Help() string {
	return `What it has changed stays changed. The job of a calendar cannot be cancelled.

Examples:

    rouse jobs cancel bulk-0mwzracjx-oforg`
}

// Run cancels it.
func (c *jobsCancelCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		j, err := s.CancelJob(ctx, a.Flags.Namespace, c.ID)
		if err != nil {
			return cli.AddObjectName("job", c.ID, err)
		}
		return a.ShowValue(jobJSON(&j), func() error {
			a.PrintLine("job %s is %s: %s changed", j.ID, j.State, cli.CountThings(j.Changed, "timer"))
			return nil
		})
	})
}

// factsOfJob prints a job.
func factsOfJob(a *cli.App, j *rouse.Job) {
	pairs := []string{"id", j.ID, "namespace", j.Namespace, "kind", string(j.Kind)}
	add := func(name, value string) {
		if value != "" {
			pairs = append(pairs, name, value)
		}
	}
	add("action", j.Action)
	add("calendar", j.Calendar)
	add("by", j.By)
	add("state", string(j.State))
	if j.Err != nil {
		add("error", cli.CleanText(j.Err.Error()))
	}
	add("matched", strconv.FormatUint(j.Matched, 10))
	add("changed", strconv.FormatUint(j.Changed, 10))
	add("failed", strconv.FormatUint(j.Failed, 10))
	add("created", cli.FormatWithRelative(j.Created, a.ServerTime()))
	add("updated", cli.FormatWithRelative(j.Updated, a.ServerTime()))
	if j.Ended != 0 {
		add("ended", cli.FormatWithRelative(j.Ended, a.ServerTime()))
	}
	cli.PrintFacts(a.Out, a.Style, pairs...)
	for _, f := range j.Failures {
		a.PrintLine("%s: %s", cli.CleanText(strings.TrimSpace(f.Key.Name+" "+f.Key.Fire)), cli.CleanText(f.Err.Error()))
	}
}

// jobJSON returns a job as the API has it.
func jobJSON(j *rouse.Job) api.Job {
	out := api.JobOf(j)
	if j.Err != nil {
		_, p := cli.ProblemOf(j.Err)
		out.Problem = &p
	}
	for _, f := range j.Failures {
		_, p := cli.ProblemOf(f.Err)
		out.Failures = append(out.Failures, api.BulkFailure{Namespace: f.Key.Namespace, Name: f.Key.Name, FireID: f.Key.Fire,
			Problem: &p})
	}
	return out
}
