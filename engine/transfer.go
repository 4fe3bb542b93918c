package engine

import (
	"context"
	"fmt"

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
	for i := range timers {
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
	out, err := e.writer.Do(ctx, items)
	if err != nil {
		return nil, err
	}
	for j, r := range out {
		res := &results[at[j]]
		switch {
		case r.err != nil:
			res.Err = r.err
		case !r.Applied:
			res.Err = refused(&Put{Mode: mode}, r.Existed)
		default:
			res.Timer.Revision, res.Replaced, res.InFlight = r.Revision, r.Existed, items[j].inFlight
			if res.Timer.Generation == 0 {
				res.Timer.Generation = r.Revision
			}
		}
	}
	return results, nil
}

// imported checks a timer from elsewhere, and makes its change.
func (e *Engine) imported(ctx context.Context, t rouse.Timer, mode Mode) (rouse.Timer, *write, error) {
	if err := e.check(&Put{Key: t.Key, Spec: t.Spec}); err != nil {
		return t, nil, err
	}
	s, err := e.compiled.parse(&t.Spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
	if err != nil {
		return t, nil, err
	}
	t.Bucket, t.Revision, t.Token = e.bucket(t.Key), 0, 0
	now := e.clock.latest()
	if t.Created == 0 {
		t.Created = now
	}
	if t.Key.Fire != "" {
		if id := rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, t.Due, t.Manual); id != t.Key.Fire {
			return t, nil, rouse.Refuse("fire_id", t.Key.Fire, "is not the id of this fire, "+id, "export it again, with its generation and due time")
		}
		if t.Live {
			t.Visible = now
		} else if t.Updated == 0 {
			t.Updated = now
		}
	} else {
		t.Generation = 0
		if err := t.Settle(now, s); err != nil {
			return t, nil, err
		}
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
			return t, nil, fmt.Errorf("%q: %w", t.Key.Name, rouse.ErrNotFound)
		}
		c.If = rows[0].Revision
	}
	return t, &write{change: c}, nil
}
