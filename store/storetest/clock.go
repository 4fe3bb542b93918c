package storetest

import (
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// Clock tests that a store uses the clock that it is given, such as the adjustable clock of a development
// server. open returns an empty store with that clock.
func Clock(t *testing.T, open func(t *testing.T, clock func() time.Time) rouse.Store) {
	now := time.Now()
	s := open(t, func() time.Time { return now }) // read only by calls of this goroutine
	b := &bench{T: t, Store: s}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	const month = 30 * 24 * time.Hour
	r := []rouse.Row{dueRow("today", 0), dueRow("in a month", 0), dueRow("later", 0)}
	r[0].Visible, r[1].Visible, r[2].Visible = rouse.Reached(now), rouse.Reached(now.Add(month)),
		rouse.Reached(now.Add(month+time.Hour))
	r = b.mustCreate(r...)
	b.checkSameRows("today", b.mustClaim(rouse.Window{}).Rows, r[:1])

	now = now.Add(month)
	if got := b.storeTime(); got != rouse.Reached(now) {
		t.Errorf("now is %v, the clock is at %v", got, now)
	}
	batch := b.mustClaim(rouse.Window{})
	b.checkSameRows("in a month", batch.Rows, r[:2])
	if batch.Now != rouse.Reached(now) {
		t.Errorf("a claim's now is %v, the clock is at %v", batch.Now, now)
	}
	b.mustClaim(rouse.Window{Hold: time.Minute})
	if got := b.mustGet(r[0].Key)[0].Visible; got != rouse.Reached(now).Add(time.Minute) {
		t.Errorf("a hold of a minute ends at %v, the clock is at %v", got, now)
	}
	b.checkSameRows("held", b.mustClaim(rouse.Window{}).Rows, nil)
	now = now.Add(time.Minute)
	if n := len(b.mustClaim(rouse.Window{}).Rows); n != 2 {
		t.Errorf("%d rows when the hold has ended, want 2", n)
	}
}
