package engine

import (
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

func TestWhatANodeStillHolds(t *testing.T) {
	e := New(mem.New(), nil, nil, Options{Shared: true})
	held := time.Now()
	due := rouse.Reached(held)
	of := func(edit func(*rouse.Timer)) rouse.Row {
		tm := rouse.Timer{Key: rouse.Key{Namespace: "n", Name: "a"}, Generation: 1, Revision: 5, Due: due, Spec: rouse.Spec{Schedule: "@every 1m", Target: "test:a"}}
		edit(&tm)
		return tm.Row()
	}
	was := &entry{row: of(func(tm *rouse.Timer) { tm.Visible, tm.Revision = due, 4 }), held: held, hidden: due + 8000,
		occ: rouse.Occurrence{Due: due, Attempt: 1}}
	for name, c := range map[string]struct {
		row  rouse.Row
		mine bool
	}{
		"left alone":               {of(func(tm *rouse.Timer) { tm.Visible = due + 8001 }), true},
		"left alone twice":         {of(func(tm *rouse.Timer) { tm.Visible = due + 8002 }), true},
		"another hold's end":       {of(func(tm *rouse.Timer) { tm.Visible = due + 8000 }), false},
		"a later one":              {of(func(tm *rouse.Timer) { tm.Visible = due + 8004 }), false},
		"another generation":       {of(func(tm *rouse.Timer) { tm.Visible, tm.Generation = due+8001, 2 }), false},
		"another occurrence":       {of(func(tm *rouse.Timer) { tm.Visible, tm.Due = due+8001, due+1 }), false},
		"a run before it":          {of(func(tm *rouse.Timer) { tm.Visible, tm.Runs = due+8001, []rouse.Instant{due + 1} }), false},
		"another attempt":          {of(func(tm *rouse.Timer) { tm.Visible, tm.Attempts = due+8001, 1 }), false},
		"nothing that can be sent": {of(func(tm *rouse.Timer) { tm.Visible, tm.Paused = due+8001, true }), false},
	} {
		got := e.holds.heldOn(was, &c.row)
		if c.mine != got.Equal(held) || c.mine != (c.row.Visible == due) {
			t.Errorf("%s: held until %v, visible %v", name, got, c.row.Visible)
		}
	}
}

// TestHoldsAreToldFromOtherTimes: only visible times that can be holds of their rows are ended.
func TestHoldsAreToldFromOtherTimes(t *testing.T) {
	const span = 8 * time.Second
	now := rouse.Reached(time.Now())
	for name, c := range map[string]struct {
		edit func(*rouse.Timer)
		want rouse.Instant // 0: the row is left alone
	}{
		"held by who wrote it":           {func(t *rouse.Timer) { t.Visible = now + 8200 }, now},
		"claimed ahead":                  {func(t *rouse.Timer) { t.Visible = now + 6100 }, now},
		"due":                            {func(t *rouse.Timer) {}, 0},
		"put off a little":               {func(t *rouse.Timer) { t.Visible = now + 3000 }, 0},
		"accepted":                       {func(t *rouse.Timer) { t.Visible, t.Attempts, t.Token = now+8200, 1, 5 }, 0},
		"paused":                         {func(t *rouse.Timer) { t.Visible, t.Paused = now+8200, true }, 0},
		"its retry, held":                {func(t *rouse.Timer) { failed(t, 1); t.Visible = now + 9100 }, now + 1000},
		"its retry, claimed ahead":       {func(t *rouse.Timer) { failed(t, 1); t.Visible = now + 7200 }, now + 1000},
		"its retry, not held":            {func(t *rouse.Timer) { failed(t, 1); t.Visible = now + 1000 }, 0},
		"a retry that was put off":       {func(t *rouse.Timer) { failed(t, 1); t.Visible = now + 60_000 }, 0},
		"an attempt that may be out yet": {func(t *rouse.Timer) { failed(t, 1); t.Attempts, t.Visible = 2, now+9100 }, 0},
	} {
		e := New(mem.New(), nil, nil, Options{Shared: true})
		e.buckets.latest.Store(&grant{span: span})
		tm := rouse.Timer{Key: rouse.Key{Namespace: "n", Name: "a"}, Generation: 1, Revision: 5, Due: now, Visible: now,
			Spec: rouse.Spec{Schedule: "@every 1m", Target: "test:a", Retry: rouse.Retry{Interval: time.Second, Jitter: -1}}}
		c.edit(&tm)
		row := tm.Row()
		if ok := e.holds.uncoverRow(&row, span); ok != (c.want != 0) || ok && row.Visible != c.want {
			t.Errorf("%s: %t, visible %v after it was due", name, ok, row.Visible-now)
		}
	}
}

// failed makes attempts of a timer fail at their due time.
func failed(t *rouse.Timer, attempts uint32) {
	t.Attempts = attempts
	for range attempts {
		t.Failures = append(t.Failures, rouse.Attempt{Sent: t.Due})
	}
}
