package timers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// calendarWait is how long PutCalendar, and Evaluate, wait for their job.
const calendarWait = 10 * time.Second

// PutCalendar creates or replaces a calendar, and begins a job that moves the timers that use it, and have no
// occurrence due or in progress, to their new due times. Both are one write. It returns when the job has
// ended, or after 10 s, or when ctx ends: then the job goes on. The job of an earlier change of the calendar
// that is not done yet begins again.
func (ts *Timers) PutCalendar(ctx context.Context, c rouse.Calendar) (saved rouse.Calendar, job rouse.Job, err error) {
	if err := ts.Engine.Ready(ctx); err != nil {
		return c, job, err
	}
	if c, err = c.Ordered(); err != nil {
		return c, job, err
	}
	if err := ts.access.Require(ctx, access.CalendarsWrite, c.Namespace, "", nil); err != nil {
		return c, job, err
	}
	c.Updated = ts.Engine.Latest()
	key := rouse.CalendarKey(c.Namespace, c.Name)
	row := c.Row(rouse.BucketOf(key, ts.opts.Engine.Buckets))
	if err := ts.roomForCalendar(ctx, key, &row); err != nil {
		return c, job, err
	}
	jobs := working{ts}
	j := jobs.newJob(ctx, rouse.JobCalendar, c.Namespace, calendarID+c.Name, row.Bucket)
	j.Job.Calendar = c.Name
	// Until other nodes have read the new days, they may advance timers by the old ones: those are moved,
	// too. A node caches a schedule as long as its calendar days, so twice the age is enough.
	begin := c.Updated
	if ts.opts.Engine.Shared {
		begin = begin.Add(2 * schedulecache.SharedAge)
	}
	t, err := j.attentionRow(begin)
	if err != nil {
		return c, job, err
	}
	out, err := ts.Engine.WriteOne(ctx, &engine.Write{Change: rouse.Change{Key: key, If: rouse.AnyRevision, To: &row,
		Also: []rouse.Row{t.Row()}}})
	if err != nil {
		return c, job, err
	}
	ts.schedules.Invalidate(key)
	c.Revision = out.Revision
	audit.Touched(ctx, c.Namespace, c.Name, replacedRevision(rouse.AnyRevision, out.Existed), c.Revision)
	job, err = jobs.awaitJob(ctx, &j)
	return c, job, err
}

// calendarID begins the ids of jobs of calendars. Each calendar has one, which its next change writes again.
const calendarID = "calendar-"

// calendarWork is the work of a calendar's job.
func (ts working) calendarWork(j *jobRow) *work {
	uses := func(_ context.Context, t *rouse.Timer) bool { return usesCalendar(t, j.Job.Calendar) }
	if j.Cursor == (rouse.Key{}) { // the job may begin before PutCalendar goes on
		ts.schedules.Invalidate(rouse.CalendarKey(j.Job.Namespace, j.Job.Calendar))
	}
	own := working{ts.withMatch(uses)}
	return &work{
		query: rouse.Query{Namespace: j.Job.Namespace},
		verbs: []access.Verb{access.TimersRead},
		verb:  access.CalendarsWrite,
		wants: uses,
		do: func(ctx context.Context, rows []rouse.Timer) []error {
			errs := make([]error, len(rows))
			inParallel(len(rows), func(i int) { errs[i] = own.replanTimer(ctx, rows[i].Key, 0) })
			return errs
		},
		part: 100,
	}
}

// usesCalendar reports whether the due times of a timer depend on a calendar.
func usesCalendar(t *rouse.Timer, calendar string) bool {
	return slices.Contains(t.Spec.Calendar.Off, calendar) || slices.Contains(t.Spec.Calendar.Only, calendar)
}

// eachWithCalendar calls do for every timer of a namespace that uses a calendar.
func (ts working) eachWithCalendar(ctx context.Context, namespace, calendar string, do func(*rouse.Timer) error) error {
	return ts.eachReadable(ctx, rouse.Query{Namespace: namespace}, func(t *rouse.Timer) error {
		if usesCalendar(t, calendar) {
			return do(t)
		}
		return nil
	})
}

// eachReadable calls do for every row that matches and that the caller may read, page by page. Rows that
// cannot be read are skipped.
func (ts *Timers) eachReadable(ctx context.Context, q rouse.Query, do func(*rouse.Timer) error) error {
	q.Limit = 500
	for {
		page, err := ts.pageRows(ctx, q, access.TimersRead)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			t, err := ts.Read(&page.Rows[i])
			if err != nil || !ts.mayList(ctx, &t, access.TimersRead) || !ts.matchesSought(ctx, &q, &t) {
				continue
			}
			if err := do(&t); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

// MaxNamespaceCalendars bounds the calendars of a namespace: lists return so many.
const MaxNamespaceCalendars = 1000

// roomForCalendar refuses a calendar that its namespace has no room for.
func (ts *Timers) roomForCalendar(ctx context.Context, key rouse.Key, row *rouse.Row) error {
	if err := ts.admission.requireNamespace(key.Namespace); err != nil {
		return err
	}
	old, err := ts.store.Get(ctx, []rouse.Key{key})
	if err != nil {
		return err
	}
	if old[0].Revision == 0 {
		n, err := ts.store.Count(ctx, rouse.CalendarQuery(key.Namespace, 0))
		if err != nil {
			return err
		}
		if n >= MaxNamespaceCalendars {
			return fmt.Errorf("the namespace %s has %d calendars, as many as it may: delete one: %w", key.Namespace, n,
				rouse.ErrFull)
		}
	}
	return ts.admission.admitGrowth(key.Namespace, &old[0], row)
}

// calendarKey refuses keys that cannot be of a calendar.
func calendarKey(namespace, name string) error {
	return cmp.Or(rouse.CheckNamespace(namespace), rouse.CheckCalendarName("name", name))
}

// Calendar returns a calendar with its days.
func (ts *Timers) Calendar(ctx context.Context, namespace, name string) (rouse.Calendar, error) {
	if err := calendarKey(namespace, name); err != nil {
		return rouse.Calendar{}, err
	}
	if err := ts.access.RequireIn(ctx, access.CalendarsRead, namespace); err != nil {
		return rouse.Calendar{}, err
	}
	rows, err := ts.store.Get(ctx, []rouse.Key{rouse.CalendarKey(namespace, name)})
	if err != nil {
		return rouse.Calendar{}, err
	}
	if rows[0].Revision == 0 {
		return rouse.Calendar{}, fmt.Errorf("calendar %q: %w", name, rouse.ErrNotFound)
	}
	return rouse.DecodeCalendar(&rows[0])
}

// Calendars returns the calendars of a namespace, with their days.
func (ts *Timers) Calendars(ctx context.Context, namespace string) ([]rouse.Calendar, error) {
	if err := rouse.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	if err := ts.access.RequireIn(ctx, access.CalendarsRead, namespace); err != nil {
		return nil, err
	}
	q := rouse.CalendarQuery(namespace, 100)
	var list []rouse.Calendar
	for len(list) < MaxNamespaceCalendars {
		page, err := ts.store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			c, err := rouse.DecodeCalendar(&page.Rows[i])
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	return list, nil
}

// DeleteCalendar deletes a calendar, and its job. One that a timer uses is rouse.ErrConflict.
func (ts *Timers) DeleteCalendar(ctx context.Context, namespace, name string) error {
	if err := calendarKey(namespace, name); err != nil {
		return err
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return err
	}
	if err := ts.access.Require(ctx, access.CalendarsWrite, namespace, "", nil); err != nil {
		return err
	}
	err := working{ts}.eachWithCalendar(access.AsSystem(ctx), namespace, name, func(t *rouse.Timer) error {
		return fmt.Errorf("the timer %q uses it: %w", t.Key.Name, rouse.ErrConflict)
	})
	if err != nil {
		return err
	}
	key := rouse.CalendarKey(namespace, name)
	out, err := ts.Engine.Write(ctx, []*engine.Write{{Change: rouse.Change{Key: key, If: rouse.AnyRevision}},
		{Change: rouse.Change{Key: rouse.JobKey(namespace, calendarID+name), If: rouse.AnyRevision}}})
	switch {
	case err != nil:
		return err
	case out[0].Err != nil:
		return out[0].Err
	case out[1].Err != nil:
		return out[1].Err
	case !out[0].Existed:
		return fmt.Errorf("calendar %q: %w", name, rouse.ErrNotFound)
	}
	ts.schedules.Invalidate(key)
	audit.Touched(ctx, namespace, name, rouse.AnyRevision, rouse.NoRow)
	return nil
}
