package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
)

// Mode defines how Put treats an existing name.
type Mode uint8

const (
	CreateOnly      Mode = iota // rouse.ErrExists
	CreateOrReplace             // the timer gets the new spec, as rouse.Timer.Rewrite has it
	ReplaceOnly                 // as CreateOrReplace, but rouse.ErrNotFound for a name that is not taken
)

// Put is a timer to write. Its key has no Fire; its spec is checked by Put.
type Put struct {
	Key        rouse.Key
	Spec       rouse.Spec
	Mode       Mode
	IfRevision uint64 // not 0: only if the timer has this revision, else rouse.ErrConflict
	Restart    bool   // an existing timer starts over, even if its due times are the same
	asks       string // the content of the put, to distinguish it from others with the same Idempotency-Key
	clashes    bool   // an earlier put of a call with such a key has its name, and differs
	whole      uint64 // hash of all puts of the call, with such a key; 0: it leaves no note
	tries      int    // how often the timer came or went while it was written
	Validate   bool   // it is only checked, and nothing is written; of all puts of a call or none
	Given      bool   // the caller does not change the data of Spec and the result any more: the engine may keep it
}

// PutResult is the result of one Put.
type PutResult struct {
	Timer     rouse.Timer
	Replaced  bool     // there was a timer of that name before
	Unchanged bool     // nothing of it differed, and nothing was written
	Notes     []string // the losses of the timer, for people
	// an attempt with the spec before had started and may still arrive; none starts after the answer
	InFlight bool
	Next     []rouse.Instant // of a put that was validated alone: the next times
	Err      error           // *rouse.Invalid, rouse.ErrExists, rouse.ErrNotFound, rouse.ErrConflict, rouse.ErrFull
}

// Put writes timers, each with an outcome of its own: new ones in one durable step, and then those that exist
// one by one, those of one name in their order. When it returns without error, those without an error of
// their own are durable. After an error of Put itself, the outcome of all is unknown.
func (ts *Timers) Put(ctx context.Context, puts []Put) (results []PutResult, err error) {
	var span *rouse.TraceContext
	only := len(puts) > 0 && puts[0].Validate
	if only {
		audit.Checks(ctx)
	}
	if begin := ts.opts.Engine.Created; begin != nil && len(puts) > 0 && !only {
		var end func(error)
		span, end = begin(ctx, puts[0].Key, len(puts))
		defer func() { end(cmp.Or(err, errorOf(results))) }()
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return nil, err
	}
	if !only {
		hashPuts(ctx, puts)
	}
	results = make([]PutResult, len(puts))
	defer notePuts(ctx, puts, results)
	existing, err := existingRows(ctx, ts.store, puts)
	if err != nil {
		return nil, err
	}
	backing := ts.writings.Take(len(puts))
	items := make([]*engine.Write, 0, len(puts))
	at := make([]int, 0, len(puts))
	var rewrites []int
	now := ts.Engine.Latest() // a delay counted from an earlier moment would end early
	for i := range puts {
		if puts[i].clashes {
			results[i] = PutResult{Err: refuseClash(&puts[i])}
			continue
		}
		var row *rouse.Row
		if existing != nil && existing[i].Revision != 0 {
			row = &existing[i]
			if _, err := ts.Read(row); err == nil {
				rewrites = append(rewrites, i)
				continue
			}
		}
		if err := ts.preparePut(ctx, &puts[i], row, &results[i].Timer, &backing[i], now, span); err != nil {
			results[i] = PutResult{Err: err}
			continue
		}
		items, at = append(items, &backing[i].Write), append(at, i)
	}
	if only {
		for _, i := range rewrites {
			results[i] = validateReplace(ctx, ts, &puts[i], &existing[i], len(puts) == 1)
		}
		return results, validatePuts(ctx, ts, puts, items, at, results)
	}
	if len(items) > 0 {
		if err := ts.writePuts(ctx, puts, items, at, nil, results); err != nil {
			return nil, err
		}
	}
	idle := true // if the store did not answer, it may still be reading a row
	for _, i := range at {
		err := results[i].Err
		if errors.Is(err, rouse.ErrConflict) && !errors.Is(err, errGoneSince) && puts[i].Mode == CreateOrReplace {
			rewrites = append(rewrites, i) // it was created in the meantime
		} else if err != nil {
			idle = false
		}
	}
	if idle {
		ts.writings.Give(backing)
	}
	slices.Sort(rewrites)
	var keys []rouse.Key
	ofKey := map[rouse.Key][]int{} // in their order
	for _, i := range rewrites {
		if k := puts[i].Key; ofKey[k] == nil {
			keys = append(keys, k)
		}
		ofKey[puts[i].Key] = append(ofKey[puts[i].Key], i)
	}
	inParallel(len(keys), func(j int) {
		for _, i := range ofKey[keys[j]] {
			results[i] = newReplacement(ctx, ts, &puts[i], span).replaceTimer(ctx, &puts[i])
		}
	})
	for _, i := range rewrites {
		p, err := &puts[i], results[i].Err
		switch {
		case errors.Is(err, rouse.ErrUnavailable), ctx.Err() != nil: // as for creates: to be tried again
			return nil, cmp.Or(err, ctx.Err())
		case errors.Is(err, rouse.ErrNotFound) && p.Mode == CreateOrReplace && p.IfRevision == 0 && p.tries < maxTries: // it was deleted in the meantime
			again := *p
			again.tries++
			res, err := ts.Put(ctx, []Put{again})
			if err != nil {
				return nil, err
			}
			results[i] = res[0]
		}
	}
	return results, nil
}

// existingRows returns the rows that puts may replace, by their places; nil if they only create.
func existingRows(ctx context.Context, store rouse.Store, puts []Put) ([]rouse.Row, error) {
	var keys []rouse.Key
	var at []int
	for i := range puts {
		p := &puts[i]
		if (p.Mode != CreateOnly || p.IfRevision != 0) && p.Key.Check() == nil {
			keys, at = append(keys, p.Key), append(at, i)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]rouse.Row, len(puts))
	for k := range rows {
		out[at[k]] = rows[k]
	}
	return out, nil
}

// notePuts notes for the audit log which puts failed.
func notePuts(ctx context.Context, puts []Put, results []PutResult) {
	for i := range results {
		if err := results[i].Err; err != nil {
			audit.Failed(ctx, puts[i].Key.Namespace, puts[i].Key.Name, err)
		}
	}
}

// errorOf returns the first error of puts.
func errorOf(results []PutResult) error {
	for i := range results {
		if results[i].Err != nil {
			return results[i].Err
		}
	}
	return nil
}

// writing is a write of Put, and its row.
type writing struct {
	engine.Write
	row rouse.Row
}

// writePuts makes the changes of puts in one durable step, and fills in the result of each: items[j] writes
// results[at[j]].Timer, as puts[at[j]] asks. Rows next to a timer that is replaced end with it, except for
// the rows in here, which came with the new timer.
func (ts *Timers) writePuts(ctx context.Context, puts []Put, items []*engine.Write, at []int, here map[rouse.Key]bool,
	results []PutResult) error {
	for j, i := range at {
		if j == 0 || puts[i].Key.Namespace != puts[at[j-1]].Key.Namespace {
			ts.Engine.WarnUnclaimed(puts[i].Key.Namespace)
		}
	}
	items, at, note, err := takeOutRepeated(ctx, ts, puts, items, at, results)
	if err != nil || len(items) == 0 {
		return err
	}
	if items, at, err = ts.admission.admitPuts(ctx, puts, items, at, results); err != nil || len(items) == 0 {
		return err
	}
	if note != nil {
		items = append(items, note)
	}
	out, err := ts.Engine.Write(ctx, items)
	if err != nil {
		return err
	}
	created := 0
	defer func() { reportCreated(ts.opts.Engine.Events.Created, created) }()
	for j, i := range at {
		r, p, res := out[j], &puts[i], &results[i]
		switch {
		case r.Err != nil:
			*res = PutResult{Err: r.Err}
		case !r.Applied:
			*res = notApplied(ctx, ts, p, r, len(puts) == 1)
		case res.Unchanged:
		default:
			created++
			engine.Stamp(&res.Timer, r.Revision)
			auditRowChange(ctx, p.Key, replacedRevision(items[j].Change.If, r.Existed), r.Revision)
			res.Replaced, res.InFlight = r.Existed, items[j].InFlight
			if r.Existed && p.Key.Fire == "" {
				detached, err := rowsNextTo{ts}.deleteStale(ctx, p.Key, cut{rouse.CauseReplaced, "replaced"}, here)
				if err != nil {
					return err
				}
				res.InFlight = res.InFlight || detached.InFlight
			}
		}
	}
	return nil
}

// replacedRevision returns the revision that a write replaced, as far as it is known.
func replacedRevision(condition uint64, existed bool) uint64 {
	if !existed {
		return rouse.NoRow
	}
	return condition
}

// reportCreated reports timers that were written.
func reportCreated(report func(n int), n int) {
	if report != nil && n > 0 {
		report(n)
	}
}

// putRefusal returns the error of a put that was not applied.
func putRefusal(p *Put, r engine.Written) error {
	switch {
	case !r.Existed:
		return notFoundError(p.Key)
	case p.Mode == CreateOnly && p.IfRevision == 0:
		return fmt.Errorf("timer %q: %w", p.Key.Name, rouse.ErrExists)
	}
	return conflictError(p.Key, r.Revision)
}

// notApplied is the result of a put that was not applied: that of the same request, if that was at the same
// time. That of a put that is alone contains the state of the timer that has its name.
func notApplied(ctx context.Context, ts *Timers, p *Put, r engine.Written, alone bool) PutResult {
	err := putRefusal(p, r)
	if !errors.Is(err, rouse.ErrExists) {
		return PutResult{Err: err}
	}
	if o := p.repeatablePut(ctx); o != nil {
		if was, err := o.findMark(ctx, ts, p.Key); err != nil || was != nil {
			return readRepeated(ctx, ts, p.Key, err)
		}
	}
	if alone {
		err = fmt.Errorf("timer %q%s: %w", p.Key.Name, describeTaker(ctx, ts, p.Key), rouse.ErrExists)
	}
	return PutResult{Err: err}
}

// describeTaker returns the state of the timer that has a name, if the caller may read it.
func describeTaker(ctx context.Context, ts *Timers, key rouse.Key) string {
	t, err := ts.Get(ctx, key)
	switch {
	case err != nil:
		return ""
	case t.Over():
		return fmt.Sprintf(" (ended, kept until %v)", t.Visible)
	}
	return fmt.Sprintf(" (%v)", t.State())
}

// conflictError returns the error for a row with another revision than the caller expects.
func conflictError(key rouse.Key, is uint64) error {
	return fmt.Errorf("timer %q: the revision is %d: %w", key.Name, is, rouse.ErrConflict)
}

// checkEvery refuses a spec that comes due too often for its target, or that costs more than its namespace
// may.
func (ts *Timers) checkEvery(namespace string, spec *rouse.Spec, from rouse.Instant, s rouse.Schedule) error {
	any := slices.ContainsFunc(ts.opts.AnyInterval,
		func(target string) bool { return strings.HasPrefix(spec.Target, target) })
	return ts.admission.checkRecurrence(namespace, spec, from, s, any)
}

// preparePut checks a put and makes its change. old is a row that it replaces even if it cannot be read, nil
// for none.
func (ts *Timers) preparePut(ctx context.Context, p *Put, old *rouse.Row, t *rouse.Timer, w *writing, now rouse.Instant,
	span *rouse.TraceContext) error {
	s, err := ts.compilePut(ctx, p, now)
	if err != nil {
		return err
	}
	if *t, err = rouse.NewTimer(p.Key, p.Spec, ts.Engine.Now(), now, s); err != nil {
		return err
	}
	if err := ts.placeTimer(t); err != nil {
		return err
	}
	t.Trace = span
	w.row = t.Row()
	w.Change = rouse.Change{Key: p.Key, To: &w.row}
	if x, ok := (expecting{ts}).expectationRow(t, s); ok {
		w.Change.Also = []rouse.Row{x.Row()}
	}
	if p.Given {
		w.Timer = t
	}
	switch {
	case old != nil: // it cannot be read, or nothing is written
		if err := ts.mayReplace(ctx, access.TimersCreate, old); err != nil {
			return err
		}
		w.Change.If = old.Revision
		if p.IfRevision != 0 {
			w.Change.If = p.IfRevision
		}
	case p.IfRevision != 0 || p.Mode == ReplaceOnly:
		return notFoundError(p.Key)
	default:
		w.Change.If = rouse.NoRow
	}
	return nil
}

// compilePut checks a put, and returns the schedule of its spec, anchored at now.
func (ts *Timers) compilePut(ctx context.Context, p *Put, now rouse.Instant) (rouse.Schedule, error) {
	if err := ts.checkPut(ctx, p); err != nil {
		return nil, err
	}
	s, err := ts.schedules.Parse(&p.Spec, rouse.ScheduleInput{Key: p.Key, Anchor: now})
	if err == nil {
		err = ts.checkEvery(p.Key.Namespace, &p.Spec, now, s)
	}
	return s, err
}

// checkPut refuses a timer that is wrong, that the caller may not create, or that needs something that its
// namespace lacks.
func (ts *Timers) checkPut(ctx context.Context, p *Put) error {
	if err := ts.checkPutFields(p); err != nil {
		return err
	}
	if err := ts.access.Require(ctx, access.TimersCreate, p.Key.Namespace, p.Spec.Target, p.Spec.Labels); err != nil {
		return err
	}
	return ts.checkInNamespace(ctx, p.Key, &p.Spec)
}

// checkInNamespace refuses a spec by the settings of its namespace, such as a secret that it lacks. It comes
// after access control: who may not write there learns nothing about them. Drafts, which any node reads again
// and again, are checked without secrets, for which their fires
// wait, and for their limit when they become timers.
func (ts *Timers) checkInNamespace(ctx context.Context, key rouse.Key, s *rouse.Spec) error {
	namespace := key.Namespace
	err := cmp.Or(ts.admission.checkTimeout(namespace, s), ts.checkNoticeTargets(ctx, namespace, s),
		ts.checkRunTargets(ctx, key, s))
	if err != nil || ts.opts.Check == nil {
		return err
	}
	return ts.opts.Check(ctx, namespace, s)
}

func (ts *Timers) checkPutFields(p *Put) error {
	if err := rouse.CheckNamespace(p.Key.Namespace); err != nil {
		return err
	}
	if err := rouse.CheckName(p.Key.Name); err != nil {
		return err
	}
	if err := rouse.CheckRevision(p.IfRevision); err != nil {
		return err
	}
	return ts.checkSpec(&p.Spec)
}

func (ts *Timers) checkSpec(s *rouse.Spec) error {
	if err := s.Check(); err != nil {
		return err
	}
	if route := ts.opts.Engine.Route; route != nil && s.Limit != "" {
		if _, ok := route(s.Target); ok {
			return rouse.Refuse("limit", s.Limit, "does not go with the target "+rouse.Shorten(s.Target, 64),
				"leave it out: a pool bounds its workers by its own settings")
		}
	}
	return ts.sink.Check(s)
}

// MaxPreview bounds the due times of one preview.
const MaxPreview = 1000

// checkPreviewKey refuses keys that are not of a timer. The name may be empty, because the timer need not
// exist.
func checkPreviewKey(key rouse.Key) error {
	if key.Name == "" {
		return rouse.CheckNamespace(key.Namespace)
	}
	return forTimers(key)
}

// Preview returns the next due times of a spec's schedule after from (0: now), and the schedule in words. The
// key's namespace has the calendars; its name spreads H and jitter. Nothing is stored. Whether it comes due
// too often for the namespace is told to callers that may write timers there, or read its settings. It needs
// a running engine for the default of from only.
func (ts *Timers) Preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant,
	count int) (rouse.Preview, error) {
	if err := cmp.Or(checkPreviewKey(key), rouse.CheckInstant("from", from)); err != nil {
		return rouse.Preview{}, err
	}
	if err := ts.access.RequireIn(ctx, access.TimersRead, key.Namespace); err != nil {
		return rouse.Preview{}, err
	}
	if count < 1 || count > MaxPreview {
		return rouse.Preview{}, rouse.Refuse("count", strconv.Itoa(count), "is out of bounds",
			fmt.Sprintf("use 1 to %d", MaxPreview))
	}
	anchor := from
	if anchor == 0 {
		if anchor = ts.Engine.Now(); anchor == 0 {
			return rouse.Preview{}, rouse.ErrUnavailable
		}
	}
	if spec.Target == "" {
		spec.Target = "preview:"
	}
	if err := spec.Check(); err != nil {
		return rouse.Preview{}, err
	}
	s, err := ts.schedules.Parse(&spec, rouse.ScheduleInput{Key: key, Anchor: anchor})
	if err != nil {
		return rouse.Preview{}, err
	}
	if !spec.Recurring() && from == 0 {
		anchor = 0 // a one-shot timer whose time has passed fires at once
	}
	err = spec.CheckCost(anchor, s)
	if err == nil && ts.mayKnowSettings(ctx, key.Namespace) {
		err = ts.checkEvery(key.Namespace, &spec, anchor, s)
	}
	if err != nil {
		return rouse.Preview{}, err
	}
	return PreviewSchedule(ctx, key, spec, s, anchor, count, maxLookSteps)
}

// mayKnowSettings reports whether the caller may know what a namespace refuses: it may read its settings, or
// write timers, and so meets them.
func (ts *Timers) mayKnowSettings(ctx context.Context, namespace string) bool {
	return slices.ContainsFunc([]access.Verb{access.NamespacesRead, access.TimersCreate, access.TimersReschedule},
		func(v access.Verb) bool { return ts.access.AllowsIn(ctx, v, namespace) })
}

// PreviewSchedule is Preview of a schedule whose cost was checked, with a bound of its steps.
func PreviewSchedule(ctx context.Context, key rouse.Key, spec rouse.Spec, s rouse.Schedule, from rouse.Instant, count,
	steps int) (rouse.Preview, error) {
	if first, ok := s.Next(from); ok {
		if err := spec.CheckIntervals(first, s); err != nil {
			return rouse.Preview{}, err
		}
	}
	if spec.MaxOccurrences != 0 {
		count = int(min(uint64(count), spec.MaxOccurrences))
	}
	p := describeSchedule(s)
	var err error
	p.Next, err = comingOccurrences(ctx, &rouse.Timer{Key: key, Spec: spec}, s, from, rouse.Never, count, steps)
	return p, err
}

// describeSchedule is a preview without times.
func describeSchedule(s rouse.Schedule) rouse.Preview {
	if d, ok := s.(rouse.Described); ok {
		return rouse.Preview{Words: d.Describe(), Location: d.Location()}
	}
	return rouse.Preview{Location: time.UTC}
}

// maxLookSteps bounds the cost of one request that computes due times, in steps of rouse.MaxScheduleSteps:
// about a tenth of a second.
const maxLookSteps = 200_000

// comingOccurrences returns up to count due times after from and before until. It refuses schedules that need
// more than most steps, and ends with ctx.
func comingOccurrences(ctx context.Context, t *rouse.Timer, s rouse.Schedule, from, until rouse.Instant, count,
	most int) (list []rouse.Coming, err error) {
	for spent := 0; len(list) < count; {
		next, ok, steps := rouse.Look(s, from)
		spent += steps
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case steps > rouse.MaxScheduleSteps:
			return nil, rouse.TooCostly(&t.Spec, from)
		case !ok || next >= until:
			return list, nil
		}
		c := rouse.Coming{Due: next, At: t.SentAt(next)}
		c.Mark, steps = rouse.Mark(s, next)
		list, from = append(list, c), next
		if spent += steps; spent > most && len(list) < count {
			return nil, rouse.Refuse("count", strconv.Itoa(count),
				fmt.Sprintf("times of this schedule take more than %d steps, which is all that one call may take", most),
				fmt.Sprintf("ask for %d or fewer, and go on from the last one", len(list)))
		}
	}
	return list, nil
}
