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
		got := e.heldOn(was, &c.row)
		if c.mine != got.Equal(held) || c.mine != (c.row.Visible == due) {
			t.Errorf("%s: held until %v, visible %v", name, got, c.row.Visible)
		}
	}
}
