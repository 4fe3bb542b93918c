package timers

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
)

// Import writes timers, detached occurrences and dead letters as List of this or another service returned
// them, each with its own outcome. Timers keep their state, due time and counts, and begin a new generation,
// so their fires have new ids; a dead letter keeps its fire id. An attempt that was in progress is repeated.
func (ts *Timers) Import(ctx context.Context, timers []rouse.Timer, mode Mode) ([]PutResult, error) {
	if err := ts.Engine.Ready(ctx); err != nil {
		return nil, err
	}
	results := make([]PutResult, len(timers))
	defer notePuts(ctx, results)
	var items []*engine.Write
	var at []int
	puts := make([]Put, len(timers))
	here := make(map[rouse.Key]bool, len(timers))
	for i := range timers {
		puts[i] = Put{Key: timers[i].Key, Mode: mode, asks: "import " + contents(&timers[i])}
		here[timers[i].Key] = true
		t, w, err := ts.imported(ctx, timers[i], &puts[i])
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
	if err := ts.writePuts(ctx, puts, items, at, here, results); err != nil {
		return nil, err
	}
	return results, nil
}

// imported checks a timer from elsewhere, and makes its change.
func (ts *Timers) imported(ctx context.Context, t rouse.Timer, p *Put) (rouse.Timer, *engine.Write, error) {
	if err := t.Key.Check(); err != nil {
		return t, nil, err
	}
	if t.Redacted {
		return t, nil, rouse.Refuse("redacted", "true", "is of a timer whose payload and headers were left out", "export it again with a credential that has the verb reveal")
	}
	if err := ts.checkSpec(&t.Spec); err != nil {
		return t, nil, err
	}
	if err := ts.mayTouch(ctx, access.TimersImport, &t); err != nil {
		return t, nil, err
	}
	if err := cmp.Or((expecting{ts}).checkExpect(ctx, t.Key.Namespace, &t.Spec), ts.checkNamespace(ctx, t.Key.Namespace, &t.Spec)); err != nil {
		return t, nil, err
	}
	if t.Key.Fire == "" {
		t.Generation = 0
	} else if id := rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, t.Due, t.Manual); id != t.Key.Fire {
		return t, nil, rouse.Refuse("fire_id", t.Key.Fire, "is not the id of this fire, "+id, "export it again, with its generation and due time")
	}
	t.Bucket, t.Revision = ts.placed(t.Key, t.Spec.Target), 0
	if err := t.Normalize(ts.Engine.Latest()); err != nil {
		return t, nil, err
	}
	s, err := ts.schedules.Parse(&t.Spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
	if err == nil && t.Key.Fire == "" && t.Due < rouse.UnknownDue { // one that goes on by its schedule
		err = cmp.Or(t.Spec.CheckCost(t.Due-1, s), ts.checkEvery(t.Key.Namespace, &t.Spec, t.Due-1, s))
	}
	if err != nil {
		return t, nil, err
	}
	was, err := ts.replacing(ctx, access.TimersImport, p)
	if err != nil {
		return t, nil, err
	}
	step := rouse.Step{To: &t}
	if x, ok := (expecting{ts}).expects(&t, s); ok {
		step.Also = []rouse.Timer{x}
	}
	c := ts.Engine.StepChange(t.Key, 0, step)
	switch p.Mode {
	case CreateOnly:
		c.If = rouse.NoRow
	case CreateOrReplace:
		c.If = rouse.AnyRevision
		if p.by != "" {
			c.If = was
		}
	default:
		rows, err := ts.store.Get(ctx, []rouse.Key{t.Key})
		if err != nil {
			return t, nil, err
		}
		if rows[0].Revision == 0 {
			return t, nil, missing(t.Key)
		}
		if c.If = rows[0].Revision; p.by != "" {
			c.If = was
		}
	}
	return t, &engine.Write{Change: c}, nil
}
