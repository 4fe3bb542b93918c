package timers

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
)

// rewriting is a write of a spec onto an existing timer: by a put, or by Reschedule.
type rewriting struct {
	*Timers
	key        rouse.Key
	ifRevision uint64
	verb       access.Verb
	end        cut // of the old generation, if it ends
	restart    bool
	goesOn     bool // intervals and delays of the schedule, if that stays
	spec       func(t *rouse.Timer) (rouse.Spec, error)
	compile    func(spec *rouse.Spec, anchor rouse.Instant) (rouse.Schedule, error)
	trace      *rouse.TraceContext
	asks       *repeatable
}

// PatchRequest asks for another spec of a timer.
type PatchRequest struct {
	// Change returns the spec that the timer is to have instead of the one that it has. It is called again if
	// the timer was changed in the meantime, and keeps nothing of what it gets.
	Change func(spec rouse.Spec) (rouse.Spec, error)
	// Text describes the change, so that a repetition is told from another request with the same key.
	Text       string
	IfRevision uint64 // not 0: only if the timer has this revision
	Validate   bool   // all checks are made, and nothing is written
}

// Patch changes members of a timer's spec, as a put of the whole new spec does, but that intervals and delays
// go on as they are if what decides when it is due stays. The caller needs the right to see all of the timer:
// what stays of it might go to another target otherwise.
func (ts *Timers) Patch(ctx context.Context, key rouse.Key, r PatchRequest) (PutResult, error) {
	w := newPatching(ctx, ts, key, &r)
	w.asks = newRepeatable(ctx, key, "patch", r.IfRevision, r.Text)
	return w.writeOrValidate(ctx, r.Validate)
}

// newPatching changes members of a timer's spec.
func newPatching(ctx context.Context, ts *Timers, key rouse.Key, r *PatchRequest) rewriting {
	return rewriting{Timers: ts, key: key, verb: access.TimersCreate, ifRevision: r.IfRevision,
		end: cut{rouse.CauseReplaced, "replaced"}, goesOn: true,
		spec: func(t *rouse.Timer) (rouse.Spec, error) {
			if err := ts.access.Require(ctx, access.Reveal, key.Namespace, t.Spec.Target, t.Spec.Labels); err != nil {
				return rouse.Spec{}, err
			}
			return r.Change(t.Spec)
		},
		compile: func(spec *rouse.Spec, anchor rouse.Instant) (rouse.Schedule, error) {
			return ts.compilePut(ctx, &Put{Key: key, Spec: *spec}, anchor)
		}}
}

// Reschedule replaces the schedule of a timer by that of the spec when, and keeps the rest; with an
// ifRevision other than 0, only if the timer has that revision. It is a put of the spec with that schedule.
// If it is only to validate, nothing is written, and the result is the timer that would be stored, with its
// next times.
func (ts *Timers) Reschedule(ctx context.Context, key rouse.Key, when rouse.Spec, ifRevision uint64,
	validate bool) (PutResult, error) {
	w := newRescheduling(ts, key, &when)
	w.ifRevision, w.asks = ifRevision, newRepeatable(ctx, key, "reschedule", ifRevision,
		timerContents(&rouse.Timer{Spec: when}))
	return w.writeOrValidate(ctx, validate)
}

// newRescheduling gives a timer another schedule.
func newRescheduling(ts *Timers, key rouse.Key, when *rouse.Spec) rewriting {
	return rewriting{Timers: ts, key: key, verb: access.TimersReschedule, end: cut{rouse.CauseReplaced, "rescheduled"},
		spec: func(t *rouse.Timer) (rouse.Spec, error) {
			spec := t.Spec
			spec.SetWhen(when)
			return spec, spec.Check()
		},
		compile: func(spec *rouse.Spec, now rouse.Instant) (rouse.Schedule, error) {
			s, err := ts.schedules.Parse(spec, rouse.ScheduleInput{Key: key, Anchor: now})
			if err == nil {
				err = ts.checkEvery(key.Namespace, spec, now, s)
			}
			return s, err
		}}
}

// replaceTimer gives an existing timer the spec of a put.
func (w rewriting) replaceTimer(ctx context.Context, p *Put) PutResult {
	err := w.access.RequireIn(ctx, w.verb, p.Key.Namespace) // whose rate is charged
	if err == nil {
		err = w.admission.admitReplace(p.Key.Namespace)
	}
	if err != nil {
		return PutResult{Err: err}
	}
	w.asks = p.repeatablePut(ctx)
	res, err := w.writeRewritten(ctx)
	if err != nil {
		return PutResult{Err: err}
	}
	if !res.Unchanged {
		reportCreated(w.opts.Engine.Events.Created, 1)
	}
	return res
}

// newReplacement is the rewriting of a put.
func newReplacement(ctx context.Context, ts *Timers, p *Put, span *rouse.TraceContext) rewriting {
	return rewriting{Timers: ts, trace: span, key: p.Key, ifRevision: p.IfRevision, verb: access.TimersCreate,
		end: cut{rouse.CauseReplaced, "replaced"}, restart: p.Restart,
		spec:    func(*rouse.Timer) (rouse.Spec, error) { return p.Spec, nil },
		compile: func(_ *rouse.Spec, now rouse.Instant) (rouse.Schedule, error) { return ts.compilePut(ctx, p, now) }}
}

// writeOrValidate rewrites the timer, or only validates that.
func (w rewriting) writeOrValidate(ctx context.Context, validate bool) (PutResult, error) {
	if validate {
		audit.Checks(ctx)
	}
	if err := cmp.Or(forTimers(w.key), rouse.CheckRevision(w.ifRevision)); err != nil {
		return PutResult{Replaced: true}, err
	}
	if err := w.Engine.Ready(ctx); err != nil {
		return PutResult{Replaced: true}, err
	}
	if !validate {
		return w.writeRewritten(ctx)
	}
	t, err := w.getAllowed(ctx, w.verb, w.key)
	if err == nil && w.ifRevision != 0 && t.Revision != w.ifRevision {
		err = conflictError(w.key, t.Revision)
	}
	if err != nil {
		return PutResult{}, err
	}
	return w.wouldBe(ctx, &t, true)
}

// rewrittenTimer returns a timer with the new spec.
func (w *rewriting) rewrittenTimer(t *rouse.Timer) (r rouse.Rewritten, err error) {
	spec, err := w.spec(t)
	if err != nil {
		return r, err
	}
	now := w.Engine.Latest()
	anchor := now
	if w.goesOn && spec.HasWhenOf(&t.Spec) {
		anchor = t.Anchor
	}
	made, err := w.compile(&spec, anchor)
	if err != nil {
		return r, err
	}
	old := scheduleOf(w.Timers, t)
	if !t.Spec.Recurring() { // its one instant is compared, which may be relative to its creation
		old, _ = w.schedules.Parse(&t.Spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
	}
	cutOff := func() (step rouse.Step) {
		w.cutOff(&step, t, w.end)
		return step
	}
	placed := rouse.Timer{Key: w.key, Spec: spec}
	if err := w.placeTimer(&placed); err != nil {
		return r, err
	}
	r, err = t.Rewrite(spec, rouse.Rewriting{Sure: w.Engine.Now(), Now: now, Bucket: placed.Bucket,
		LimitKey: placed.LimitKey, Old: old, New: made, Anchor: anchor, Restart: w.restart, CutOff: cutOff})
	if err != nil || r.Unchanged {
		return r, err
	}
	s := made
	if r.To.Generation != 0 {
		s = old
	}
	if x, ok := (expecting{w.Timers}).expectationRow(r.To, s); ok {
		r.Also = append(r.Also, x)
	}
	return r, nil
}

// writeRewritten gives an existing timer another spec, as rouse.Timer.Rewrite has it.
func (w *rewriting) writeRewritten(ctx context.Context) (res PutResult, err error) {
	defer w.freezeAllowed(ctx, w.verb, w.key)()
	var last rouse.Rewritten
	out, err := w.editRow(ctx, w.verb, w.key, w.ifRevision, w.asks, func(t *rouse.Timer) (rouse.Step, error) {
		res.Timer = *t
		if last, err = w.rewrittenTimer(t); err != nil || last.Unchanged {
			return last.Step, err
		}
		res.Timer = *last.To
		if w.trace != nil {
			last.To.Trace, res.Timer.Trace = w.trace, w.trace
		}
		if w.admission.quotas != nil {
			was, is := t.Row(), last.To.Row()
			err = w.admission.admitGrowth(w.key.Namespace, &was, &is)
		}
		return last.Step, err
	})
	switch {
	case err != nil:
		return res, err
	case out.before != nil:
		res = PutResult{Timer: *out.timer, Replaced: true}
		res.InFlight, err = rowsNextTo{w.Timers}.amendRows(ctx, &res.Timer, w.end)
		w.access.Redact(ctx, &res.Timer)
		return res, err
	}
	res.Replaced, res.Unchanged, res.Notes = true, last.Unchanged, last.Notes
	res.Timer.Revision = out.revision
	nextTo := false
	if !last.Unchanged && last.To.Generation == 0 {
		res.Timer.Generation = out.revision
		var detached Deleted
		detached, err = rowsNextTo{w.Timers}.deleteStale(ctx, w.key, w.end, nil)
		nextTo = detached.InFlight
	} else {
		nextTo, err = rowsNextTo{w.Timers}.amendRows(ctx, &res.Timer, w.end)
	}
	res.InFlight = out.inFlight || nextTo
	w.access.Redact(ctx, &res.Timer)
	return res, err
}
