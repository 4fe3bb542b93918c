package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
)

// fake is an engine in memory. It implements the engine's rules for names, revisions and dead letters, but
// nothing ever fires. All schedules are due once a minute.
type fake struct {
	mu        sync.Mutex
	rows      map[rouse.Key]rouse.Timer
	revision  uint64 // of the last write
	history   []rouse.Record
	reports   []timers.Report
	noted     []rouse.CheckReport
	err       error         // of every call, if set
	panics    bool          // every call does
	hold      chan struct{} // if set, Put, and Bulk after each row, waits until it is closed
	entered   chan struct{} // if set, receives for every Put that begins and every row of a Bulk
	followers map[chan []rouse.Record]struct{}
	following chan struct{} // receives for every follower that begins
	days      map[rouse.Key]rouse.Calendar
	key       string     // Idempotency-Key of the last pause
	previewed rouse.Key  // of the last preview
	spec      rouse.Spec // of the last preview
	bulk      timers.BulkRequest
	charged   []string // the namespaces of reads that the server itself does
}

// epoch is the fake's clock.
var epoch = rouse.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

func newFake() *fake {
	return &fake{rows: map[rouse.Key]rouse.Timer{}, days: map[rouse.Key]rouse.Calendar{}, followers: map[chan []rouse.Record]struct{}{}, following: make(chan struct{}, 100)}
}

// writes returns how many changes were made.
// DecidesByCaller makes it one for doors; it allows everything.
func (f *fake) DecidesByCaller() {}

func (f *fake) writes() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

// set changes the fake between requests.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) lock() error {
	f.mu.Lock()
	if f.panics {
		f.mu.Unlock()
		panic("fake")
	}
	return f.err
}

func (f *fake) Put(_ context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	f.mu.Lock()
	hold, entered := f.hold, f.entered
	f.mu.Unlock()
	if entered != nil {
		entered <- struct{}{}
	}
	if hold != nil {
		<-hold
	}
	err := f.lock()
	defer f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]timers.PutResult, len(puts))
	for i := range puts {
		_, results[i].Replaced = f.rows[puts[i].Key]
		if results[i].Timer, results[i].Err = f.put(&puts[i]); puts[i].Validate && results[i].Err == nil {
			results[i].Next = []rouse.Instant{results[i].Timer.Due}
		}
	}
	return results, nil
}

func (f *fake) put(p *timers.Put) (rouse.Timer, error) {
	if err := cmp.Or(rouse.CheckNamespace(p.Key.Namespace), rouse.CheckName(p.Key.Name), rouse.CheckRevision(p.IfRevision), p.Spec.Check()); err != nil {
		return rouse.Timer{}, err
	}
	if !strings.HasPrefix(p.Spec.Target, "https:") && !strings.HasPrefix(p.Spec.Target, "stream:") {
		return rouse.Timer{}, rouse.Refuse("target", p.Spec.Target, "has no sink", "use https: or stream:")
	}
	if err := checkSchedule(&p.Spec); err != nil {
		return rouse.Timer{}, err
	}
	old, ok := f.rows[p.Key]
	switch {
	case p.IfRevision != 0 && !ok, p.Mode == timers.ReplaceOnly && !ok:
		return rouse.Timer{}, rouse.ErrNotFound
	case p.IfRevision != 0 && old.Revision != p.IfRevision:
		return rouse.Timer{}, rouse.ErrConflict
	case p.IfRevision == 0 && p.Mode == timers.CreateOnly && ok:
		return rouse.Timer{}, rouse.ErrExists
	}
	t := rouse.Timer{Key: p.Key, Spec: p.Spec, Created: epoch, Updated: epoch, Anchor: epoch, Due: epoch.Add(time.Hour), Visible: epoch.Add(time.Hour)}
	if p.Validate {
		return t, nil
	}
	return f.store(t, true), nil
}

func (f *fake) store(t rouse.Timer, generation bool) rouse.Timer {
	f.revision++
	t.Revision = f.revision
	if generation {
		t.Generation = f.revision
	}
	f.rows[t.Key] = t
	return t
}

func (f *fake) Get(_ context.Context, key rouse.Key) (rouse.Timer, error) {
	err := cmp.Or(f.lock(), key.Check())
	defer f.mu.Unlock()
	t, ok := f.rows[key]
	if err == nil && !ok {
		err = rouse.ErrNotFound
	}
	return t, err
}

func (f *fake) match(q *rouse.Query) []rouse.Timer {
	var out []rouse.Timer
	for _, k := range slices.SortedFunc(maps.Keys(f.rows), rouse.Key.Compare) {
		t := f.rows[k]
		ok := (q.Namespace == "" || k.Namespace == q.Namespace) && strings.HasPrefix(k.Name, q.Prefix) && (q.Name == "" || k.Name == q.Name) &&
			(q.DueFrom == 0 || t.Due >= q.DueFrom) && (q.DueUntil == 0 || t.Due < q.DueUntil) && q.After.Compare(k) < 0
		ok = ok && q.Wants(t.State())
		for name, v := range q.Labels {
			ok = ok && t.Spec.Labels[name] == v
		}
		if ok {
			out = append(out, t)
		}
	}
	return out
}

func (f *fake) Search(_ context.Context, q rouse.Query) (timers.Listed, error) {
	err := cmp.Or(f.lock(), q.Check())
	defer f.mu.Unlock()
	if err != nil {
		return timers.Listed{}, err
	}
	all := f.match(&q)
	if len(all) <= q.Limit {
		return timers.Listed{Timers: all}, nil
	}
	return timers.Listed{Timers: all[:q.Limit], Next: &timers.Place{Key: all[q.Limit-1].Key}}, nil
}

func (f *fake) Aggregate(ctx context.Context, q rouse.RecordQuery, _ string, _ time.Duration) (rouse.RecordGroups, error) {
	q.Limit = 2
	page, err := f.Records(ctx, q)
	return rouse.RecordGroups{Next: page.Next}, err
}

func (f *fake) Outcomes(_ context.Context, keys []rouse.Key, _ int) ([]rouse.Outcomes, error) {
	err := f.lock()
	defer f.mu.Unlock()
	return make([]rouse.Outcomes, len(keys)), err
}

func (f *fake) Count(_ context.Context, q rouse.Query) (int64, error) {
	err := cmp.Or(f.lock(), q.Check())
	defer f.mu.Unlock()
	return int64(len(f.match(&q))), err
}

func (f *fake) edit(key rouse.Key, change func(t *rouse.Timer) error) (rouse.Timer, error) {
	if err := key.Check(); err != nil {
		return rouse.Timer{}, err
	}
	err := f.lock()
	defer f.mu.Unlock()
	if err != nil {
		return rouse.Timer{}, err
	}
	t, ok := f.rows[key]
	if !ok {
		return rouse.Timer{}, rouse.ErrNotFound
	}
	if err := change(&t); err != nil {
		return rouse.Timer{}, err
	}
	return f.store(t, false), nil
}

func (f *fake) Delete(_ context.Context, key rouse.Key, ifRevision uint64) (timers.Deleted, error) {
	if err := rouse.CheckRevision(ifRevision); err != nil {
		return timers.Deleted{}, err
	}
	t, err := f.edit(key, func(t *rouse.Timer) error {
		if ifRevision != 0 && t.Revision != ifRevision {
			return rouse.ErrConflict
		}
		return nil
	})
	if err != nil {
		return timers.Deleted{}, err
	}
	f.set(func() { delete(f.rows, key) })
	return timers.Deleted{Generation: t.Generation, InFlight: t.Attempts > 0}, nil
}

func (f *fake) Pause(ctx context.Context, key rouse.Key, reason string, until rouse.Instant) (rouse.Timer, error) {
	if err := cmp.Or(rouse.CheckText("reason", reason, rouse.MaxDetail), rouse.CheckInstant("until", until)); err != nil {
		return rouse.Timer{}, err
	}
	f.key = access.RepeatKey(ctx)
	return f.edit(key, func(t *rouse.Timer) error { return t.Pause(reason, until, epoch) })
}

func (f *fake) Resume(_ context.Context, key rouse.Key) (rouse.Timer, error) {
	return f.edit(key, func(t *rouse.Timer) error { t.Resume(epoch, nil, false); return nil })
}

func (f *fake) RunNow(_ context.Context, key rouse.Key) (id string, due rouse.Instant, err error) {
	t, err := f.edit(key, func(t *rouse.Timer) (err error) { due, _, err = t.Run(epoch); return err })
	return rouse.FireID(key.Namespace, key.Name, t.Generation, due, true), due, err
}

func (f *fake) Report(_ context.Context, key rouse.Key, r timers.Report) (deadline rouse.Instant, err error) {
	if err := cmp.Or(key.Check(), r.Check()); err != nil {
		return 0, err
	}
	_, err = f.edit(rouse.Key{Namespace: key.Namespace, Name: key.Name}, func(t *rouse.Timer) error {
		if r.Token != t.Token {
			return rouse.ErrConflict
		}
		f.reports = append(f.reports, r)
		if r.Outcome.Verdict == 0 {
			deadline = epoch.Add(r.Outcome.After)
		}
		return nil
	})
	return deadline, err
}

func (f *fake) ReportCheck(_ context.Context, key rouse.Key, r rouse.CheckReport) (by rouse.Instant, err error) {
	if err := cmp.Or(key.Check(), r.Check()); err != nil {
		return 0, err
	}
	_, err = f.edit(key, func(t *rouse.Timer) error { f.noted = append(f.noted, r); return nil })
	return epoch.Add(time.Hour), err
}

func (f *fake) Redrive(_ context.Context, key rouse.Key, current bool) (target string, err error) {
	if err := rouse.CheckFireID(key.Fire); err != nil {
		return "", err
	}
	t, err := f.edit(key, func(t *rouse.Timer) error { *t = t.Redrive(epoch); return nil })
	if current {
		return "now:", err
	}
	return t.Spec.Target, err
}

func (f *fake) Purge(ctx context.Context, key rouse.Key) error {
	_, err := f.Delete(ctx, key, 0)
	return err
}

func checkSchedule(s *rouse.Spec) error {
	if s.Schedule == "" || s.Schedule == "bad" {
		return rouse.Refuse("schedule", s.Schedule, "is no schedule", "give one")
	}
	if s.Timezone == "Nowhere" {
		return rouse.Refuse("timezone", s.Timezone, "is unknown", "give an IANA name")
	}
	return nil
}

// zone is that of all schedules: always an hour ahead.
var zone = time.FixedZone("Fake/Zone", 3600)

// upcoming returns due times: one a minute, each sent a second later.
func upcoming(from rouse.Instant, count int) []rouse.Coming {
	next := []rouse.Coming{}
	for i := range count {
		due := max(from, epoch).Add(time.Duration(i+1) * time.Minute)
		next = append(next, rouse.Coming{Due: due, At: due.Add(time.Second)})
	}
	if count > 0 {
		next[0].Mark = "odd"
	}
	return next
}

func (f *fake) Preview(_ context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count int) (rouse.Preview, error) {
	if count > timers.MaxPreview {
		return rouse.Preview{}, rouse.Refuse("count", "", "is out of bounds", "use fewer")
	}
	if key.Name != "" {
		if err := key.Check(); err != nil {
			return rouse.Preview{}, err
		}
	}
	if err := cmp.Or(rouse.CheckNamespace(key.Namespace), rouse.CheckInstant("from", from), checkSchedule(&spec)); err != nil {
		return rouse.Preview{}, err
	}
	f.set(func() { f.previewed, f.spec = key, spec })
	return rouse.Preview{Words: "every minute", Location: zone, Next: upcoming(from, count)}, nil
}

func (f *fake) DoOnce(ctx context.Context, _ string, _ []any, do func(context.Context) error) error {
	return do(ctx)
}

func (f *fake) Coalesce(_ context.Context, key rouse.Key, spec rouse.Spec, c rouse.Coalesce) (timers.PutResult, error) {
	err := f.lock()
	defer f.mu.Unlock()
	if err := cmp.Or(err, rouse.CheckName(key.Name), c.Check()); err != nil {
		return timers.PutResult{}, err
	}
	if spec.Schedule != "" || len(spec.Also) > 0 {
		return timers.PutResult{}, rouse.Refuse("schedule", "", "does not go with debounce or throttle", "leave it out")
	}
	var old *rouse.Timer
	t, ok := f.rows[key]
	if ok {
		old = &t
	}
	return timers.PutResult{Timer: f.store(c.Merge(key, spec, old, false, epoch), true), Replaced: ok}, nil
}

func (f *fake) Import(_ context.Context, rows []rouse.Timer, mode timers.Mode) ([]timers.PutResult, error) {
	err := f.lock()
	defer f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]timers.PutResult, len(rows))
	for i, t := range rows {
		settled := t
		if results[i].Err = cmp.Or(t.Key.Check(), settled.Normalize(epoch)); results[i].Err != nil {
			continue
		}
		if _, ok := f.rows[t.Key]; ok && mode == timers.CreateOnly {
			results[i].Err = rouse.ErrExists
			continue
		}
		results[i].Timer = f.store(t, t.Generation == 0)
	}
	return results, nil
}

func (f *fake) Skip(_ context.Context, key rouse.Key, count uint32, reason string) (rouse.Timer, error) {
	if err := rouse.CheckText("reason", reason, rouse.MaxDetail); err != nil {
		return rouse.Timer{}, err
	}
	return f.edit(key, func(t *rouse.Timer) error {
		t.Skips += count
		t.LastError = reason // the fake has no records
		return nil
	})
}

func (f *fake) Patch(_ context.Context, key rouse.Key, r timers.PatchRequest) (timers.PutResult, error) {
	if r.Validate {
		t, err := f.Get(context.Background(), key)
		return timers.PutResult{Timer: t, Replaced: true, Next: []rouse.Instant{epoch}}, err
	}
	if err := rouse.CheckRevision(r.IfRevision); err != nil {
		return timers.PutResult{}, err
	}
	t, err := f.edit(key, func(t *rouse.Timer) error {
		if r.IfRevision != 0 && t.Revision != r.IfRevision {
			return rouse.ErrConflict
		}
		spec, err := r.Change(t.Spec)
		if err == nil {
			err = checkSchedule(&spec)
		}
		t.Spec = spec
		return err
	})
	return timers.PutResult{Timer: t, Replaced: true}, err
}

func (f *fake) Reschedule(_ context.Context, key rouse.Key, when rouse.Spec, ifRevision uint64, validate bool) (timers.PutResult, error) {
	if validate {
		t, err := f.Get(context.Background(), key)
		return timers.PutResult{Timer: t, Replaced: true, Next: []rouse.Instant{epoch}}, err
	}
	if err := cmp.Or(rouse.CheckRevision(ifRevision), checkSchedule(&when)); err != nil {
		return timers.PutResult{}, err
	}
	t, err := f.edit(key, func(t *rouse.Timer) error {
		if ifRevision != 0 && t.Revision != ifRevision {
			return rouse.ErrConflict
		}
		when.Target, when.Payload = t.Spec.Target, t.Spec.Payload
		t.Spec = when
		return nil
	})
	return timers.PutResult{Timer: t, Replaced: true, InFlight: t.Attempts > 0}, err
}

func (f *fake) Backfill(_ context.Context, key rouse.Key, r timers.BackfillRequest) (timers.Backfilled, error) {
	if err := rouse.CheckRange(r.From, r.Until); err != nil {
		return timers.Backfilled{}, err
	}
	first := upcoming(r.From, 2)
	out := timers.Backfilled{Count: 300, Waiting: 1, First: first, Zone: zone}
	if r.PerSecond == 0.5 {
		out.Waiting = 2
	}
	change := func(t *rouse.Timer) error {
		for _, c := range first {
			out.FireIDs = append(out.FireIDs, nextFireID(t, c.Due))
		}
		return nil
	}
	if r.DryRun {
		t, err := f.Get(context.Background(), key)
		return out, cmp.Or(err, change(&t))
	}
	_, err := f.edit(key, change)
	return out, err
}

func (f *fake) Badge(ctx context.Context, key rouse.Key) (timers.BadgeState, error) {
	_, err := f.Get(ctx, key)
	return timers.BadgeOK, err
}

func (f *fake) Explain(_ context.Context, key rouse.Key, at rouse.Instant) (timers.Explanation, error) {
	err := cmp.Or(f.lock(), key.Check(), rouse.CheckInstant("at", at))
	defer f.mu.Unlock()
	t, ok := f.rows[key]
	if err != nil {
		return timers.Explanation{}, err
	}
	if !ok && len(f.history) == 0 {
		return timers.Explanation{}, rouse.ErrNotFound
	}
	if !ok {
		return timers.Explanation{Summary: "it was deleted", Records: f.history}, nil
	}
	return timers.Explanation{Summary: "it waits", Reasons: []timers.Reason{{Code: "scheduled", Text: "it is due later", At: at, Since: at - 1, Until: at + 1, Cure: "wait"}}, Timer: &t, Words: "every minute",
		Zone: zone, Records: f.history, Next: upcoming(epoch, 2)}, nil
}

func (f *fake) Simulate(_ context.Context, q rouse.Query, from, until rouse.Instant, limit int) (timers.Simulated, error) {
	err := f.lock()
	defer f.mu.Unlock()
	if from == 0 {
		from = epoch
	}
	if err := cmp.Or(err, q.Check(), rouse.CheckRange(from, until)); err != nil {
		return timers.Simulated{}, err
	}
	if limit > timers.MaxSimulated {
		return timers.Simulated{}, rouse.Refuse("limit", "", "is out of bounds", "use less")
	}
	out := timers.Simulated{}
	for _, t := range f.match(&q) {
		out.Timers++
		for _, c := range upcoming(from, limit) {
			if c.Due < until {
				out.Fires = append(out.Fires, timers.SimulatedFire{Coming: c, Key: t.Key, FireID: nextFireID(&t, c.Due), Zone: zone})
			}
		}
	}
	if len(out.Fires) > limit {
		out.Fires, out.More = out.Fires[:limit], true
	}
	return out, err
}

// Forecast counts one timer for each part.
func (f *fake) Forecast(_ context.Context, q rouse.Query, from, until rouse.Instant, step time.Duration, by string, place *rouse.ForecastPlace) (rouse.Forecast, error) {
	err := f.lock()
	defer f.mu.Unlock()
	from = cmp.Or(from, epoch)
	if err := cmp.Or(err, q.Check()); err != nil {
		return rouse.Forecast{}, err
	}
	if _, err := rouse.CheckForecast(from, until, step, by); err != nil {
		return rouse.Forecast{}, err
	}
	list := f.match(&q)
	n := slices.IndexFunc(list, func(t rouse.Timer) bool { return place == nil || place.Key.Compare(t.Key) < 0 })
	if n < 0 {
		return rouse.Forecast{From: from}, nil
	}
	out := rouse.Forecast{From: from, Loads: []rouse.Load{{From: from, Key: by, Count: int64(step / time.Second)}}, Timers: 1}
	if n < len(list)-1 {
		out.Of, out.Next = int64(len(list)), &rouse.ForecastPlace{Now: epoch, Key: list[n].Key}
	}
	return out, nil
}

// Bulk reports each row by itself. Rows whose name begins with "stuck" cannot be changed.
func (f *fake) Bulk(ctx context.Context, r timers.BulkRequest, progress func(timers.BulkProgress) error) error {
	if err := f.lock(); err != nil {
		f.mu.Unlock()
		return err
	}
	q := r.Query
	err := cmp.Or(q.Check(), rouse.CheckText("reason", r.Reason, rouse.MaxDetail), rouse.CheckInstant("until", r.Until), rouse.CheckText("error_contains", r.ErrorContains, rouse.MaxDetail))
	if r.Reason != "" && r.Action != "pause" {
		err = rouse.Refuse("reason", r.Reason, "does not go with "+r.Action, "leave it out")
	}
	if err != nil {
		f.mu.Unlock()
		return err
	}
	switch r.Action {
	case "redrive", "purge":
		q.States = []rouse.State{rouse.StateDead}
	case "delete", "pause", "reschedule":
	default:
		f.mu.Unlock()
		return rouse.Refuse("action", r.Action, "is no action", "give another")
	}
	rows, hold, entered := f.match(&q), f.hold, f.entered
	f.bulk = r
	f.mu.Unlock()
	var p timers.BulkProgress
	for _, t := range rows {
		if !strings.Contains(t.LastError, r.ErrorContains) || r.Limit != 0 && p.Matched == r.Limit {
			continue
		}
		p.Matched++
		p.Failures, p.Names = nil, nil
		switch {
		case r.DryRun:
			p.Names = []string{t.Key.Name}
		case strings.HasPrefix(t.Key.Name, "stuck"):
			p.Failed++
			p.Failures = []timers.BulkFailure{{Key: t.Key, Err: rouse.Refuse("name", t.Key.Name, "is stuck", "pull")}}
		default:
			p.Changed++
			f.set(func() { f.revision++ })
		}
		if err := progress(p); err != nil {
			return err
		}
		if hold != nil {
			entered <- struct{}{}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-hold:
			}
		}
	}
	p.Failures, p.Names, p.Done = nil, nil, true
	return progress(p)
}

func (f *fake) PutCalendar(_ context.Context, c rouse.Calendar) (rouse.Calendar, rouse.Job, error) {
	err := f.lock()
	defer f.mu.Unlock()
	c, ordered := c.Ordered()
	if err := cmp.Or(err, ordered); err != nil {
		return rouse.Calendar{}, rouse.Job{}, err
	}
	f.revision++
	c.Revision, c.Updated = f.revision, epoch
	f.days[rouse.CalendarKey(c.Namespace, c.Name)] = c
	j := rouse.Job{ID: "calendar-" + c.Name, State: rouse.JobDone, Changed: 3}
	switch c.Name {
	case "long":
		j.State = rouse.JobRunning
	case "stuck":
		j.Failed = 1
	}
	return c, j, nil
}

// Job returns a job that ended, of each kind; others do not exist.
func (f *fake) Job(_ context.Context, namespace, id string) (rouse.Job, error) {
	err := f.lock()
	defer f.mu.Unlock()
	j := rouse.Job{Namespace: namespace, ID: id, Created: epoch, Updated: epoch, Ended: epoch}
	switch id {
	case "bulk-1":
		j.Kind, j.Action, j.State, j.Query = rouse.JobBulk, "delete", rouse.JobCancelled, rouse.Query{Namespace: namespace, Prefix: "a"}
		j.Matched, j.Changed, j.Failed, j.By = 3, 2, 1, "key:a"
		j.Failures = []rouse.JobFailure{{Key: rouse.Key{Namespace: namespace, Name: "stuck"}, Err: rouse.Refuse("name", "stuck", "is stuck", "pull")}}
	case "calendar-days":
		j.Kind, j.Calendar, j.State, j.Err = rouse.JobCalendar, "days", rouse.JobFailed, rouse.ErrForbidden
	default:
		err = cmp.Or(err, rouse.ErrNotFound)
	}
	return j, err
}

func (f *fake) Jobs(ctx context.Context, namespace string) (list []rouse.Job, err error) {
	for _, id := range []string{"calendar-days", "bulk-1"} {
		j, err := f.Job(ctx, namespace, id)
		if err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	return list, nil
}

func (f *fake) CancelJob(ctx context.Context, namespace, id string) (rouse.Job, error) {
	return f.Job(ctx, namespace, id)
}

func (f *fake) Calendar(_ context.Context, namespace, name string) (rouse.Calendar, error) {
	err := cmp.Or(f.lock(), rouse.CheckNamespace(namespace), rouse.CheckCalendarName("name", name))
	defer f.mu.Unlock()
	c, ok := f.days[rouse.CalendarKey(namespace, name)]
	if err == nil && !ok {
		err = rouse.ErrNotFound
	}
	return c, err
}

func (f *fake) Calendars(_ context.Context, namespace string) (list []rouse.Calendar, err error) {
	err = cmp.Or(f.lock(), rouse.CheckNamespace(namespace))
	defer f.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(f.days), rouse.Key.Compare) {
		if k.Namespace == namespace {
			list = append(list, f.days[k])
		}
	}
	return list, err
}

// DeleteCalendar refuses to delete the calendar "used".
func (f *fake) DeleteCalendar(_ context.Context, namespace, name string) error {
	err := cmp.Or(f.lock(), rouse.CheckNamespace(namespace), rouse.CheckCalendarName("name", name))
	defer f.mu.Unlock()
	key := rouse.CalendarKey(namespace, name)
	switch _, ok := f.days[key]; {
	case err != nil:
		return err
	case !ok:
		return rouse.ErrNotFound
	case name == "used":
		return rouse.ErrConflict
	}
	f.revision++
	delete(f.days, key)
	return nil
}

func (f *fake) Now() rouse.Instant { return epoch }

func (f *fake) Records(_ context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	err := cmp.Or(f.lock(), q.Check())
	defer f.mu.Unlock()
	var page rouse.RecordPage
	for i := len(f.history) - 1; i >= 0; i-- {
		r := f.history[i]
		if q.Until.Seq != 0 && uint64(i) >= q.Until.Seq || r.Namespace != q.Namespace || q.Name != "" && r.Name != q.Name {
			continue
		}
		if len(page.Records) == q.Limit {
			page.Next = &rouse.RecordCursor{Ended: r.Ended, Seq: uint64(i) + 1}
			break
		}
		page.Records = append(page.Records, r)
	}
	return page, err
}

func (f *fake) Readable(context.Context, string, string) error { return nil }

func (f *fake) ChargeRead(_ context.Context, namespace string) error {
	f.set(func() { f.charged = append(f.charged, namespace) })
	return nil
}

func (f *fake) Follow(ctx context.Context, wanted func(*rouse.Record) bool, begin func() error,
	fn func([]rouse.Record, uint64) error) error {
	ch := make(chan []rouse.Record, 16)
	f.set(func() { f.followers[ch] = struct{}{} })
	defer f.set(func() { delete(f.followers, ch) })
	if err := begin(); err != nil {
		return err
	}
	f.following <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case records := <-ch:
			dropped := uint64(len(records) / 3)
			mine := slices.DeleteFunc(slices.Clone(records), func(r rouse.Record) bool { return !wanted(&r) })
			if len(mine) == 0 && dropped == 0 {
				continue
			}
			if err := fn(mine, dropped); err != nil {
				return err
			}
		}
	}
}

// publish sends records to the followers, and reports one missed record for every three.
func (f *fake) publish(records ...rouse.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.followers {
		ch <- records
	}
}

// dead adds a dead letter and returns its fire id.
func (f *fake) dead(namespace, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := rouse.Timer{Key: rouse.Key{Namespace: namespace, Name: name}, Generation: 7, Due: epoch, Visible: rouse.Never, Attempts: 8, LastError: "503",
		Spec: rouse.Spec{Schedule: "@every 5m", Target: "https://example.com/"}}
	t.Key.Fire = rouse.FireID(namespace, name, 7, epoch, false)
	f.store(t, false)
	return t.Key.Fire
}
