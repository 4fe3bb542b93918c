package engine

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
)

// DeleteMany removes timers that were just read, as Delete does each of them, but with one write for all. It returns an error for each, nil
// if it is gone. What has changed since it was read is read again.
func (e *Engine) DeleteMany(ctx context.Context, timers []rouse.Timer) []error {
	errs := make([]error, len(timers))
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if err := e.awake(ctx); err != nil {
		return fail(err)
	}
	keys := make([]rouse.Key, len(timers))
	for i := range timers {
		keys[i] = timers[i].Key
	}
	defer e.hold(keys...)()
	writes := make([]*write, len(timers))
	for i := range timers {
		t := &timers[i]
		writes[i] = &write{change: e.stepChange(t.Key, t.Revision, e.deletion(t))}
	}
	out, err := e.writer.Do(ctx, writes)
	if err != nil {
		return fail(err)
	}
	beside := map[string]bool{} // whether a namespace has occurrences on their way beside their timers
	for i, w := range out {
		switch {
		case w.err != nil:
			errs[i] = w.err
		case !w.Applied:
			_, errs[i] = e.Delete(ctx, keys[i], 0)
		case keys[i].Fire == "":
			errs[i] = e.sweepOf(ctx, keys[i], beside)
		}
		if errors.Is(errs[i], rouse.ErrNotFound) { // another call was faster
			errs[i] = nil
		}
	}
	return errs
}

// sweepOf sweeps one timer of many, if its namespace has anything to sweep, which is asked once.
func (e *Engine) sweepOf(ctx context.Context, key rouse.Key, beside map[string]bool) error {
	any, asked := beside[key.Namespace]
	if !asked {
		n, err := e.store.Count(ctx, rouse.Query{Namespace: key.Namespace, States: []rouse.State{rouse.StateFiring}})
		if err != nil {
			return err
		}
		any = n > 0
		beside[key.Namespace] = any
	}
	if !any {
		return nil
	}
	_, err := e.sweep(ctx, key, rouse.AnyRevision, nil)
	return err
}
