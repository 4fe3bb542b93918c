package timers

import (
	"cmp"
	"context"
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

// Mode defines what Put does with an existing name.
type Mode uint8

const (
	CreateOnly      Mode = iota // rouse.ErrExists
	CreateOrReplace             // replace; a new generation begins
	ReplaceOnly                 // rouse.ErrNotFound for a name that is not taken
)

// Put is a timer to write. Its key has no Fire; its spec is checked by Put.
type Put struct {
	Key        rouse.Key
	Spec       rouse.Spec
	Mode       Mode
	IfRevision uint64      // not 0: only if the timer has this revision, else rouse.ErrConflict
	asks       string      // what the put is, to tell it from others with the same Idempotency-Key; empty: its spec
	by         access.Verb // not empty: the caller may write a part of the namespace by it, so that each version that is replaced is checked
	Validate   bool        // it is only checked, and nothing is written; of all puts of a call or none
	Given      bool        // the caller does not change the data of Spec and the result any more: the engine may keep it
}

// PutResult is the result of one Put.
type PutResult struct {
	Timer    rouse.Timer
	Replaced bool            // there was a timer of that name before
	InFlight bool            // an attempt of its generation had started and may still arrive; none starts after the answer
	Next     []rouse.Instant // of a put that was validated alone: the next times
	Err      error           // *rouse.Invalid, rouse.ErrExists, rouse.ErrNotFound, rouse.ErrConflict, rouse.ErrFull
}

// Put writes timers in one durable step, each with an outcome of its own. When it returns without error,
// those without an error of their own are durable. After an error of Put itself, the outcome of all is
// unknown.
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
	results = make([]PutResult, len(puts))
	defer notePuts(ctx, results)
	backing := ts.writings.Take(len(puts))
	items := make([]*engine.Write, 0, len(puts))
	at := make([]int, 0, len(puts))
	now := ts.Engine.Latest() // a delay counted from an earlier moment would end early
	for i := range puts {
		if err := ts.prepare(ctx, &puts[i], &results[i].Timer, &backing[i], now, span); err != nil {
			results[i] = PutResult{Err: err}
			continue
		}
		items, at = append(items, &backing[i].Write), append(at, i)
	}
	if len(items) == 0 {
		return results, nil
	}
	if only {
		return results, validate(ctx, ts, puts, items, at, results)
	}
	if err := ts.writePuts(ctx, puts, items, at, nil, results); err != nil {
		return nil, err
	}
	for _, i := range at {
		if results[i].Err != nil { // if that is because the store did not answer, it may still be reading the row
			return results, nil
		}
	}
	ts.writings.Give(backing)
	return results, nil
}

// notePuts notes for the audit log which puts failed.
func notePuts(ctx context.Context, results []PutResult) {
	for i := range results {
		if err := results[i].Err; err != nil {
			audit.Failed(ctx, err)
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
// results[at[j]].Timer, as puts[at[j]] asks. Detached occurrences of a replaced timer end with it, except for
// the rows in here, which came with what replaces it.
func (ts *Timers) writePuts(ctx context.Context, puts []Put, items []*engine.Write, at []int, here map[rouse.Key]bool, results []PutResult) error {
	for j, i := range at {
		if j == 0 || puts[i].Key.Namespace != puts[at[j-1]].Key.Namespace {
			ts.Engine.WarnUnclaimed(puts[i].Key.Namespace)
		}
	}
	items, at, err := repeated(ctx, ts, puts, items, at, results)
	if err != nil || len(items) == 0 {
		return err
	}
	if items, at, err = ts.admission.admit(ctx, puts, items, at, results); err != nil || len(items) == 0 {
		return err
	}
	was, release, err := ts.recordReplaced(ctx, puts, items, at)
	if err != nil {
		return err
	}
	defer release()
	out, err := ts.Engine.Write(ctx, items)
	if err != nil {
		return err
	}
	created := 0
	defer func() { reportCreated(ts.opts.Engine.Events.Created, created) }()
	for j, r := range out {
		p, res := &puts[at[j]], &results[at[j]]
		if !r.Applied && r.Err == nil && p.Mode == CreateOrReplace && p.IfRevision == 0 {
			if r, was[j], err = ts.putAgain(ctx, p, items[j]); err != nil {
				return err
			}
		}
		switch {
		case r.Err != nil:
			*res = PutResult{Err: r.Err}
		case !r.Applied:
			*res = PutResult{Err: refused(p, r)}
		default:
			created++
			engine.Stamp(&res.Timer, r.Revision)
			touched(ctx, p.Key, before(items[j].Change.If, r.Existed), r.Revision)
			res.Replaced, res.InFlight = r.Existed, items[j].InFlight || was[j] != nil && ts.Engine.MayBeOut(was[j])
			if r.Existed && p.Key.Fire == "" {
				detached, err := ts.deleteDetached(ctx, p.Key, r.Revision, here)
				if err != nil {
					return err
				}
				res.InFlight = res.InFlight || detached.InFlight
			}
		}
	}
	return nil
}

// before returns the revision that a write replaced, as far as it is known.
func before(condition uint64, existed bool) uint64 {
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

// inProgress are the possible states of a timer with an occurrence in progress.
var inProgress = []rouse.State{rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused}

// recordReplaced adds, to puts that may replace a timer, the record of the occurrence that they end: one that
// was being retried, or had been accepted. It reads timers only in namespaces with such occurrences, or where
// another node may have an attempt in flight, and holds these timers until release is called. was has the
// timers that it found, by the indexes of items.
func (ts *Timers) recordReplaced(ctx context.Context, puts []Put, items []*engine.Write, at []int) (was map[int]*rouse.Timer, release func(), err error) {
	was = map[int]*rouse.Timer{}
	some := map[string]bool{}
	var keys []rouse.Key
	var which []int
	for j, i := range at {
		if puts[i].Mode == CreateOnly && puts[i].IfRevision == 0 {
			continue
		}
		ns := puts[i].Key.Namespace
		yes, known := some[ns]
		if yes = yes || ts.opts.Engine.Shared; !yes && !known {
			n, err := ts.store.Count(ctx, rouse.Query{Namespace: ns, States: inProgress})
			if err != nil {
				return nil, nil, err
			}
			yes = n > 0
			some[ns] = yes
		}
		if yes {
			keys, which = append(keys, puts[i].Key), append(which, j)
		}
	}
	if len(keys) == 0 {
		return was, func() {}, nil
	}
	release = ts.Engine.Freeze(keys...)
	rows, err := ts.store.Get(ctx, keys)
	if err != nil {
		release()
		return nil, nil, err
	}
	for k := range rows {
		j, row := which[k], &rows[k]
		if want := puts[at[j]].IfRevision; want != 0 && want != row.Revision {
			continue // it will be refused
		}
		if puts[at[j]].by != "" && items[j].Change.If != row.Revision {
			continue // it will be refused, and put again
		}
		if was[j] = ts.replaces(items[j], row); ts.opts.Engine.Shared && puts[at[j]].Mode == CreateOrReplace {
			items[j].Change.If = row.Revision // this version decides what may be in progress
		}
	}
	return was, release, nil
}

// replaces adds to a put the record of the occurrence that it ends, taken from the stored version of the
// timer. It returns that timer, or nil if it does not exist or cannot be read.
func (ts *Timers) replaces(w *engine.Write, row *rouse.Row) *rouse.Timer {
	w.Change.Log = nil
	if row.Revision == 0 {
		return nil
	}
	t, err := ts.Read(row)
	if err != nil {
		return nil
	}
	if slices.Contains(inProgress, row.State) {
		if w.Change.Log = ts.cutOffTimer(&t, rouse.CauseReplaced, "replaced while it was being tried"); w.Change.Log != nil {
			w.Change.If = row.Revision // the record is of this version
		}
	}
	return &t
}

// cutOffTimer returns the records of what ends with the timer: the occurrence that is in progress, or that is
// detached because it has come due, and the requested runs. An occurrence with an attempt in flight on this
// node is not included: it is recorded when the attempt ends.
func (ts *Timers) cutOffTimer(t *rouse.Timer, c rouse.Cause, why string) (log []rouse.Record) {
	out, sending := ts.Engine.Sending(t.Key)
	now := ts.Engine.Latest()
	current, ok := t.Current()
	if ok = ok && (t.Attempts != 0 || t.Key.Fire != ""); ok && (!sending || out.Due != current.Due || out.Manual != current.Manual) {
		occ := current
		occ.Attempt = t.Attempts
		log = append(log, t.Ending(occ, rouse.Outcome{Verdict: rouse.Failed, Detail: t.LastError}, 0, now, c, why))
	}
	if t.Key.Fire != "" {
		return log
	}
	for _, due := range t.Runs {
		if ok && current.Manual && current.Due == due || sending && out.Manual && out.Due == due {
			continue
		}
		run := rouse.Timer{Key: t.Key, Generation: t.Generation}
		log = append(log, run.Ending(rouse.Occurrence{Due: due, Manual: true}, rouse.Outcome{Verdict: rouse.Failed}, 0, now, c, why))
	}
	return log
}

// putAgain replaces a timer that changed between the read and the write. was is the version that it replaced.
func (ts *Timers) putAgain(ctx context.Context, p *Put, w *engine.Write) (r engine.Written, was *rouse.Timer, err error) {
	for range maxTries {
		rows, err := ts.store.Get(ctx, []rouse.Key{p.Key})
		if err != nil {
			return r, nil, err
		}
		if p.by != "" && rows[0].Revision != 0 {
			if err := ts.mayReplace(ctx, p.by, &rows[0]); err != nil {
				r.Err = err
				return r, nil, nil
			}
		}
		was = ts.replaces(w, &rows[0])
		w.Change.If = rows[0].Revision
		out, err := ts.Engine.Write(ctx, []*engine.Write{w})
		if err != nil {
			return r, nil, err
		}
		if r = out[0]; r.Err != nil || r.Applied {
			return r, was, nil
		}
	}
	return r, nil, nil
}

func refused(p *Put, r engine.Written) error {
	switch {
	case !r.Existed:
		return missing(p.Key)
	case p.Mode == CreateOnly && p.IfRevision == 0:
		return fmt.Errorf("timer %q: %w", p.Key.Name, rouse.ErrExists)
	}
	return conflicting(p.Key, r.Revision)
}

// conflicting returns the error for a row with another revision than the caller expects.
func conflicting(key rouse.Key, is uint64) error {
	return fmt.Errorf("timer %q: the revision is %d: %w", key.Name, is, rouse.ErrConflict)
}

// checkEvery refuses a spec that comes due too often for its target, or that costs more than its namespace
// may.
func (ts *Timers) checkEvery(namespace string, spec *rouse.Spec, from rouse.Instant, s rouse.Schedule) error {
	any := slices.ContainsFunc(ts.opts.AnyInterval, func(target string) bool { return strings.HasPrefix(spec.Target, target) })
	return ts.admission.recurs(namespace, spec, from, s, any)
}

// prepare checks a put and makes its change.
func (ts *Timers) prepare(ctx context.Context, p *Put, t *rouse.Timer, w *writing, now rouse.Instant, span *rouse.TraceContext) error {
	if err := ts.checkPut(ctx, p); err != nil {
		return err
	}
	if err := ts.access.Require(ctx, access.TimersCreate, p.Key.Namespace, p.Spec.Target, p.Spec.Labels); err != nil {
		return err
	}
	was, err := ts.replacing(ctx, access.TimersCreate, p)
	if err != nil {
		return err
	}
	s, err := ts.schedules.Parse(&p.Spec, rouse.ScheduleInput{Key: p.Key, Anchor: now})
	if err == nil {
		err = ts.checkEvery(p.Key.Namespace, &p.Spec, now, s)
	}
	if err != nil {
		return err
	}
	if *t, err = rouse.NewTimer(p.Key, p.Spec, ts.Engine.Now(), now, s); err != nil {
		return err
	}
	t.Bucket, t.Trace = ts.placed(p.Key, p.Spec.Target), span
	if t.Spec.Expect.Any() && (p.Mode != CreateOnly || p.IfRevision != 0) {
		if err := (expecting{ts}).stillOverdue(ctx, t); err != nil {
			return err
		}
	}
	w.row = t.Row()
	w.Change = rouse.Change{Key: p.Key, To: &w.row}
	if x, ok := (expecting{ts}).expects(t, s); ok {
		w.Change.Also = []rouse.Row{x.Row()}
	}
	if p.Given {
		w.Timer = t
	}
	switch {
	case p.IfRevision != 0:
		w.Change.If = p.IfRevision
	case p.Mode == CreateOnly:
		w.Change.If = rouse.NoRow
	case p.by != "" && p.Mode == CreateOrReplace:
		w.Change.If = was
	case p.Mode == CreateOrReplace:
		w.Change.If = rouse.AnyRevision
	default:
		rows, err := ts.store.Get(ctx, []rouse.Key{p.Key})
		if err != nil {
			return err
		}
		if rows[0].Revision == 0 {
			return missing(p.Key)
		}
		if w.Change.If = rows[0].Revision; p.by != "" {
			w.Change.If = was
		}
	}
	return nil
}

// checkPut refuses a timer that is wrong, or that needs what its namespace does not have.
func (ts *Timers) checkPut(ctx context.Context, p *Put) error {
	if err := ts.check(p); err != nil {
		return err
	}
	return cmp.Or((expecting{ts}).checkExpect(ctx, p.Key.Namespace, &p.Spec), ts.checkNamespace(ctx, p.Key.Namespace, &p.Spec))
}

// checkNamespace refuses a spec that needs what its namespace does not have. It is no part of the checks of
// drafts, which are read again and again, by any node: their fires wait for it.
func (ts *Timers) checkNamespace(ctx context.Context, namespace string, s *rouse.Spec) error {
	if ts.opts.Check == nil {
		return nil
	}
	return ts.opts.Check(ctx, namespace, s)
}

func (ts *Timers) check(p *Put) error {
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
	return ts.sink.Check(s)
}

// placed returns the bucket of a timer: that of its key, unless its target is routed.
func (ts *Timers) placed(k rouse.Key, target string) uint32 {
	return rouse.Placed(k, target, ts.opts.Engine.Route, ts.opts.Engine.Buckets)
}

// MaxPreview bounds the due times of one preview.
const MaxPreview = 1000

// previewed refuses keys that are not of a timer. The name may be empty, because the timer need not exist.
func previewed(key rouse.Key) error {
	if key.Name == "" {
		return rouse.CheckNamespace(key.Namespace)
	}
	return forTimers(key)
}

// Preview returns the next due times of a spec's schedule after from (0: now), and the schedule in words. The
// key's namespace has the calendars; its name spreads H and jitter. Nothing is stored. It needs a running
// engine for the default of from only.
func (ts *Timers) Preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count int) (rouse.Preview, error) {
	if err := cmp.Or(previewed(key), rouse.CheckInstant("from", from)); err != nil {
		return rouse.Preview{}, err
	}
	if err := ts.access.RequireIn(ctx, access.TimersRead, key.Namespace); err != nil {
		return rouse.Preview{}, err
	}
	if count < 1 || count > MaxPreview {
		return rouse.Preview{}, rouse.Refuse("count", strconv.Itoa(count), "is out of bounds", fmt.Sprintf("use 1 to %d", MaxPreview))
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
	if err := cmp.Or(spec.CheckCost(anchor, s), ts.checkEvery(key.Namespace, &spec, anchor, s)); err != nil {
		return rouse.Preview{}, err
	}
	if first, ok := s.Next(anchor); ok {
		if err := spec.CheckIntervals(first, s); err != nil {
			return rouse.Preview{}, err
		}
	}
	if spec.MaxOccurrences != 0 {
		count = min(count, int(spec.MaxOccurrences))
	}
	p := describe(s)
	p.Next, err = coming(ctx, &rouse.Timer{Key: key, Spec: spec}, s, anchor, rouse.Never, count)
	return p, err
}

// describe is a preview without times.
func describe(s rouse.Schedule) rouse.Preview {
	if d, ok := s.(rouse.Described); ok {
		return rouse.Preview{Words: d.Describe(), Location: d.Location()}
	}
	return rouse.Preview{Location: time.UTC}
}

// maxLookSteps bounds the cost of one request that computes due times, in steps of rouse.MaxScheduleSteps:
// about a tenth of a second.
const maxLookSteps = 200_000

// coming returns up to count due times after from and before until. It refuses schedules that need more than
// maxLookSteps, and ends with ctx.
func coming(ctx context.Context, t *rouse.Timer, s rouse.Schedule, from, until rouse.Instant, count int) (list []rouse.Coming, err error) {
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
		if spent += steps; spent > maxLookSteps && len(list) < count {
			return nil, rouse.Refuse("count", strconv.Itoa(count), fmt.Sprintf("times of this schedule take more than %d steps, which is all that one call may take", maxLookSteps),
				fmt.Sprintf("ask for %d or fewer, and go on from the last one", len(list)))
		}
	}
	return list, nil
}
