package engine

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
)

// Import writes timers, rows beside them and dead letters as List returned them, here or elsewhere, each with an outcome of its
// own. Timers keep their state, due time and counts, and begin a new generation, so their fires have new ids; a dead letter
// keeps its fire id. An attempt that was in progress is made again.
func (e *Engine) Import(ctx context.Context, timers []rouse.Timer, mode Mode) ([]PutResult, error) {
	if err := e.awake(ctx); err != nil {
		return nil, err
	}
	results := make([]PutResult, len(timers))
	var items []*write
	var at []int
	puts := make([]Put, len(timers))
	here := make(map[rouse.Key]bool, len(timers))
	for i := range timers {
		puts[i] = Put{Key: timers[i].Key, Mode: mode}
		here[timers[i].Key] = true
		t, w, err := e.imported(ctx, timers[i], mode)
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i].Timer = t
		items, at = append(items, w), append(at, i)
	}
	if len(items) == 0 {
		return results, nil
	}
	if err := e.writePuts(ctx, puts, items, at, here, results); err != nil {
		return nil, err
	}
	return results, nil
}

// imported checks a timer from elsewhere, and makes its change.
func (e *Engine) imported(ctx context.Context, t rouse.Timer, mode Mode) (rouse.Timer, *write, error) {
	if err := t.Key.Check(); err != nil {
		return t, nil, err
	}
	if err := e.checkSpec(&t.Spec); err != nil {
		return t, nil, err
	}
	if t.Key.Fire == "" {
		t.Generation = 0
	} else if id := rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, t.Due, t.Manual); id != t.Key.Fire {
		return t, nil, rouse.Refuse("fire_id", t.Key.Fire, "is not the id of this fire, "+id, "export it again, with its generation and due time")
	}
	t.Bucket, t.Revision, t.Token = e.placed(t.Key, t.Spec.Target), 0, 0
	if err := t.Settle(e.clock.latest()); err != nil {
		return t, nil, err
	}
	s, err := e.compiled.parse(&t.Spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
	if err == nil && t.Key.Fire == "" && t.Due < rouse.UnknownDue { // one that goes on by its schedule
		err = cmp.Or(t.Spec.CheckCost(t.Due-1, s), e.checkEvery(&t.Spec, t.Due-1, s))
	}
	if err != nil {
		return t, nil, err
	}
	c := e.stepChange(t.Key, 0, rouse.Step{To: &t})
	switch mode {
	case CreateOnly:
		c.If = rouse.NoRow
	case CreateOrReplace:
		c.If = rouse.AnyRevision
	default:
		rows, err := e.store.Get(ctx, []rouse.Key{t.Key})
		if err != nil {
			return t, nil, err
		}
		if rows[0].Revision == 0 {
			return t, nil, missing(t.Key)
		}
		c.If = rows[0].Revision
	}
	return t, &write{change: c}, nil
}
