package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
)

// Deleted is the result of Delete.
type Deleted struct {
	Generation uint64
	InFlight   bool // an attempt had started and may still arrive; none starts after the answer
}

// Get returns a timer, or the dead letter that key.Fire names.
func (ts *Timers) Get(ctx context.Context, key rouse.Key) (rouse.Timer, error) {
	t, err := ts.getAllowed(ctx, access.TimersRead, key)
	if err == nil {
		ts.access.Redact(ctx, &t)
	}
	return t, err
}

// notFoundError returns the error for a row that does not exist.
func notFoundError(key rouse.Key) error {
	if key.Fire != "" {
		return fmt.Errorf("fire %s of timer %q: %w", key.Fire, key.Name, rouse.ErrNotFound)
	}
	return fmt.Errorf("timer %q: %w", key.Name, rouse.ErrNotFound)
}

// List returns the timers that match, in the order of keys, and where the next page begins.
func (ts *Timers) List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error) {
	if err := cmp.Or(q.Check(), refuseOrder(&q)); err != nil {
		return nil, nil, err
	}
	if q.Limit < 1 {
		return nil, nil, rouse.Refuse("limit", strconv.Itoa(q.Limit), "is out of bounds", "use at least 1")
	}
	if err := ts.mayRead(ctx, q.Namespace); err != nil {
		return nil, nil, err
	}
	timers, next, err := ts.listVisible(ctx, q, access.TimersRead)
	for i := range timers {
		ts.access.Redact(ctx, &timers[i])
	}
	return timers, next, err
}

// Delete removes a timer, and its detached occurrences; with an ifRevision other than 0, only if the timer
// has that revision. A timer whose schedule has ended exists as long as an occurrence of it is in flight.
// Dead letters stay.
func (ts *Timers) Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (Deleted, error) {
	if err := cmp.Or(key.Check(), rouse.CheckRevision(ifRevision)); err != nil {
		return Deleted{}, err
	}
	v := deleteVerb(key)
	d, err := ts.deleteRow(ctx, key, ifRevision, deleted)
	// else the rows that are left may not be the caller's
	swept := errors.Is(err, rouse.ErrNotFound) && !ts.access.Restricted(ctx, v, key.Namespace)
	// an earlier call may have been cut off between the two
	if (err == nil || swept) && key.Fire == "" {
		detached, failed := rowsNextTo{ts}.deleteStale(ctx, key, deleted, nil)
		d.InFlight = d.InFlight || detached.InFlight
		switch {
		case failed != nil:
			err = failed
		case err != nil && detached.Generation != 0:
			d.Generation, err = detached.Generation, nil
		}
	}
	return d, err
}

// cut is how a timer, or a row next to one, ends.
type cut struct {
	cause rouse.Cause
	what  string // such as "deleted"
}

var deleted = cut{rouse.CauseDeleted, "deleted"}

// deleteVerb returns the verb for deleting a row.
func deleteVerb(key rouse.Key) access.Verb {
	if key.Fire != "" {
		return access.DeadPurge
	}
	return access.TimersDelete
}

// freezeAllowed keeps attempts of rows from starting until the returned function is called. Rows of
// namespaces in which the caller does not have the verb go on: their change is going to be refused.
func (ts *Timers) freezeAllowed(ctx context.Context, verb access.Verb, keys ...rouse.Key) (thaw func()) {
	keys = slices.DeleteFunc(keys, func(k rouse.Key) bool { return !ts.access.AllowsIn(ctx, verb, k.Namespace) })
	return ts.Engine.Freeze(keys...)
}

// deleteRow removes a timer, or a row next to one, and records the occurrences that end with it.
func (ts *Timers) deleteRow(ctx context.Context, key rouse.Key, ifRevision uint64, end cut) (d Deleted, err error) {
	defer ts.freezeAllowed(ctx, deleteVerb(key), key)()
	out, err := ts.editRow(ctx, deleteVerb(key), key, ifRevision, nil, func(t *rouse.Timer) (rouse.Step, error) {
		d.Generation = t.Generation
		return ts.deletionStep(t, end), nil
	})
	d.InFlight = out.inFlight
	return d, err
}

// deletionStep is the step that removes a timer, with the records of the occurrences that it ends.
func (ts *Timers) deletionStep(t *rouse.Timer, end cut) rouse.Step {
	var step rouse.Step
	ts.cutOff(&step, t, end)
	if t.Spec.Expect.Any() && t.Key.Fire == "" { // it finds that its timer is gone
		step.Also = append(step.Also, t.Expectation(ts.Engine.Latest()))
	}
	return step
}

// Pause stops a timer's scheduled occurrences until Resume, or until the given time if that is not 0.
func (ts *Timers) Pause(ctx context.Context, key rouse.Key, reason string, until rouse.Instant) (rouse.Timer, error) {
	if err := cmp.Or(forTimers(key), rouse.CheckText("reason", reason, rouse.MaxDetail),
		rouse.CheckInstant("until", until)); err != nil {
		return rouse.Timer{}, err
	}
	o := newRepeatable(ctx, key, "pause", reason, until)
	return ts.editTimer(ctx, access.TimersPause, key, o, func(t *rouse.Timer) (rouse.Step, error) {
		if t.Paused && t.PauseCause == rouse.PauseRequested && t.Reason == rouse.Shorten(reason, rouse.MaxDetail) &&
			t.Until == until {
			return rouse.Step{Keep: true}, nil
		}
		err := t.Pause(reason, until, ts.Engine.Latest())
		return rouse.Step{To: t}, err
	})
}

// Resume ends a pause.
func (ts *Timers) Resume(ctx context.Context, key rouse.Key) (rouse.Timer, error) {
	if err := forTimers(key); err != nil {
		return rouse.Timer{}, err
	}
	defer ts.freezeAllowed(ctx, access.TimersPause, key)()
	return ts.editTimer(ctx, access.TimersPause, key, newRepeatable(ctx, key, "resume"),
		func(t *rouse.Timer) (rouse.Step, error) {
			if !t.Paused {
				return rouse.Step{Keep: true}, nil
			}
			s, err := ts.schedules.Metered(t)
			if err != nil {
				return rouse.Step{}, err
			}
			return t.Resume(ts.Engine.Latest(), s, ts.Engine.Underway(t)), nil
		})
}

// auditRowChange notes for the audit log that a caller changed a row from one revision to another, as
// audit.Touched does.
func auditRowChange(ctx context.Context, key rouse.Key, before, after uint64) {
	audit.Touched(ctx, key.Namespace, audit.Joined(key.Name, key.Fire), before, after)
}

// forTimers refuses keys that are not of a timer.
func forTimers(key rouse.Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	if key.Fire != "" {
		return rouse.Refuse("fire_id", key.Fire, "names an occurrence next to its timer",
			"leave it out: this is done to timers")
	}
	return nil
}

// forFires refuses keys that are not of a row next to a timer.
func forFires(key rouse.Key) error {
	return cmp.Or(key.Check(), rouse.CheckFireID(key.Fire))
}

// Skip skips the next count occurrences of a timer.
func (ts *Timers) Skip(ctx context.Context, key rouse.Key, count uint32, reason string) (rouse.Timer, error) {
	if err := cmp.Or(forTimers(key), rouse.CheckText("reason", reason, rouse.MaxDetail)); err != nil {
		return rouse.Timer{}, err
	}
	defer ts.freezeAllowed(ctx, access.TimersSkip, key)()
	return ts.editTimer(ctx, access.TimersSkip, key, newRepeatable(ctx, key, "skip", count, reason),
		func(t *rouse.Timer) (rouse.Step, error) {
			s, err := ts.schedules.Metered(t)
			if err != nil {
				return rouse.Step{}, err
			}
			return t.Skip(count, reason, ts.Engine.Latest(), s, ts.Engine.Underway(t))
		})
}

// RunNow asks for a fire now, in addition to the schedule, and returns its id and due time.
func (ts *Timers) RunNow(ctx context.Context, key rouse.Key) (id string, due rouse.Instant, err error) {
	if err := forTimers(key); err != nil {
		return "", 0, err
	}
	o := newRepeatable(ctx, key, "run")
	var generation uint64
	out, err := ts.editRow(ctx, access.TimersRun, key, 0, o, func(t *rouse.Timer) (rouse.Step, error) {
		var side *rouse.Timer
		if err = nil; t.Spec.Overlap == rouse.OverlapAllow {
			err = rowsNextTo{ts}.roomForRun(ctx, t)
		}
		if err == nil {
			due, side, err = t.Run(ts.Engine.Latest())
		}
		if generation = t.Generation; o != nil {
			o.Due, o.N = due, generation
		}
		return rouse.Step{To: t, Detached: side}, err
	})
	if out.before != nil { // the timer may have ended with the run
		due, generation, err = out.before.Due, out.before.N, nil
	}
	if err != nil {
		return "", 0, err
	}
	return rouse.FireID(key.Namespace, key.Name, generation, due, true), due, nil
}

// Report is the report of an accepted fire's receiver: the outcome (Done, Failed, Rejected, or Deferred if it
// gives the fire back), or with Verdict 0 a heartbeat that moves the deadline to Outcome.After from now.
type Report struct {
	FireID  string
	Token   uint64
	Outcome rouse.Outcome
}

// MaxReportSpan bounds the durations that a receiver may ask for.
const MaxReportSpan = 7 * 24 * time.Hour

// Check validates the report. Its text about a failure is cleaned where it is stored, because a receiver may
// send anything.
func (r *Report) Check() error {
	after := r.Outcome.After
	field := "retry_after"
	if r.Outcome.Verdict == 0 {
		field = "extend"
	}
	switch err := rouse.CheckFireID(r.FireID); {
	case err != nil:
		return err
	case r.Token == 0:
		return rouse.Refuse("token", "", "is missing", "give the fencing token that the fire carried")
	case after < 0:
		return rouse.Refuse(field, after.String(), "is negative", "give a positive duration")
	case after > MaxReportSpan:
		return rouse.Refuse(field, after.String(), "is out of bounds", "use at most "+MaxReportSpan.String())
	case field == "extend" && after == 0:
		return rouse.Refuse(field, "", "is missing", "say how much longer you need, such as 5m")
	case field == "extend" && after < time.Millisecond:
		return rouse.Refuse(field, after.String(), "is out of bounds", "use 1ms to "+MaxReportSpan.String())
	}
	return nil
}

// reportPatience is how long a report waits until the store has that its fire was accepted. The receiver may
// have the fire a little earlier.
const reportPatience = 2 * time.Second

// errEarly is of a report on a fire whose row is as it was when the fire was sent.
var errEarly = errors.New("its acceptance is not stored yet")

// Report settles or extends an accepted fire; it returns the deadline in force after it (0 when settled). A
// fire that is not in progress, or a token of another fire, is rouse.ErrConflict. Without a fire in the key,
// the fire is looked for in the timer's row, and then in a row of its own.
func (ts *Timers) Report(ctx context.Context, key rouse.Key, r Report) (deadline rouse.Instant, err error) {
	if err := cmp.Or(key.Check(), r.Check()); err != nil {
		return 0, err
	}
	patient, cancel := context.WithTimeout(ctx, reportPatience)
	defer cancel()
	for b := backoff.New(2*time.Millisecond, 100*time.Millisecond); ; {
		deadline, err = reportAttempt(ctx, ts, key, &r)
		if key.Fire == "" && (errors.Is(err, rouse.ErrConflict) || errors.Is(err, rouse.ErrNotFound)) &&
			!errors.Is(err, errEarly) {
			of := key
			of.Fire = r.FireID
			if at, own := reportAttempt(ctx, ts, of, &r); !errors.Is(own, rouse.ErrNotFound) {
				deadline, err = at, own
			}
		}
		if !errors.Is(err, errEarly) || !b.Pause(patient) {
			return deadline, err
		}
	}
}

func reportAttempt(ctx context.Context, ts *Timers, key rouse.Key, r *Report) (deadline rouse.Instant, err error) {
	o := newRepeatable(ctx, key, "report", r.FireID, r.Token, r.Outcome.Verdict, r.Outcome.After, r.Outcome.Detail)
	var accepted rouse.Timer // as it was before the report
	out, err := ts.editRow(ctx, access.FiresReport, key, 0, o, func(t *rouse.Timer) (rouse.Step, error) {
		occ, ok := t.Current()
		if !ok || t.Token != r.Token || t.Fire(occ).ID != r.FireID {
			err := fmt.Errorf("fire %s with token %d is not in progress: %w", r.FireID, r.Token, rouse.ErrConflict)
			if ok && t.Token == 0 && t.Revision == r.Token && t.Fire(occ).ID == r.FireID {
				err = fmt.Errorf("%w, %w", err, errEarly)
			}
			return rouse.Step{}, err
		}
		accepted = *t
		now := ts.Engine.Latest()
		if r.Outcome.Verdict == 0 {
			deadline = max(t.Visible, now.Add(r.Outcome.After)) // never shortened: a worker may extend by less than the timeout
			if o != nil {
				o.Due = deadline
			}
			if deadline == t.Visible {
				return rouse.Step{Keep: true}, nil
			}
			t.Visible = deadline
			return rouse.Step{To: t}, nil
		}
		occ.Attempt = t.Attempts
		s, err := ts.schedules.Settling(t)
		if err != nil {
			return rouse.Step{}, err
		}
		return t.After(occ, t.Token, r.Outcome, 0, now, s), nil
	})
	if out.before != nil { // the timer may have ended with the fire
		return out.before.Due, nil
	}
	if err == nil && r.Outcome.Verdict != 0 {
		ts.Engine.CountConclusion(&accepted, r.Outcome)
	}
	return deadline, err
}

// Purge deletes the dead letter that key.Fire names.
func (ts *Timers) Purge(ctx context.Context, key rouse.Key) error {
	if err := forFires(key); err != nil {
		return err
	}
	_, err := ts.Delete(ctx, key, 0)
	return err
}

// editTimer is edit that returns the timer as it is then, as the caller may see it.
func (ts *Timers) editTimer(ctx context.Context, v access.Verb, key rouse.Key, o *repeatable,
	fn func(*rouse.Timer) (rouse.Step, error)) (rouse.Timer, error) {
	var last rouse.Timer
	out, err := ts.editRow(ctx, v, key, 0, o, func(t *rouse.Timer) (rouse.Step, error) {
		step, err := fn(t)
		if last = *t; step.To != nil {
			last = *step.To
		}
		return step, err
	})
	if out.before != nil {
		last = *out.timer
	}
	last.Revision = out.revision
	ts.access.Redact(ctx, &last)
	return last, err
}

// maxTries bounds the retries of writes of several rows, of which others changed one concurrently. If a row
// changes that often, the write fails. An edit of one timer has no such bound.
const maxTries = 16

// Bounds of how long an edit waits after another client changed its row. It is tried as long as its context
// lasts: each failure is the success of another one.
const (
	firstEditPause = time.Millisecond
	nextEditPause  = 50 * time.Millisecond
)

// edited is the result of an edit.
type edited struct {
	revision uint64       // of the row now
	inFlight bool         // an attempt of the timer as it was is out
	before   *mark        // the mark of an earlier request that made this edit, so that nothing was changed now
	timer    *rouse.Timer // with before: the timer as it is now, unless the error is rouse.ErrNotFound
}

// editRow reads a row that the caller has the verb for, lets fn change it, and writes it back unless o, which
// may be nil, was done before. If it has changed since, it begins again. fn may be called several times, and
// must change nothing but its result.
func (ts *Timers) editRow(ctx context.Context, v access.Verb, key rouse.Key, ifRevision uint64, o *repeatable,
	fn func(*rouse.Timer) (rouse.Step, error)) (edited, error) {
	if err := ts.Engine.Ready(ctx); err != nil {
		return edited{}, err
	}
	var fenced uint64 // the revision by which this node has taken it over
	for b := backoff.New(firstEditPause, nextEditPause); ; {
		t, err := ts.getAllowed(ctx, v, key)
		if o != nil && (err == nil || errors.Is(err, rouse.ErrNotFound)) {
			if was, failed := o.findMark(ctx, ts, key); failed != nil || was != nil {
				return edited{revision: t.Revision, before: was, timer: &t}, cmp.Or(failed, err)
			}
		}
		if err != nil {
			return edited{}, err
		}
		if ts.match != nil && !ts.match(ctx, &t) {
			return edited{}, errNoMatch
		}
		// a fence of that revision changes nothing else
		if ifRevision != 0 && t.Revision != ifRevision && t.Revision != fenced {
			return edited{}, conflictError(key, t.Revision)
		}
		read, stored := t.Revision, t.Visible
		in := ts.Engine.HolderOf(&t)
		if fenced == read {
			in = in.Fenced(&t)
		}
		was := t
		step, err := fn(&t)
		if err != nil {
			return edited{}, err
		}
		w := &engine.Write{Was: &was}
		if step.Keep && o == nil && len(step.Log) == 0 { // it is as it should be
			return edited{revision: read}, nil
		}
		if step.To != nil && step.To.Generation == was.Generation {
			if ts.Engine.Contested(&was, stored, in) {
				if fenced, err = ts.Engine.Fence(ctx, &was, stored); err != nil {
					return edited{}, err
				}
				if fenced == 0 && !b.Pause(ctx) {
					return edited{}, ctx.Err()
				}
				continue
			}
			w.Plain, w.Renews = in.Fit(&was, step.To), in.Out
		}
		ts.Engine.AddNotices(&step, &was)
		w.Change = ts.Engine.StepChange(key, read, step)
		if o != nil {
			if err := o.addMark(ts, &w.Change, was.Bucket); err != nil {
				return edited{}, err
			}
		}
		out, err := o.writeWithNote(ctx, ts, w)
		if err != nil {
			return edited{}, err
		}
		if out.Applied {
			auditRowChange(ctx, key, read, out.Revision)
			return edited{revision: out.Revision, inFlight: w.InFlight}, nil
		}
		if !b.Pause(ctx) {
			return edited{}, ctx.Err()
		}
	}
}
