package timers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
)

// BulkRequest is one action on all rows that match.
type BulkRequest struct {
	Query         rouse.Query // States is not set: the action determines the rows
	Action        string      // delete, pause, resume, skip, reschedule, redrive, purge or replan
	DryRun        bool
	Reason        string
	Until         rouse.Instant
	When          *rouse.Spec
	Limit         uint64
	ErrorContains string
	PerSecond     float64 // of redrive: at most so many; 0: as fast as possible
	CurrentSpec   bool    // of redrive: with the present specs of their timers
}

// BulkProgress is the progress of a bulk request. Failures and Names contain only the entries since the last
// report.
type BulkProgress struct {
	Job                      string // its id; empty: of a dry run
	Matched, Changed, Failed uint64
	Failures                 []BulkFailure
	Names                    []string
	Targets                  []rouse.JobTarget // of redrive, with Done
	Done                     bool
}

// BulkFailure is a row that was not changed.
type BulkFailure struct {
	Key rouse.Key
	Err error
}

// Bounds on the report of one bulk request.
const (
	maxBulkNames = 1000
)

// bulkActions has the states of rows that each action applies to.
var bulkActions = map[string][]rouse.State{
	"delete":     rouse.ListedStates,
	"pause":      {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted},
	"resume":     {rouse.StatePaused},
	"skip":       {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused},
	"reschedule": {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused},
	"redrive":    {rouse.StateDead},
	"purge":      {rouse.StateDead},
	"replan":     {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused},
}

// bulkVerbs are the verbs that an action needs for each timer, in addition to access.TimersBulk.
var bulkVerbs = map[string]access.Verb{"delete": access.TimersDelete, "pause": access.TimersPause,
	"resume": access.TimersPause,
	"skip":   access.TimersSkip, "reschedule": access.TimersReschedule, "redrive": access.DeadRedrive,
	"purge": access.DeadPurge, "replan": access.TimersReschedule}

// Bulk applies one action to all rows that match, as a job, and calls progress soon after it begins, whenever
// it has come further, and at the end with Done. A failure of one row does not stop the others. If progress
// returns an error, Bulk returns it, and the job goes on, as it does when ctx ends. States of the query may
// narrow the rows of the action. A request with an Idempotency-Key that an earlier one had follows the job of
// that one.
func (ts *Timers) Bulk(ctx context.Context, r BulkRequest, progress func(BulkProgress) error) error {
	if r.DryRun {
		audit.Checks(ctx)
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return err
	}
	jobs := working{ts}
	w, err := jobs.bulkWork(&r)
	if err != nil {
		return err
	}
	if r.ErrorContains != "" { // answers of targets
		if err := ts.mayReveal(ctx, r.Query.Namespace); err != nil {
			return err
		}
	}
	first := w.query
	first.Limit = 1
	if _, err := ts.pageRows(ctx, first, w.verbs...); err != nil { // the caller may do it somewhere
		return err
	}
	if r.When != nil { // an invalid spec is invalid for every timer
		if _, err := ts.Preview(access.AsSystem(ctx), rouse.Key{Namespace: r.Query.Namespace, Name: "bulk"}, *r.When, 0,
			1); err != nil {
			return err
		}
	}
	if r.DryRun {
		if err := ts.ChargeRead(ctx, r.Query.Namespace); err != nil {
			return err
		}
		return jobs.dryRun(ctx, w, progress)
	}
	id, err := jobs.startBulk(ctx, &r)
	if errors.Is(err, rouse.ErrFull) {
		return jobs.bulkWithoutRow(ctx, &r, progress)
	}
	if err != nil {
		return err
	}
	told := 0
	return jobs.followJob(ctx, r.jobNamespace(), id, func(j *rouse.Job) error {
		return cmp.Or(progress(progressOf(j, &told)), endOf(j))
	})
}

// progressOf returns the progress of a job, of whose failures some have been reported.
func progressOf(j *rouse.Job, told *int) BulkProgress {
	p := BulkProgress{Job: j.ID, Matched: j.Matched, Changed: j.Changed, Failed: j.Failed, Done: j.State == rouse.JobDone}
	if p.Done {
		p.Targets = j.Targets
	}
	for _, f := range j.Failures[min(*told, len(j.Failures)):] {
		p.Failures = append(p.Failures, BulkFailure{f.Key, f.Err})
	}
	*told = len(j.Failures)
	return p
}

// endOf returns why a job has ended before it was done.
func endOf(j *rouse.Job) error {
	if j.State == rouse.JobCancelled {
		return fmt.Errorf("the job %s was cancelled: %w", j.ID, rouse.ErrConflict)
	}
	return j.Err
}

// bulkWithoutRow does a bulk change while the store has no room for the row of a job: none of them adds rows.
// It ends with ctx.
func (ts working) bulkWithoutRow(ctx context.Context, r *BulkRequest, progress func(BulkProgress) error) error {
	if !r.changesOnRepeat() {
		ctx = access.Harmless(ctx)
	}
	j := ts.newJob(ctx, rouse.JobBulk, r.jobNamespace(), "", 0)
	for j.Bulk = r; j.Job.State == rouse.JobRunning; {
		told := len(j.Failures)
		pause, err := ts.workPage(ctx, &j, &j)
		for _, f := range j.Failures[told:] {
			j.Job.Failures = append(j.Job.Failures, rouse.JobFailure{Key: f.Key, Err: f.Err.restoreError()})
		}
		if err := cmp.Or(progress(progressOf(&j.Job, &told)), err); err != nil {
			return err
		}
		if j.Job.State == rouse.JobRunning && !backoff.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
	return nil
}

// dryRun reports the rows that a bulk request would change, in the order of keys.
func (ts working) dryRun(ctx context.Context, w *work, progress func(BulkProgress) error) error {
	var p BulkProgress
	var all rouse.Job // has the targets
	q := w.query
	q.Limit = jobPage
	for names := 0; ; {
		page, err := ts.pageRows(ctx, q, w.verbs...)
		if err != nil {
			return err
		}
		rows, _ := ts.wantedRows(ctx, w, &page, &jobRow{Job: rouse.Job{Matched: p.Matched}}, jobPage)
		p.Matched, p.Names = p.Matched+uint64(len(rows)), nil
		for i := range rows[:min(len(rows), maxBulkNames-names)] {
			name := rows[i].Key.Name
			if q.Namespace == "" {
				name = rows[i].Key.Namespace + "/" + name
			}
			p.Names = append(p.Names, name)
		}
		names += len(p.Names)
		p.Failures = nil
		for i, err := range w.resolveTargets(ctx, rows) {
			switch {
			case err != nil:
				if p.Failed++; p.Failed <= rouse.MaxJobFailures {
					p.Failures = append(p.Failures, BulkFailure{rows[i].Key, err})
				}
			case w.redrives:
				all.CountTarget(rows[i].Spec.Target)
			}
		}
		if p.Done = page.Next == nil || w.limit != 0 && p.Matched >= w.limit; p.Done {
			p.Targets = all.Targets
		}
		if err := cmp.Or(progress(p), ctx.Err()); err != nil || p.Done {
			return err
		}
		q.After = *page.Next
	}
}

// resolveTargets gives rows the targets that they would be redriven to.
func (w *work) resolveTargets(ctx context.Context, rows []rouse.Timer) []error {
	errs := make([]error, len(rows))
	if w.target != nil {
		inParallel(len(rows), func(i int) { errs[i] = w.target(ctx, &rows[i]) })
	}
	return errs
}

// bulkWork is the work of a bulk request, which it checks.
func (ts working) bulkWork(r *BulkRequest) (*work, error) {
	q, err := r.checkBulk()
	if err != nil {
		return nil, err
	}
	matches := func(ctx context.Context, t *rouse.Timer) bool { return ts.bulkMatches(ctx, r, &q, t) }
	own := ts.withMatch(matches)
	w := &work{query: q, verbs: []access.Verb{access.TimersBulk, bulkVerbs[r.Action]}, verb: access.TimersBulk,
		wants: matches, part: 100, limit: r.Limit,
		perSecond: r.PerSecond, missing: r.Action == "reschedule"}
	w.do = func(ctx context.Context, rows []rouse.Timer) []error {
		errs := make([]error, len(rows))
		inParallel(len(rows), func(i int) { rows[i].Spec.Target, errs[i] = own.bulkOne(ctx, r, &rows[i]) })
		return errs
	}
	w.redrives = r.Action == "redrive"
	if r.CurrentSpec {
		w.target = func(ctx context.Context, t *rouse.Timer) error { return takeCurrentSpec(ctx, ts.Timers, t) }
	}
	if r.Action == "delete" {
		w.part, w.do, w.sweeps = jobPage, own.deleteRows, true
	}
	return w, nil
}

// startBulk writes the job of a bulk request, and returns its id.
func (ts working) startBulk(ctx context.Context, r *BulkRequest) (id string, err error) {
	namespace := r.jobNamespace()
	if namespace != rouse.Everywhere {
		if err := ts.admission.requireNamespace(namespace); err != nil {
			return "", err
		}
	}
	if note, err := ts.askedBefore(ctx, r); err != nil || note.Job != "" { // it needs no room
		return note.Job, err
	}
	if err := ts.roomForJob(ctx, namespace); err != nil {
		return "", err
	}
	now := ts.Engine.Latest()
	id = newBulkID(now)
	bucket := rouse.BucketOf(rouse.JobKey(namespace, id), ts.opts.Engine.Buckets)
	j := ts.newJob(ctx, rouse.JobBulk, namespace, id, bucket)
	j.Bulk, j.Job.Action, j.Job.Query = r, r.Action, r.Query
	t, err := j.attentionRow(now)
	if err != nil {
		return "", err
	}
	row, admitted := t.Row(), false
	for range maxTries {
		note, err := ts.askedBefore(ctx, r)
		if err != nil || note.Job != "" {
			return note.Job, err
		}
		c := rouse.Change{Key: row.Key, If: rouse.NoRow, To: &row}
		if note.key.Name != "" {
			note.Job = id
			if !admitted {
				if err := ts.admission.admitNote(&note, now); err != nil {
					return "", err
				}
				admitted = true
			}
			to, err := note.storedRow(now, bucket)
			if err != nil {
				return "", err
			}
			c = rouse.Change{Key: note.key, If: note.revision, To: &to, Also: []rouse.Row{row}}
		}
		out, err := ts.Engine.WriteOne(ctx, &engine.Write{Change: c})
		if err != nil {
			return "", err
		}
		if out.Applied {
			audit.Touched(ctx, namespace, "job "+id, rouse.NoRow, out.Revision)
			return id, nil
		}
	}
	return "", fmt.Errorf("the job %s exists: %w", id, rouse.ErrConflict)
}

// askedBefore returns the note of a request, with a job if an earlier request with its Idempotency-Key made
// one; without a key if it has no Idempotency-Key. It is refused if that asked for something else, and
// rouse.ErrNotFound if its job is not kept any more.
func (ts working) askedBefore(ctx context.Context, r *BulkRequest) (n askedNote, err error) {
	what, err := json.Marshal(r)
	if err != nil {
		return n, err
	}
	o := newRepeatable(ctx, rouse.Key{Namespace: r.Query.Namespace}, "bulk", string(what))
	if o == nil {
		return n, nil
	}
	o.whole = o.Asks
	rows, err := ts.store.Get(ctx, []rouse.Key{o.noteKey()})
	if err != nil {
		return n, err
	}
	if n, err = o.noteIn(ts.Timers, &rows[0]); err != nil || n.Job == "" {
		return n, err
	}
	audit.Repeated(ctx)
	if _, err = ts.jobOf(ctx, r.jobNamespace(), n.Job); errors.Is(err, rouse.ErrNotFound) {
		err = fmt.Errorf("the job %s of the first request with this Idempotency-Key has ended and is not kept any more: %w",
			n.Job, rouse.ErrNotFound)
	}
	return n, err
}

// bulkMatches reports whether a request with the query is about a row.
func (ts working) bulkMatches(ctx context.Context, r *BulkRequest, q *rouse.Query, t *rouse.Timer) bool {
	row := rouse.Row{Key: t.Key, State: t.State(), Labels: t.Spec.Labels, Due: t.Due}
	return q.Selects(&row) && ts.mayList(ctx, t, access.TimersBulk, bulkVerbs[r.Action]) && ts.matchesSought(ctx, q, t) &&
		ts.failedWith(ctx, r.ErrorContains, t)
}

// failedWith reports whether the error of a dead letter contains a text, as far as the caller may see it.
func (ts *visibility) failedWith(ctx context.Context, text string, t *rouse.Timer) bool {
	if text == "" {
		return true
	}
	shown := *t
	ts.access.Redact(ctx, &shown)
	return strings.Contains(shown.LastError, text)
}

// changesOnRepeat reports whether the action changes something more when it is done again.
func (r *BulkRequest) changesOnRepeat() bool { return r.Action == "skip" || r.Action == "reschedule" }

// selectsAll reports whether the request is about all timers of the store.
func (r *BulkRequest) selectsAll() bool {
	q := &r.Query
	return q.Namespace+q.Prefix+q.Name == "" && len(q.States)+len(q.Labels) == 0 && q.DueFrom|q.DueUntil == 0 &&
		q.Sought == rouse.Sought{} && r.Limit == 0
}

// jobNamespace returns the namespace of the request's job.
func (r *BulkRequest) jobNamespace() string { return cmp.Or(r.Query.Namespace, rouse.Everywhere) }

// checkBulk validates the request, and returns the query of its rows.
func (r *BulkRequest) checkBulk() (rouse.Query, error) {
	q := r.Query
	states, ok := bulkActions[r.Action]
	if !ok {
		return q, rouse.Refuse("action", r.Action, "is no action",
			"give one of delete, pause, resume, skip, reschedule, redrive, purge, replan")
	}
	if r.Reason != "" && r.Action != "pause" && r.Action != "skip" { // it would be lost
		return q, rouse.Refuse("reason", r.Reason, "does not go with "+r.Action, "leave it out")
	}
	if err := cmp.Or(q.Check(), refuseOrder(&q), rouse.CheckText("reason", r.Reason, rouse.MaxDetail),
		rouse.CheckInstant("until", r.Until),
		rouse.CheckText("error_contains", r.ErrorContains, rouse.MaxDetail)); err != nil {
		return q, err
	}
	for _, s := range q.States {
		if !containsState(states, s) {
			return q, rouse.Refuse("states", s.String(), "does not go with "+r.Action,
				fmt.Sprintf("give some of %v, or none", states))
		}
	}
	if len(q.States) == 0 {
		q.States = states
	}
	if (r.When != nil) != (r.Action == "reschedule") {
		return q, rouse.Refuse("when", "", "goes with reschedule, and only with it", "give a schedule to reschedule to")
	}
	if r.Until != 0 && r.Action != "pause" {
		return q, rouse.Refuse("until", r.Until.String(), "does not go with "+r.Action, "leave it out")
	}
	if r.ErrorContains != "" && states[0] != rouse.StateDead {
		return q, rouse.Refuse("error_contains", r.ErrorContains, "does not go with "+r.Action,
			"use it with redrive or purge")
	}
	if r.CurrentSpec && r.Action != "redrive" {
		return q, rouse.Refuse("with_current_spec", "true", "does not go with "+r.Action, "use it with redrive")
	}
	if n := r.PerSecond; n != 0 && r.Action != "redrive" {
		return q, rouse.Refuse("per_second", fmt.Sprint(n), "does not go with "+r.Action, "use it with redrive")
	}
	if err := checkRate(r.PerSecond); err != nil {
		return q, err
	}
	return q, nil
}

func containsState(states []rouse.State, s rouse.State) bool {
	return slices.Contains(states, s)
}

// bulkOne applies the action to a row, and returns the target that it was redriven to.
func (ts *Timers) bulkOne(ctx context.Context, r *BulkRequest, t *rouse.Timer) (target string, err error) {
	switch key := t.Key; r.Action {
	case "pause":
		_, err = ts.Pause(ctx, key, r.Reason, r.Until)
	case "resume":
		_, err = ts.Resume(ctx, key)
	case "skip":
		_, err = ts.Skip(ctx, key, 1, r.Reason)
	case "reschedule":
		_, err = ts.Reschedule(ctx, key, *r.When, 0, false)
	case "redrive":
		target, err = ts.Redrive(ctx, key, r.CurrentSpec)
	case "purge":
		err = ts.Purge(ctx, key)
	case "replan":
		err = replanNow(ctx, ts, t)
	}
	return target, err
}
