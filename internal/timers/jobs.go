package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
)

// Bounds of how often a job is looked at for a client that waits for it.
const (
	firstJobLook = 500 * time.Microsecond
	nextJobLook  = 250 * time.Millisecond
	// firstReport is when a job that goes on is reported first. Proxies may break an answer that begins while
	// they are about to read the end of the request.
	firstReport = 20 * time.Millisecond
)

// followJob calls report with a job, soon and whenever it has changed, until it has ended or ctx ends.
func (ts working) followJob(ctx context.Context, namespace, id string, report func(*rouse.Job) error) error {
	var seen uint64
	b, began := backoff.New(firstJobLook, nextJobLook), time.Now()
	for {
		j, err := ts.jobOf(ctx, namespace, id)
		if err != nil {
			return err
		}
		if j.revision != seen && (j.Job.State != rouse.JobRunning || time.Since(began) >= firstReport) {
			if err := report(&j.Job); err != nil || j.Job.State != rouse.JobRunning {
				return err
			}
			seen = j.revision
		}
		if !b.Pause(ctx) {
			return ctx.Err()
		}
	}
}

// awaitJob returns a job when it has ended, or after calendarWait, or when ctx ends: then it goes on.
func (ts working) awaitJob(ctx context.Context, j *jobRow) (job rouse.Job, err error) {
	job = j.Job
	wait, cancel := context.WithTimeout(ctx, calendarWait)
	defer cancel()
	err = ts.followJob(wait, job.Namespace, job.ID, func(now *rouse.Job) error { job = *now; return nil })
	if wait.Err() != nil && ctx.Err() == nil || errors.Is(err, rouse.ErrUnavailable) { // it goes on
		err = nil
	}
	return job, cmp.Or(err, endOf(&job))
}

// Job returns a job. One of all namespaces is in the namespace rouse.Everywhere.
func (ts *Timers) Job(ctx context.Context, namespace, id string) (rouse.Job, error) {
	jobs := working{ts}
	if err := cmp.Or(checkJob(namespace, id), jobs.mayUseJobs(ctx, access.TimersRead, namespace)); err != nil {
		return rouse.Job{}, err
	}
	j, err := jobs.jobOf(ctx, namespace, id)
	if err == nil && !jobs.maySeeJob(ctx, &j.Job) {
		err = fmt.Errorf("job %q: %w", id, rouse.ErrNotFound)
	}
	return j.Job, err
}

// checkJob refuses an invalid namespace or id of a job.
func checkJob(namespace, id string) error {
	if err := checkSpace(namespace); err != nil {
		return err
	}
	if id == "" || len(id) > rouse.MaxName || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == '/' }) {
		return rouse.Refuse("id", id, "is no id of a job", "give one of those that the list of jobs has")
	}
	return nil
}

// checkSpace refuses a name that is neither a namespace nor all of them.
func checkSpace(namespace string) error {
	if namespace == rouse.Everywhere {
		return nil
	}
	return rouse.CheckNamespace(namespace)
}

// mayUseJobs refuses a caller that has the verb for no timers of a namespace, or of any.
func (ts working) mayUseJobs(ctx context.Context, v access.Verb, namespace string) error {
	if namespace == rouse.Everywhere {
		return ts.access.Admit(ctx, v)
	}
	return ts.access.RequireIn(ctx, v, namespace)
}

// maySeeJob reports whether the caller may see a job: its own, or one of a namespace that it may read all of.
func (ts working) maySeeJob(ctx context.Context, j *rouse.Job) bool {
	if p := access.From(ctx); p != nil && p.ID == j.By {
		return true
	}
	return ts.access.Allows(ctx, access.TimersRead, j.Namespace, "", nil)
}

// maxListedJobs bounds the rows of jobs that one list reads.
const maxListedJobs = 2000

// Jobs returns the jobs of a namespace, or with rouse.Everywhere all, without their failures; the latest
// first.
func (ts *Timers) Jobs(ctx context.Context, namespace string) (list []rouse.Job, err error) {
	jobs := working{ts}
	if err := cmp.Or(checkSpace(namespace), jobs.mayUseJobs(ctx, access.TimersRead, namespace)); err != nil {
		return nil, err
	}
	q := rouse.JobQuery(strings.TrimPrefix(namespace, rouse.Everywhere), "", 100)
	for read := 0; read < maxListedJobs; {
		page, err := ts.store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			if j, err := jobs.readJobRow(&page.Rows[i]); err == nil && jobs.maySeeJob(ctx, &j.Job) {
				j.Job.Failures = nil
				list = append(list, j.Job)
			}
		}
		if read += len(page.Rows); page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	slices.SortStableFunc(list, func(a, b rouse.Job) int { return cmp.Compare(b.Created, a.Created) })
	return list, nil
}

// CancelJob ends a bulk change that is running. Rows that it has changed stay changed; those that it is
// changing now may still be. The job of a calendar cannot be cancelled.
func (ts *Timers) CancelJob(ctx context.Context, namespace, id string) (rouse.Job, error) {
	jobs := working{ts}
	if err := cmp.Or(checkJob(namespace, id), jobs.mayUseJobs(ctx, access.TimersBulk, namespace)); err != nil {
		return rouse.Job{}, err
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return rouse.Job{}, err
	}
	for range maxTries {
		j, err := jobs.jobOf(ctx, namespace, id)
		if err == nil {
			err = jobs.mayCancel(ctx, &j.Job)
		}
		if err != nil || j.Job.State != rouse.JobRunning {
			return j.Job, err
		}
		read := j.revision
		now := ts.Engine.Latest()
		j.endJob(rouse.JobCancelled, nil, now)
		t, err := j.attentionRow(now.Add(rouse.JobAge))
		if err != nil {
			return j.Job, err
		}
		row := t.Row()
		out, err := ts.Engine.WriteOne(ctx, &engine.Write{Change: rouse.Change{Key: row.Key, If: read, To: &row}})
		if err != nil {
			return j.Job, err
		}
		if out.Applied {
			audit.Touched(ctx, namespace, "job "+id, read, out.Revision)
			return j.Job, nil
		}
	}
	return rouse.Job{}, fmt.Errorf("the job changes all the time: %w", rouse.ErrConflict)
}

// mayCancel refuses to cancel a job.
func (ts working) mayCancel(ctx context.Context, j *rouse.Job) error {
	if p := access.From(ctx); p == nil || p.ID != j.By || j.By == "" {
		if !ts.maySeeJob(ctx, j) && !ts.access.Allows(ctx, access.TimersBulk, j.Namespace, "", nil) {
			return fmt.Errorf("job %q: %w", j.ID, rouse.ErrNotFound)
		}
		if err := ts.access.Require(ctx, access.TimersBulk, j.Namespace, "", nil); err != nil {
			return err
		}
	}
	switch j.Kind {
	case rouse.JobEvaluate:
		return fmt.Errorf(
			"the job %q cannot be cancelled, because some timers would stay at due times of before; it changes only those that have to move: %w", j.ID, rouse.ErrConflict)
	case rouse.JobCalendar:
		return fmt.Errorf(
			"the job of a calendar cannot be cancelled, because timers would stay at due times of its old days; put other days: %w", rouse.ErrConflict)
	}
	return nil
}
