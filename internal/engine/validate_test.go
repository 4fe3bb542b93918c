package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// TestValidatedPutsWriteNothing: a validated put has the verdict that the same put has, and leaves nothing.
func TestValidatedPutsWriteNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h, limit, end := limited(t)
		defer end()
		hourly := rouse.Spec{Schedule: "@every 1h", Target: "test:a"}
		stored := h.put("a", "@every 1h")
		rows := func() int64 {
			n, err := h.Count(ctx, rouse.Query{States: rouse.AllStates})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, c := range []struct {
			what string
			put  timers.Put
			want error
		}{
			{"a new one", timers.Put{Key: key("b"), Spec: hourly}, nil},
			{"a name that is taken", timers.Put{Key: key("a"), Spec: hourly}, rouse.ErrExists},
			{"a replacement", timers.Put{Key: key("a"), Spec: hourly, Mode: timers.CreateOrReplace}, nil},
			{"another payload", timers.Put{Key: key("a"), Spec: rouse.Spec{Schedule: hourly.Schedule, Target: hourly.Target, Payload: []byte("x")}, Mode: timers.CreateOrReplace}, nil},
			{"a replacement of nothing", timers.Put{Key: key("b"), Spec: hourly, Mode: timers.ReplaceOnly}, rouse.ErrNotFound},
			{"the revision", timers.Put{Key: key("a"), Spec: hourly, Mode: timers.ReplaceOnly, IfRevision: stored.Revision}, nil},
			{"another revision", timers.Put{Key: key("a"), Spec: hourly, Mode: timers.ReplaceOnly, IfRevision: stored.Revision + 1}, rouse.ErrConflict},
			{"a revision of nothing", timers.Put{Key: key("b"), Spec: hourly, IfRevision: 1}, rouse.ErrNotFound},
			{"a schedule that never fires", timers.Put{Key: key("b"), Spec: rouse.Spec{Schedule: "0 0 30 2 *", Target: "test:a"}}, new(rouse.Invalid)},
		} {
			c.put.Validate = true
			res, err := h.Put(ctx, []timers.Put{c.put})
			is := firstErr(res, err)
			if _, invalid := c.want.(*rouse.Invalid); invalid && errors.As(is, new(*rouse.Invalid)) {
				continue
			}
			if !errors.Is(is, c.want) {
				t.Errorf("%s: %v, want %v", c.what, is, c.want)
				continue
			}
			if r := res[0]; c.want == nil && ((r.Timer.Revision != 0) != r.Unchanged || r.Timer.Spec.Schedule != hourly.Schedule || len(r.Next) != 5 || r.Next[0] != r.Timer.Due ||
				r.Next[4] != r.Timer.Due.Add(4*time.Hour) || r.Replaced != (c.put.Key.Name == "a")) {
				t.Errorf("%s: %+v", c.what, r)
			}
		}
		batch := []timers.Put{{Key: key("x"), Spec: hourly, Validate: true}, {Key: key("x"), Spec: hourly, Validate: true}, {Key: key("a"), Spec: hourly, Validate: true}}
		res, err := h.Put(ctx, batch)
		if err != nil || res[0].Err != nil || !errors.Is(res[1].Err, rouse.ErrExists) || !errors.Is(res[2].Err, rouse.ErrExists) || res[0].Timer.Due == 0 {
			t.Errorf("a batch: %+v, %v", res, err)
		}
		later, err := h.Reschedule(ctx, key("a"), rouse.Spec{Schedule: "@every 2h"}, stored.Revision, true)
		if err != nil || later.Timer.Spec.Schedule != "@every 2h" || len(later.Next) != 5 {
			t.Errorf("rescheduled: %+v, %v", later, err)
		}
		for what, check := range map[string]struct {
			when     string
			revision uint64
		}{"another revision": {"@every 2h", stored.Revision + 1}, "no schedule": {"soon", 0}} {
			if _, err := h.Reschedule(ctx, key("a"), rouse.Spec{Schedule: check.when}, check.revision, true); err == nil {
				t.Errorf("rescheduled with %s", what)
			}
		}
		if now, err := h.Get(ctx, key("a")); err != nil || now.Revision != stored.Revision || rows() != 1 {
			t.Errorf("afterwards: %+v, %v, and %d rows", now, err, rows())
		}

		limit(rouse.Quotas{Timers: 1})
		if err := firstErr(h.Put(ctx, []timers.Put{{Key: key("b"), Spec: hourly, Validate: true}})); !errors.Is(err, rouse.ErrQuota) {
			t.Errorf("one more than the quota: %v", err)
		}
		limit(rouse.Quotas{Bytes: 5000})
		time.Sleep(time.Minute + time.Second) // they are measured
		large := hourly
		large.Payload = make([]byte, 3500)
		for range 5 { // none takes the room of the next one
			if err := firstErr(h.Put(ctx, []timers.Put{{Key: key("b"), Spec: large, Validate: true}})); err != nil {
				t.Errorf("what has room: %v", err)
			}
		}
		if err := firstErr(h.Put(ctx, []timers.Put{{Key: key("b"), Spec: large}})); err != nil {
			t.Errorf("what was validated: %v", err)
		}
	})
}
