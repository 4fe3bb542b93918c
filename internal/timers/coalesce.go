package timers

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
)

// Coalesce makes one fire of many calls with one name, by c: it creates the timer, or merges the call into
// the existing one. The newest call's spec wins, and begins a new generation. The spec has no schedule.
func (ts *Timers) Coalesce(ctx context.Context, key rouse.Key, spec rouse.Spec, c rouse.Coalesce) (res PutResult, err error) {
	var span *rouse.TraceContext
	if begin := ts.opts.Engine.Created; begin != nil {
		var end func(error)
		span, end = begin(ctx, key, 1)
		defer func() { end(err) }()
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return PutResult{}, err
	}
	if err := c.Check(); err != nil {
		return PutResult{}, err
	}
	if err := plain(&spec); err != nil {
		return PutResult{}, err
	}
	checked := spec
	checked.Schedule = ts.Engine.Now().String()
	if err := ts.checkPut(ctx, &Put{Key: key, Spec: checked}); err != nil {
		return PutResult{}, err
	}
	if err := ts.access.Require(ctx, access.TimersCreate, key.Namespace, spec.Target, spec.Labels); err != nil {
		return PutResult{}, err
	}
	ts.Engine.WarnUnclaimed(key.Namespace)
	defer ts.Engine.Freeze(key)()
	o := asks(ctx, key.Namespace, "coalesce", c, contents(&rouse.Timer{Spec: spec}))
	for range maxTries {
		rows, err := ts.store.Get(ctx, []rouse.Key{key})
		if err != nil {
			return PutResult{}, err
		}
		if o != nil {
			if was, err := o.done(ctx, ts, key); err != nil || was != nil {
				return there(ctx, ts, key, &rows[0], err)
			}
		}
		var old *rouse.Timer
		if rows[0].Revision != 0 {
			t, err := ts.Read(&rows[0])
			if err != nil {
				return PutResult{}, err
			}
			if err := ts.mayTouch(ctx, access.TimersCreate, &t); err != nil {
				return PutResult{}, err
			}
			old = &t
			if old.Spec.Recurring() {
				return PutResult{}, fmt.Errorf("the timer %q recurs, so calls cannot be merged into it: %w", key.Name, rouse.ErrConflict)
			}
		}
		if err := ts.admission.one(ctx, key.Namespace, old == nil); err != nil {
			return PutResult{}, err
		}
		busy, mayBeOut := old != nil && ts.Engine.Busy(old), old != nil && ts.Engine.MayBeOut(old)
		if mayBeOut && !busy {
			busy = !ts.Engine.HolderOf(old).Mine // with another node
		}
		t := c.Merge(key, spec, old, busy, ts.Engine.Latest())
		t.Bucket, t.Trace = ts.placed(key, spec.Target), span
		row := t.Row()
		if err := ts.admission.grows(key.Namespace, &rows[0], &row); err != nil {
			return PutResult{}, err
		}
		step := rouse.Step{To: &t}
		if old != nil {
			ts.cutOff(&step, old, cut{rouse.CauseReplaced, "replaced by a newer call"})
		}
		w := &engine.Write{Change: ts.Engine.StepChange(key, rows[0].Revision, step)}
		if o != nil {
			if err := o.leave(ts, &w.Change, t.Bucket); err != nil {
				return PutResult{}, err
			}
		}
		out, err := ts.Engine.Write(ctx, []*engine.Write{w})
		if err != nil {
			return PutResult{}, err
		}
		if out[0].Err != nil {
			return PutResult{}, out[0].Err
		}
		if out[0].Applied {
			t.Revision, t.Generation = out[0].Revision, out[0].Revision
			touched(ctx, key, rows[0].Revision, t.Revision)
			return PutResult{Timer: t, Replaced: old != nil, InFlight: w.InFlight || mayBeOut}, nil
		}
	}
	return PutResult{}, fmt.Errorf("the timer changes all the time: %w", rouse.ErrConflict)
}

// plain refuses what a coalesced timer cannot have, because its schedule is derived.
func plain(s *rouse.Spec) error {
	for _, f := range []struct {
		name string
		is   bool
	}{{"schedule", s.Schedule != ""}, {"timezone", s.Timezone != ""}, {"also", len(s.Also) > 0}, {"except", len(s.Except) > 0}, {"dst", s.DST != ""},
		{"calendar", len(s.Calendar.Off) > 0 || len(s.Calendar.Only) > 0}, {"start", s.Start != 0}, {"end", s.End != 0}, {"ttl", s.TTL != 0},
		{"max_occurrences", s.MaxOccurrences != 0}, {"jitter", s.Jitter != 0}, {"overlap", s.Overlap != 0},
		{"pause_after", s.PauseAfter != 0}, {"expect", s.Expect.Any()}} {
		if f.is {
			return rouse.Refuse(f.name, "", "does not go with debounce or throttle, which say when", "leave it out")
		}
	}
	if s.Keep != 0 {
		return rouse.Refuse("keep", s.Keep.String(), "does not go with debounce or throttle", "leave it out")
	}
	return nil
}
