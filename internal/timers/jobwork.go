package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
)

// work is the rows that a job selects, and the change that it makes to them.
type work struct {
	query     rouse.Query
	verbs     []access.Verb                                      // that the caller needs for each row
	verb      access.Verb                                        // of its audit events
	wants     func(ctx context.Context, t *rouse.Timer) bool     // more than the query
	do        func(ctx context.Context, t []rouse.Timer) []error // errNoMatch: a row stays as it is
	part      int                                                // how many it does at a time
	limit     uint64                                             // of rows; 0: all
	perSecond float64                                            // 0: as fast as possible
	missing   bool                                               // rouse.ErrNotFound may be of something else than the row
	// do leaves the targets that rows were redriven to in them
	redrives bool
	sweeps   bool // do deletes timers, and not the rows next to them
	// gives a row the target that it would be redriven to; nil: it has that
	target func(ctx context.Context, t *rouse.Timer) error
}

const (
	// jobPage is how many rows a job reads at a time, at most.
	jobPage = 500
	// leastPage is how many it reads at a time at the lowest rate: of many rows few may match.
	leastPage = 50
	// jobTurn is for how long a job works before others have their turn.
	jobTurn = time.Second
	// jobRetry is when a job goes on if the store does not answer.
	jobRetry = time.Second
)

// workOf returns the work of a job, and the context of its caller.
func (ts working) workOf(ctx context.Context, j *jobRow) (*work, context.Context, error) {
	if j.Job.Kind == rouse.JobCalendar {
		// it moves the timers that use it, also those that the caller may not change
		return ts.calendarWork(j), access.AsSystem(ctx), nil
	}
	if j.Job.Kind == rouse.JobEvaluate {
		return ts.evaluateWork(j), access.AsSystem(ctx), nil
	}
	if j.Job.Kind != rouse.JobBulk || j.Bulk == nil {
		return nil, ctx, fmt.Errorf("kind %q of a job is not known: %w", j.Job.Kind, rouse.ErrConflict)
	}
	w, err := ts.bulkWork(j.Bulk)
	ctx = j.Caller.As(ctx)
	if j.Bulk.changesOnRepeat() && j.Job.ID != "" { // a page is done again after a crash
		ctx = access.RepeatableParts(ctx, "job "+j.Job.ID)
	}
	return w, ctx, err
}

// attendRows decides about rows that need attention other than a fire.
func (ts working) attendRows(ctx context.Context, rows []rouse.Row) ([]rouse.Step, error) {
	if !rouse.IsJob(rows[0].Key) {
		return expecting(ts).decideExpectations(ctx, rows)
	}
	steps := make([]rouse.Step, len(rows))
	for i := range rows {
		var err error
		if steps[i], err = ts.workOn(ctx, &rows[i]); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// workOn does the next part of a job.
func (ts working) workOn(ctx context.Context, row *rouse.Row) (rouse.Step, error) {
	t, err := ts.Read(row)
	if err != nil {
		return rouse.Step{}, err
	}
	j, err := readJob(&t)
	switch {
	case err != nil: // a later version wrote it, and goes on with it
		t.Visible = ts.Engine.Latest().Add(time.Minute)
		return rouse.Step{To: &t}, nil
	case j.Job.State != rouse.JobRunning: // it was kept for long enough
		return rouse.Step{}, nil
	case !zoning(ts).mayEvaluate(&j): // another node can, or this one when it has the rules
		t.Visible = ts.Engine.Latest().Add(zonesRetry)
		return rouse.Step{To: &t}, nil
	}
	was := j
	pause, err := ts.workPage(ctx, &was, &j)
	if ctx.Err() != nil {
		return rouse.Step{}, ctx.Err()
	}
	if errors.Is(err, errOtherwise) { // then its row has its end already, and gets the counts
		err = nil
	} else if err == nil && ts.hasRepairedClock(ctx, &j) {
		err = ts.Clock.lowerMark(ctx)
	}
	at := ts.nextTurn(&j, pause, err)
	return rouse.Step{Keep: true}, ts.saveJob(ctx, &was, &j, at)
}

// saveJob writes a job after a page of it, so that it needs attention at a time. If a client has cancelled it
// in the meantime, it stays cancelled, and has the counts. If it was begun again, or another node has done
// the page, it stays as it is.
func (ts working) saveJob(ctx context.Context, was, j *jobRow, at rouse.Instant) error {
	for range maxTries {
		t, err := j.attentionRow(at)
		if err != nil {
			return err
		}
		row := t.Row()
		out, err := ts.Engine.WriteOne(ctx, &engine.Write{Change: rouse.Change{Key: row.Key, If: j.revision, To: &row}})
		if err != nil || out.Applied {
			return err
		}
		now, err := ts.jobOf(ctx, j.Job.Namespace, j.Job.ID)
		switch {
		case errors.Is(err, rouse.ErrNotFound):
			return nil
		case err != nil:
			return err
		case now.generation != was.generation || now.Cursor != was.Cursor || now.Job.Matched != was.Job.Matched:
			return nil
		case now.Job.State != rouse.JobRunning:
			j.Job.State, j.Job.Ended, j.Err = now.Job.State, now.Job.Ended, now.Err
			at = now.Job.Ended.Add(rouse.JobAge)
		}
		j.revision = now.revision
	}
	return fmt.Errorf("the job %s changes all the time: %w", j.Job.ID, rouse.ErrConflict)
}

// nextTurn returns when a job needs attention again, after a page of it ended with an error.
func (ts working) nextTurn(j *jobRow, pause time.Duration, err error) rouse.Instant {
	now := ts.Engine.Latest()
	switch {
	case errors.Is(err, rouse.ErrUnavailable), errors.Is(err, rouse.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		j.Job.State = rouse.JobRunning // also if the page was the last one, and has no event
		return now.Add(jobRetry)
	case err != nil:
		j.endJob(rouse.JobFailed, err, now)
	case j.Job.State == rouse.JobRunning:
		j.Job.Updated = now
		return now.Add(pause)
	default:
		j.endJob(j.Job.State, nil, now)
	}
	return now.Add(rouse.JobAge)
}

// errOtherwise is of a job that has been cancelled, or begun again, while a page of it was being done.
var errOtherwise = errors.New("the job has changed")

// workPage does the next page of a job, or as much of it as fits into its turn, and notes in the job how far
// it came. It returns how long the job has to wait then. was is the job as it is stored.
func (ts working) workPage(ctx context.Context, was, j *jobRow) (pause time.Duration, err error) {
	w, ctx, err := ts.workOf(ctx, j)
	if err == nil {
		err = ts.sweepRows(ctx, j)
	}
	if err != nil {
		return 0, err
	}
	q := w.query
	from := j.Cursor
	q.After, q.Limit = from, jobPage
	portion := jobPage
	if w.perSecond != 0 { // of a tenth of a second, or of one row
		portion = min(jobPage, max(1, int(w.perSecond/10)))
		q.Limit = max(portion, leastPage)
	}
	page, err := ts.pageRows(ctx, q, w.verbs...)
	if err != nil {
		return 0, err
	}
	rows, next := ts.wantedRows(ctx, w, &page, j, portion)
	if j.generation != 0 && len(rows) > 0 {
		var event *audit.Call
		by := audit.Caller{ID: j.Caller.ID, Name: j.Caller.Name, Source: j.Caller.Source,
			Tenant: cmp.Or(j.Caller.Tenant(), j.Job.Namespace), Door: "job", Request: j.Job.ID}
		ctx, event, err = ts.opts.Audit.Begin(ctx, string(w.verb), "job "+string(j.Job.Kind), by, nil)
		if err != nil { // there is no change without its event
			return 0, rouse.Unavailable(err)
		}
		defer func() { err = endEvent(ctx, event, err) }()
	}
	if err := ts.reserveRows(ctx, w, was, j, rows); err != nil {
		return 0, err
	}
	defer func() {
		if !errors.Is(err, errOtherwise) {
			ts.countUnreadable(ctx, &page, j, from, next)
		}
	}()
	all := len(rows)
	for began := time.Now(); len(rows) > 0; {
		n := min(len(rows), w.part)
		if err := ts.workPart(ctx, was, j, w, rows[:n]); err != nil {
			return 0, err
		}
		if rows = rows[n:]; len(rows) > 0 && time.Since(began) > jobTurn {
			return w.pauseAfter(all - len(rows)), nil
		}
		if err := ts.stillRunning(ctx, j); len(rows) > 0 && err != nil {
			return 0, err
		}
	}
	w.advanceCursor(j, next)
	return w.pauseAfter(all), nil
}

// countUnreadable counts the rows of a page that cannot be read, as far as the job has come since from:
// whether they match is not known. Callers without rights in the whole namespace do not see their number.
func (ts working) countUnreadable(ctx context.Context, page *rouse.Page, j *jobRow, from rouse.Key, next *rouse.Key) {
	for i := range page.Rows {
		key := page.Rows[i].Key
		end := j.Job.State == rouse.JobDone && (next == nil || key.Compare(*next) <= 0)
		if key.Compare(from) <= 0 || key.Compare(j.Cursor) > 0 && !end {
			continue
		}
		if _, err := ts.Read(&page.Rows[i]); err != nil && ts.access.Allows(ctx, access.TimersRead, key.Namespace, "", nil) {
			j.countFailure(key, err)
		}
	}
}

// advanceCursor notes in a job that everything up to next is done, or everything if that is nil.
func (w *work) advanceCursor(j *jobRow, next *rouse.Key) {
	if next != nil && next.Compare(j.Until) < 0 { // some of the counted rows come after it
		j.Cursor = *next
		return
	}
	j.Until = rouse.Key{}
	if next == nil || w.limit != 0 && j.Job.Matched >= w.limit {
		j.Job.State = rouse.JobDone
		return
	}
	j.Cursor = *next
}

// endEvent ends the event of a page with its error. A page is no failure if its job was cancelled, or begun
// again, while it was being done.
func endEvent(ctx context.Context, event *audit.Call, err error) error {
	if errors.Is(err, errOtherwise) {
		return cmp.Or(event.End(ctx, nil, AuditCodes), err)
	}
	return event.End(ctx, err, AuditCodes)
}

// auditCodes are the codes of errors in the audit log, as the doors have them. Of two that match, the first
// counts.
var auditCodes = []struct {
	err  error
	code string
}{{rouse.ErrUnauthenticated, "unauthenticated"}, {rouse.ErrForbidden, "forbidden"}, {rouse.ErrCorrupt,
	"damaged"}, {rouse.ErrNotFound, "not_found"},
	{rouse.ErrExists, "already_exists"}, {rouse.ErrConflict, "conflict"}, {rouse.ErrFull, "full"}, {rouse.ErrQuota,
		"quota"}, {rouse.ErrOverloaded, "overloaded"},
	{rouse.ErrClosed, "closed"}, {rouse.ErrUnavailable, "unavailable"}, {context.Canceled,
		"canceled"}, {context.DeadlineExceeded, "deadline_exceeded"}}

// AuditCodes returns the outcome that the audit log has of a page of a job that failed, and why access
// control refused it.
func AuditCodes(err error) (code, reason string) {
	reason = access.ReasonOf(err)
	if errors.As(err, new(*rouse.Invalid)) {
		return "invalid", reason
	}
	for _, c := range auditCodes {
		if errors.Is(err, c.err) {
			return c.code, reason
		}
	}
	return "internal", reason
}

// pauseAfter returns how long n rows take at the rate of the work.
func (w *work) pauseAfter(n int) time.Duration {
	if w.perSecond == 0 {
		return 0
	}
	return time.Duration(float64(n) / w.perSecond * float64(time.Second))
}

// wantedRows returns the rows of a page that are to be changed, at most so many, and where the next page
// begins. Rows that cannot be read are none of them (countUnreadable).
func (ts working) wantedRows(ctx context.Context, w *work, page *rouse.Page, j *jobRow,
	most int) (list []rouse.Timer, next *rouse.Key) {
	counted := j.Until != rouse.Key{}
	for i := range page.Rows {
		switch {
		case counted && page.Rows[i].Key.Compare(j.Until) > 0:
			until := j.Until
			return list, &until
		case len(list) > 0 && (len(list) == most || !counted && w.limit != 0 && j.Job.Matched+uint64(len(list)) >= w.limit):
			last := list[len(list)-1].Key
			return list, &last
		}
		if t, err := ts.Read(&page.Rows[i]); err == nil && w.wants(ctx, &t) {
			list = append(list, t)
		}
	}
	return list, page.Next
}

// reserveRows counts rows before they are changed, if there is a limit: so that after a crash no more are
// changed.
func (ts working) reserveRows(ctx context.Context, w *work, was, j *jobRow, rows []rouse.Timer) error {
	if w.limit == 0 || len(rows) == 0 || j.Until != (rouse.Key{}) || j.generation == 0 {
		return nil
	}
	j.Job.Matched, j.Until = j.Job.Matched+uint64(len(rows)), rows[len(rows)-1].Key
	return ts.saveBefore(ctx, was, j)
}

// saveBefore writes a job before the timers of its next page are changed.
func (ts working) saveBefore(ctx context.Context, was, j *jobRow) error {
	if err := ts.saveJob(ctx, was, j, ts.Engine.Latest()); err != nil {
		return err
	}
	now, err := ts.jobOf(ctx, j.Job.Namespace, j.Job.ID)
	if err != nil {
		return err
	}
	// another node does it, or it has been cancelled
	if now.Until != j.Until || !slices.Equal(now.Sweep, j.Sweep) || now.Job.State != rouse.JobRunning {
		*was, *j = now, now
		return errOtherwise
	}
	*was, j.revision = now, now.revision
	return nil
}

// noteSweep notes timers that are about to be deleted, if there may be rows next to them: after a crash only
// the job knows of them.
func (ts working) noteSweep(ctx context.Context, was, j *jobRow, w *work, rows []rouse.Timer) error {
	if !w.sweeps {
		return nil
	}
	n, err := ts.store.Count(ctx, rouse.Query{Namespace: w.query.Namespace, States: []rouse.State{rouse.StateFiring}})
	if err != nil || n == 0 {
		return err
	}
	for i := range rows {
		j.Sweep = append(j.Sweep, rows[i].Key)
	}
	if j.generation == 0 {
		return nil
	}
	return ts.saveBefore(ctx, was, j)
}

// sweepRows deletes the rows next to the timers that a job has deleted.
func (ts working) sweepRows(ctx context.Context, j *jobRow) error {
	for len(j.Sweep) > 0 {
		if _, err := rowsNextTo(ts).deleteStale(ctx, j.Sweep[0], deleted, nil); err != nil {
			return err
		}
		j.Sweep = j.Sweep[1:]
	}
	j.Sweep = nil
	return nil
}

// workPart does rows, and counts them. If the store does not answer for one of them, the job goes on before
// it.
func (ts working) workPart(ctx context.Context, was, j *jobRow, w *work, rows []rouse.Timer) error {
	if err := ts.noteSweep(ctx, was, j, w, rows); err != nil {
		return err
	}
	errs := w.do(ctx, rows)
	for i, err := range errs {
		switch {
		case err == nil:
			if j.Job.Changed++; w.redrives {
				j.Job.CountTarget(rows[i].Spec.Target)
			}
		case errors.Is(err, errNoMatch), errors.Is(err, rouse.ErrNotFound) && !w.missing: // nothing is left to do
		case errors.Is(err, rouse.ErrUnavailable), errors.Is(err, rouse.ErrClosed), ctx.Err() != nil:
			return err
		default:
			audit.Failed(ctx, rows[i].Key.Namespace, audit.Joined(rows[i].Key.Name, rows[i].Key.Fire), err)
			j.countFailure(rows[i].Key, err)
		}
		if j.Until == (rouse.Key{}) {
			j.Job.Matched++
		}
		j.Cursor = rows[i].Key
	}
	return ts.sweepRows(ctx, j)
}

// stillRunning returns errOtherwise if a job was cancelled or begun again.
func (ts working) stillRunning(ctx context.Context, j *jobRow) error {
	if j.generation == 0 { // it has no row
		return nil
	}
	now, err := ts.jobOf(ctx, j.Job.Namespace, j.Job.ID)
	switch {
	case errors.Is(err, rouse.ErrNotFound), err == nil &&
		(now.Job.State != rouse.JobRunning || now.generation != j.generation):
		return errOtherwise
	}
	return err
}
