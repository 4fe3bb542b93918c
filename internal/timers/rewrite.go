package timers

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// rewriting is a write of a spec onto an existing timer: by a put, or by Reschedule.
type rewriting struct {
	key        rouse.Key
	ifRevision uint64
	verb       access.Verb
	what       string // what is done to the timer, such as "replaced"
	restart    bool
	spec       func(t *rouse.Timer) (rouse.Spec, error)
	compile    func(spec *rouse.Spec, now rouse.Instant) (rouse.Schedule, error)
	trace      *rouse.TraceContext
	asks       *once
}

// replace gives an existing timer the spec of a put.
func (ts *Timers) replace(ctx context.Context, p *Put, span *rouse.TraceContext) PutResult {
	if err := ts.admission.one(ctx, p.Key.Namespace, false); err != nil {
		return PutResult{Err: err}
	}
	w := ts.replacement(ctx, p)
	w.trace = span
	w.asks = asks(ctx, p.Key.Namespace, "put", p.Mode, p.IfRevision, cmp.Or(p.asks, contents(&rouse.Timer{Spec: p.Spec})))
	res, err := ts.rewrite(ctx, w)
	if err != nil {
		return PutResult{Err: err}
	}
	if !res.Unchanged {
		reportCreated(ts.opts.Engine.Events.Created, 1)
	}
	return res
}

func (ts *Timers) replacement(ctx context.Context, p *Put) rewriting {
	return rewriting{key: p.Key, ifRevision: p.IfRevision, verb: access.TimersCreate, what: "replaced", restart: p.Restart,
		spec:    func(*rouse.Timer) (rouse.Spec, error) { return p.Spec, nil },
		compile: func(_ *rouse.Spec, now rouse.Instant) (rouse.Schedule, error) { return ts.compile(ctx, p, now) }}
}

// rewritten returns what a write of a spec makes of a timer.
func (ts *Timers) rewritten(w *rewriting, t *rouse.Timer) (r rouse.Rewritten, err error) {
	spec, err := w.spec(t)
	if err != nil {
		return r, err
	}
	now := ts.Engine.Latest()
	made, err := w.compile(&spec, now)
	if err != nil {
		return r, err
	}
	old := ts.scheduleOf(t)
	cutOff := func() (step rouse.Step) {
		ts.cutOff(&step, t, rouse.CauseReplaced, w.what)
		return step
	}
	r, err = t.Rewrite(spec, rouse.Rewriting{Sure: ts.Engine.Now(), Now: now, Bucket: ts.placed(w.key, spec.Target), Old: old, New: made,
		Restart: w.restart, CutOff: cutOff})
	if err != nil || r.Unchanged {
		return r, err
	}
	s := made
	if r.To.Generation != 0 {
		s = old
	}
	if x, ok := (expecting{ts}).expects(r.To, s); ok {
		r.Also = append(r.Also, x)
	}
	return r, nil
}

// rewrite gives an existing timer another spec, as rouse.Timer.Rewrite has it.
func (ts *Timers) rewrite(ctx context.Context, w rewriting) (res PutResult, err error) {
	defer ts.Engine.Freeze(w.key)()
	var last rouse.Rewritten
	busy := false
	out, err := ts.edit(ctx, w.verb, w.key, w.ifRevision, w.asks, func(t *rouse.Timer) (rouse.Step, error) {
		res.Timer, busy = *t, ts.Engine.Busy(t)
		if last, err = ts.rewritten(&w, t); err != nil || last.Unchanged {
			return last.Step, err
		}
		res.Timer = *last.To
		if w.trace != nil {
			last.To.Trace, res.Timer.Trace = w.trace, w.trace
		}
		if ts.admission.quotas != nil {
			was, is := t.Row(), last.To.Row()
			err = ts.admission.grows(w.key.Namespace, &was, &is)
		}
		return last.Step, err
	})
	switch {
	case err != nil:
		return res, err
	case out.before != nil:
		res = PutResult{Timer: *out.timer, Replaced: true}
		ts.access.Redact(ctx, &res.Timer)
		return res, nil
	}
	res.Replaced, res.Unchanged, res.Notes = true, last.Unchanged, last.Notes
	res.Timer.Revision = out.revision
	switch {
	case last.Unchanged:
	case last.To.Generation == 0:
		res.Timer.Generation, res.InFlight = out.revision, out.inFlight
		detached, failed := ts.deleteDetached(ctx, w.key, nil)
		res.InFlight, err = res.InFlight || detached.InFlight, failed
	default:
		res.InFlight = busy || out.inFlight
		err = ts.amendDetached(ctx, &res.Timer)
	}
	ts.access.Redact(ctx, &res.Timer)
	return res, err
}
