package timers

import (
	"context"
	"errors"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// rowsNextTo are the rows next to timers that are on their way: overlapping, requested, backfilled and
// redriven occurrences.
type rowsNextTo struct{ *Timers }

// eachFiring calls do for each row next to a timer that is on its way.
func (ts rowsNextTo) eachFiring(ctx context.Context, key rouse.Key,
	do func(ctx context.Context, t *rouse.Timer) error) error {
	firing := []rouse.State{rouse.StateFiring}
	if n, err := ts.store.Count(ctx, rouse.Query{Namespace: key.Namespace, States: firing}); err != nil || n == 0 {
		return err
	}
	ctx = access.AsSystem(ctx)
	return ts.Timers.eachReadable(ctx, rouse.Query{Namespace: key.Namespace, Name: key.Name, States: firing},
		func(t *rouse.Timer) error {
			if err := do(ctx, t); !errors.Is(err, rouse.ErrNotFound) { // else it has ended in the meantime
				return err
			}
			return nil
		})
}

// deleteStale removes the rows next to a timer that are on their way and not of its present generation,
// but for the keys to keep: its generation was replaced, or it was deleted. It returns the latest generation
// that it removed one of, 0 for none, and whether an attempt of one of them is in flight.
func (ts rowsNextTo) deleteStale(ctx context.Context, key rouse.Key, end cut,
	keep map[rouse.Key]bool) (swept Deleted, err error) {
	ts.Timers = ts.withMatch(nil) // they were not selected, but are next to the timer
	var now *rouse.Row
	err = ts.eachFiring(ctx, key, func(ctx context.Context, t *rouse.Timer) error {
		if now == nil {
			rows, err := ts.store.Get(ctx, []rouse.Key{key})
			if err != nil {
				return err
			}
			now = &rows[0]
		}
		if keep[t.Key] || t.Notice != 0 || now.Revision != 0 && t.Generation == now.Generation {
			return nil
		}
		d, err := ts.deleteRow(ctx, t.Key, 0, end)
		if swept.InFlight = swept.InFlight || d.InFlight; err == nil {
			swept.Generation = max(swept.Generation, d.Generation)
		}
		return err
	})
	return swept, err
}

// amendRows gives the rows next to a timer that are on their way, and of its generation, the timer's spec. It
// removes those of an earlier generation that the write which ended it did not come to: rows that a client
// has asked for since stay. So a write that was interrupted is completed when it is repeated. It reports
// whether an attempt of a row as it was is in flight.
func (ts rowsNextTo) amendRows(ctx context.Context, of *rouse.Timer, end cut) (inFlight bool, err error) {
	ts.Timers = ts.withMatch(nil)
	err = ts.eachFiring(ctx, of.Key, func(ctx context.Context, t *rouse.Timer) error {
		switch {
		case t.Notice != 0:
			return nil
		case t.Generation != of.Generation && t.Updated < of.Anchor:
			d, err := ts.deleteRow(ctx, t.Key, 0, end)
			inFlight = inFlight || d.InFlight
			return err
		case t.Generation != of.Generation:
			return nil
		}
		out, err := ts.editRow(ctx, access.TimersCreate, t.Key, 0, nil, func(t *rouse.Timer) (rouse.Step, error) {
			if !t.Live || timerContents(&rouse.Timer{Spec: t.Spec}) == timerContents(&rouse.Timer{Spec: of.Spec}) {
				return rouse.Step{Keep: true}, nil
			}
			t.Spec, t.LimitKey = of.Spec, of.LimitKey
			return rouse.Step{To: t}, nil
		})
		inFlight = inFlight || out.inFlight
		return err
	})
	return inFlight, err
}

// roomForRun refuses a run of a timer that has as many next to it as it may.
func (ts rowsNextTo) roomForRun(ctx context.Context, t *rouse.Timer) error {
	runs := 0
	err := ts.eachFiring(ctx, t.Key, func(_ context.Context, side *rouse.Timer) error {
		if side.Manual && side.Generation == t.Generation {
			runs++
		}
		return nil
	})
	if err == nil && runs >= rouse.MaxRuns {
		err = rouse.Refuse("name", t.Key.Name, strconv.Itoa(runs)+" runs of this timer are on their way already",
			"wait for them to end")
	}
	return err
}
