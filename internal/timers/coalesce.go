package timers

import (
	"context"

	"github.com/rousehq/rouse"
)

// Coalesce makes one fire of many calls with one name, by c: it creates the timer, or merges the call into
// the existing one. The newest call's spec wins, and begins a new generation. The spec has no schedule. Calls
// of one name that come at the same time may be one write: then all are answered with the timer that they
// made.
func (ts *Timers) Coalesce(ctx context.Context, key rouse.Key, spec rouse.Spec,
	c rouse.Coalesce) (res PutResult, err error) {
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
	if err := refuseUncoalescable(&spec); err != nil {
		return PutResult{}, err
	}
	checked := spec
	checked.Schedule = ts.Engine.Now().String()
	if err := ts.checkPut(ctx, &Put{Key: key, Spec: checked}); err != nil {
		return PutResult{}, err
	}
	ts.Engine.WarnUnclaimed(key.Namespace)
	o := newRepeatable(ctx, key, "coalesce", c, timerContents(&rouse.Timer{Spec: spec}))
	return ts.lines.awaitAnswer(key, &call{ts: ts, ctx: ctx, spec: spec, how: c, span: span, asks: o})
}

// refuseUncoalescable refuses fields that a coalesced timer cannot have, because its schedule is derived.
func refuseUncoalescable(s *rouse.Spec) error {
	for _, f := range []struct {
		name string
		is   bool
	}{{"schedule", s.Schedule != ""}, {"timezone", s.Timezone != ""}, {"also", len(s.Also) > 0}, {"except",
		len(s.Except) > 0}, {"dst", s.DST != ""},
		{"calendar", len(s.Calendar.Off) > 0 || len(s.Calendar.Only) > 0}, {"start", s.Start != 0}, {"end", s.End != 0},
		{"ttl", s.TTL != 0},
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
