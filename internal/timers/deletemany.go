package timers

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
)

// DeleteMany is Delete for timers that were just read for it, with one write for all. It returns an error for
// each, nil if it is gone. Timers that have changed since are read again, and have to match then.
func (ts *Timers) DeleteMany(ctx context.Context, timers []rouse.Timer) []error {
	errs := ts.deleteRows(ctx, timers)
	firing := map[string]bool{} // whether a namespace has rows next to timers
	for i := range timers {
		if errs[i] == nil && timers[i].Key.Fire == "" {
			errs[i] = ts.deleteNextTo(ctx, timers[i].Key, firing)
		}
	}
	return errs
}

// deleteRows is DeleteMany, but for the rows next to the timers.
func (ts *Timers) deleteRows(ctx context.Context, timers []rouse.Timer) []error {
	errs := make([]error, len(timers))
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return fail(err)
	}
	for i := range timers {
		v := access.TimersDelete
		if timers[i].Key.Fire != "" {
			v = access.DeadPurge
		}
		if err := ts.mayTouch(ctx, v, &timers[i]); err != nil {
			return fail(err)
		}
	}
	keys := make([]rouse.Key, len(timers))
	for i := range timers {
		keys[i] = timers[i].Key
	}
	defer ts.Engine.Freeze(keys...)()
	writes := make([]*engine.Write, len(timers))
	for i := range timers {
		t := &timers[i]
		writes[i] = &engine.Write{Change: ts.Engine.StepChange(t.Key, t.Revision, ts.deletionStep(t, deleted))}
	}
	out, err := ts.Engine.Write(ctx, writes)
	if err != nil {
		return fail(err)
	}
	for i, w := range out {
		switch {
		case w.Err != nil:
			errs[i] = w.Err
		case !w.Applied:
			_, errs[i] = ts.Delete(ctx, keys[i], 0)
		default:
			auditRowChange(ctx, keys[i], timers[i].Revision, rouse.NoRow)
		}
		if errors.Is(errs[i], rouse.ErrNotFound) { // another call was faster
			errs[i] = nil
		}
	}
	return errs
}

// deleteGone is Delete of a timer whose target answered Gone to an occurrence of a generation. If the timer
// has another generation, it stays: it may have another target.
func deleteGone(ctx context.Context, ts *Timers, key rouse.Key, generation uint64) error {
	defer ts.Engine.Freeze(key)()
	replaced := false
	_, err := ts.editRow(ctx, access.TimersDelete, key, 0, nil, func(t *rouse.Timer) (rouse.Step, error) {
		if replaced = t.Generation != generation; replaced {
			return rouse.Step{}, notFoundError(key)
		}
		return ts.deletionStep(t, deleted), nil
	})
	if replaced || err != nil && !errors.Is(err, rouse.ErrNotFound) {
		return err
	}
	_, err = rowsNextTo{ts}.deleteStale(ctx, key, deleted, nil)
	return err
}

// deleteNextTo removes the rows next to one timer of many. It first asks, once for each namespace, whether
// there are such rows at all.
func (ts *Timers) deleteNextTo(ctx context.Context, key rouse.Key, firing map[string]bool) error {
	any, asked := firing[key.Namespace]
	if !asked {
		n, err := ts.store.Count(ctx, rouse.Query{Namespace: key.Namespace, States: []rouse.State{rouse.StateFiring}})
		if err != nil {
			return err
		}
		any = n > 0
		firing[key.Namespace] = any
	}
	if !any {
		return nil
	}
	_, err := rowsNextTo{ts}.deleteStale(ctx, key, deleted, nil)
	return err
}
