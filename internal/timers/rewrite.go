package timers

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// rewriting is a write of a spec onto an existing timer: by a put, or by Reschedule.
type rewriting struct {
	*Timers
	key        rouse.Key
	ifRevision uint64
	verb       access.Verb
	end        cut // of the old generation, if it ends
	restart    bool
	spec       func(t *rouse.Timer) (rouse.Spec, error)
	compile    func(spec *rouse.Spec, now rouse.Instant) (rouse.Schedule, error)
	trace      *rouse.TraceContext
	asks       *repeatable
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

// rewrittenTimer returns a timer with the new spec.
func (w *rewriting) rewrittenTimer(t *rouse.Timer) (r rouse.Rewritten, err error) {
	spec, err := w.spec(t)
	if err != nil {
		return r, err
	}
	now := w.Engine.Latest()
	made, err := w.compile(&spec, now)
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
		LimitKey: placed.LimitKey,
		Old:      old, New: made,
		Restart: w.restart, CutOff: cutOff})
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
