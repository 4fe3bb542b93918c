package timers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

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
	puts := make([]Put, len(timers))
	defer notePuts(ctx, puts, results)
	here := make(map[rouse.Key]bool, len(timers))
	keys := make([]rouse.Key, len(timers))
	left := make([]int, len(timers))
	for i := range timers {
		keys[i], left[i] = timers[i].Key, i
		puts[i] = Put{Key: keys[i], Mode: mode, asks: "import " + timerContents(&timers[i])}
		here[keys[i]] = true
	}
	defer ts.freezeAllowed(ctx, access.TimersImport, keys...)()
	for range maxTries {
		if err := importSome(ctx, ts, timers, puts, left, here, results); err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(i int) bool { // of these, another version was there when they were written
			return mode != CreateOrReplace || !errors.Is(results[i].Err, rouse.ErrConflict)
		})
		if len(left) == 0 {
			break
		}
	}
	return results, nil
}

// importSome imports the timers at some places.
func importSome(ctx context.Context, ts *Timers, timers []rouse.Timer, puts []Put, places []int,
	here map[rouse.Key]bool, results []PutResult) error {
	existing, err := existingRows(ctx, ts.store, puts)
	if err != nil {
		return err
	}
	var items []*engine.Write
	var at []int
	for _, i := range places {
		var old rouse.Row
		if existing != nil {
			old = existing[i]
		}
		var w *engine.Write
		if results[i], w = prepareImport(ctx, ts, timers[i], &puts[i], &old); w != nil {
			items, at = append(items, w), append(at, i)
		}
	}
	if len(items) == 0 {
		return nil
	}
	return ts.writePuts(ctx, puts, items, at, here, results)
}

// prepareImport checks a timer from elsewhere, and makes its change; nil if it is refused, or equals the
// timer that is there.
func prepareImport(ctx context.Context, ts *Timers, t rouse.Timer, p *Put, old *rouse.Row) (PutResult, *engine.Write) {
	t, s, err := acceptImport(ctx, ts, t)
	if err != nil {
		return PutResult{Err: err}, nil
	}
	step := rouse.Step{To: &t}
	if x, ok := (expecting{ts}).expectationRow(&t, s); ok {
		step.Also = []rouse.Timer{x}
	}
	w := &engine.Write{}
	switch {
	case old.Revision == 0 && p.Mode == ReplaceOnly:
		return PutResult{Err: notFoundError(t.Key)}, nil
	case old.Revision != 0:
		if err := ts.mayReplace(ctx, access.TimersImport, old); err != nil {
			return PutResult{Err: err}, nil
		}
		if was, err := ts.Read(old); err == nil {
			if sameImport(was, &t, ts.Engine.Latest()) {
				ts.access.Redact(ctx, &was)
				res := PutResult{Timer: was, Replaced: true, Unchanged: true}
				if access.RepeatKey(ctx) == "" {
					return res, nil
				}
				// with the mark of the request
				return res, &engine.Write{Change: rouse.Change{Key: t.Key, If: old.Revision, Keep: true}}
			}
			if t.Key.Fire == "" { // else it is the same occurrence, which goes on
				ts.cutOff(&step, &was, cut{rouse.CauseReplaced, "replaced by an import"})
			}
			w.Was = &was
		}
	}
	w.Change = ts.Engine.StepChange(t.Key, old.Revision, step)
	return PutResult{Timer: t}, w
}

// sameImport reports whether a timer is as its import would have it.
func sameImport(was rouse.Timer, t *rouse.Timer, now rouse.Instant) bool {
	if was.Revision, was.Token = 0, 0; was.Key.Fire == "" {
		was.Generation = 0
	}
	// the import of a dead letter keeps it for as long as a new one
	if was.State() == rouse.StateDead || was.Normalize(now) != nil {
		return false
	}
	a, b := was.Row(), t.Row()
	return a.Generation == b.Generation && a.Bucket == b.Bucket && a.Due == b.Due && bytes.Equal(a.Body, b.Body) &&
		maps.Equal(a.Labels, b.Labels)
}

// acceptImport checks a timer from elsewhere, and returns it as it is stored, with its schedule.
func acceptImport(ctx context.Context, ts *Timers, t rouse.Timer) (rouse.Timer, rouse.Schedule, error) {
	if err := t.Key.Check(); err != nil {
		return t, nil, err
	}
	if t.Redacted {
		return t, nil, rouse.Refuse("redacted", "true", "is of a timer whose payload and headers were left out",
			"export it again with a credential that has the verb reveal")
	}
	if err := ts.checkSpec(&t.Spec); err != nil {
		return t, nil, err
	}
	if err := ts.mayTouch(ctx, access.TimersImport, &t); err != nil {
		return t, nil, err
	}
	if err := ts.checkInNamespace(ctx, t.Key, &t.Spec); err != nil {
		return t, nil, err
	}
	if t.Key.Fire == "" {
		t.Generation = 0
	} else if id := rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, t.Due, t.Manual); id != t.Key.Fire {
		return t, nil, rouse.Refuse("fire_id", t.Key.Fire, "is not the id of this fire, "+id,
			"export it again, with its generation and due time")
	}
	if err := ts.placeTimer(&t); err != nil {
		return t, nil, err
	}
	t.Revision = 0
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
	return t, s, nil
}
