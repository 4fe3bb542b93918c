package engine

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
)

// Deleted is what Delete answers.
type Deleted struct {
	Generation uint64
	InFlight   bool // an attempt had started and may still arrive; none starts after the answer
}

// Get returns a timer, or the dead letter that key.Fire names.
func (e *Engine) Get(ctx context.Context, key rouse.Key) (rouse.Timer, error) {
	rows, err := e.store.Get(ctx, []rouse.Key{key})
	if err != nil {
		return rouse.Timer{}, err
	}
	if rows[0].Revision == 0 {
		return rouse.Timer{}, rouse.ErrNotFound
	}
	return rouse.DecodeTimer(&rows[0])
}

// List returns the timers that match, in the order of keys, and where to go on.
func (e *Engine) List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error) {
	page, err := e.store.List(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	timers := make([]rouse.Timer, len(page.Rows))
	for i := range page.Rows {
		if timers[i], err = rouse.DecodeTimer(&page.Rows[i]); err != nil {
			return nil, nil, err
		}
	}
	return timers, page.Next, nil
}

// Count returns how many timers match.
func (e *Engine) Count(ctx context.Context, q rouse.Query) (int64, error) {
	return e.store.Count(ctx, q)
}

// Records returns how occurrences ended, newest first.
func (e *Engine) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	return e.store.Records(ctx, q)
}

// Delete removes a timer; with an ifRevision other than 0, only if it has that revision.
func (e *Engine) Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (Deleted, error) {
	var d Deleted
	out, err := e.edit(ctx, key, ifRevision, func(t *rouse.Timer) (rouse.Step, error) {
		d.Generation = t.Generation
		return rouse.Step{}, nil
	})
	d.InFlight = out.inFlight
	return d, err
}

// Pause stops a timer's scheduled occurrences until Resume.
func (e *Engine) Pause(ctx context.Context, key rouse.Key, reason string) (rouse.Timer, error) {
	return e.editTimer(ctx, key, func(t *rouse.Timer) (rouse.Step, error) {
		t.Pause(reason, e.clock.latest())
		return rouse.Step{To: t}, nil
	})
}

// Resume ends a pause.
func (e *Engine) Resume(ctx context.Context, key rouse.Key) (rouse.Timer, error) {
	return e.editTimer(ctx, key, func(t *rouse.Timer) (rouse.Step, error) {
		s, _ := e.compiled.of(t)
		log := t.Resume(e.clock.latest(), s, e.busy(key))
		if t.Over() { // its schedule has ended during the pause
			return rouse.Step{Log: log}, nil
		}
		return rouse.Step{To: t, Log: log}, nil
	})
}

func (e *Engine) busy(key rouse.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[key]
	return en != nil && en.busy()
}

// RunNow asks for a fire now, beside the schedule, and returns its id and due time.
func (e *Engine) RunNow(ctx context.Context, key rouse.Key) (id string, due rouse.Instant, err error) {
	t, err := e.editTimer(ctx, key, func(t *rouse.Timer) (rouse.Step, error) {
		due, err = t.Run(e.clock.latest())
		return rouse.Step{To: t}, err
	})
	if err != nil {
		return "", 0, err
	}
	return rouse.FireID(key.Namespace, key.Name, t.Generation, due, true), due, nil
}

// Report is what the receiver of an accepted fire says about it: the outcome (Done, Failed or Rejected), or with Verdict 0 a
// heartbeat that moves the deadline to Outcome.After from now.
type Report struct {
	FireID  string
	Token   uint64
	Outcome rouse.Outcome
}

// Report settles or extends an accepted fire; it returns the deadline in force after it (0 when settled). A fire that is not
// the one in progress, or a token that is not its, is rouse.ErrConflict.
func (e *Engine) Report(ctx context.Context, key rouse.Key, r Report) (deadline rouse.Instant, err error) {
	_, err = e.editTimer(ctx, key, func(t *rouse.Timer) (rouse.Step, error) {
		occ, ok := t.Current()
		if !ok || t.Token == 0 || t.Token != r.Token || t.Fire(occ).ID != r.FireID {
			return rouse.Step{}, fmt.Errorf("fire %s with token %d is not in progress: %w", r.FireID, r.Token, rouse.ErrConflict)
		}
		now := e.clock.latest()
		if r.Outcome.Verdict == 0 {
			t.Visible = now.Add(r.Outcome.After)
			deadline = t.Visible
			return rouse.Step{To: t}, nil
		}
		occ.Attempt = t.Attempts
		s, _ := e.compiled.of(t)
		return t.After(occ, t.Token, r.Outcome, 0, now, s), nil
	})
	return deadline, err
}

// Redrive gives the dead letter that key.Fire names a new set of attempts, with the same fire id.
func (e *Engine) Redrive(ctx context.Context, key rouse.Key) error {
	_, err := e.editTimer(ctx, key, func(t *rouse.Timer) (rouse.Step, error) {
		to := t.Redrive(e.clock.latest())
		return rouse.Step{To: &to}, nil
	})
	return err
}

// Purge forgets the dead letter that key.Fire names.
func (e *Engine) Purge(ctx context.Context, key rouse.Key) error {
	_, err := e.Delete(ctx, key, 0)
	return err
}

func (e *Engine) editTimer(ctx context.Context, key rouse.Key, fn func(*rouse.Timer) (rouse.Step, error)) (rouse.Timer, error) {
	var last rouse.Timer
	out, err := e.edit(ctx, key, 0, func(t *rouse.Timer) (rouse.Step, error) {
		step, err := fn(t)
		if last = *t; step.To != nil {
			last = *step.To
		}
		return step, err
	})
	last.Revision = out.revision
	return last, err
}

// maxTries bounds how often an edit starts anew because the row changed under it. Each time somebody else got a change
// through; a timer that is changed so often is not worth more.
const maxTries = 16

// edited is what an edit came to.
type edited struct {
	revision uint64 // of the row now
	inFlight bool   // an attempt of the generation that the edit ended is out
}

// edit reads a row, lets fn change it, and writes it back if nobody else did meanwhile. fn may be called several times, and
// must not change what it was given but by its result.
func (e *Engine) edit(ctx context.Context, key rouse.Key, ifRevision uint64, fn func(*rouse.Timer) (rouse.Step, error)) (edited, error) {
	if err := e.awake(ctx); err != nil {
		return edited{}, err
	}
	for range maxTries {
		t, err := e.Get(ctx, key)
		if err != nil {
			return edited{}, err
		}
		if ifRevision != 0 && t.Revision != ifRevision {
			return edited{}, fmt.Errorf("the revision is %d: %w", t.Revision, rouse.ErrConflict)
		}
		read := t.Revision
		step, err := fn(&t)
		if err != nil {
			return edited{}, err
		}
		w := &write{change: stepChange(key, read, step)}
		out, err := e.writer.Do(ctx, []*write{w})
		if err != nil {
			return edited{}, err
		}
		if out[0].err != nil {
			return edited{}, out[0].err
		}
		if out[0].Applied {
			return edited{out[0].Revision, w.inFlight}, nil
		}
	}
	return edited{}, fmt.Errorf("the timer changes all the time: %w", rouse.ErrConflict)
}

// stepChange is the one conditional write that makes a step.
func stepChange(key rouse.Key, read uint64, step rouse.Step) rouse.Change {
	c := rouse.Change{Key: key, If: read, Keep: step.Keep, Log: step.Log}
	if step.To != nil {
		row := step.To.Row()
		c.To = &row
	}
	if step.Dead != nil {
		c.Also = []rouse.Row{step.Dead.Row()}
	}
	return c
}
