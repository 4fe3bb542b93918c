package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// The combined bounds of several slow answers are narrower than each one's and contain the true time. After a
// clock was moved, the next answer alone counts.
func TestSlowAnswersTellTheClockTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		off := time.Hour
		truth := func() time.Time { return time.Now().Add(off) }
		answer := func(there, back time.Duration) {
			sent := time.Now()
			time.Sleep(there)
			store := rouse.Instant(truth().UnixMilli())
			time.Sleep(back)
			c.updateBounds(store, sent, time.Now(), false)
		}
		holds := func(within time.Duration) {
			t.Helper()
			now := rouse.Instant(truth().UnixMilli())
			if c.earliestNow() > now || c.latestNow() < now {
				t.Errorf("the clock shows %v, it is taken for %v to %v", now, c.earliestNow(), c.latestNow())
			}
			if width := c.latestNow().Sub(c.earliestNow()); width > within {
				t.Errorf("it is known to %v only", width)
			}
		}
		answer(300*time.Millisecond, 2*time.Millisecond)
		holds(304 * time.Millisecond)
		answer(1500*time.Microsecond, 400*time.Millisecond)
		holds(7 * time.Millisecond)
		for range 50 {
			time.Sleep(time.Second)
			answer(100*time.Millisecond, 100*time.Millisecond)
			holds(200 * time.Millisecond)
		}
		for _, jump := range []time.Duration{-time.Hour, 2 * time.Hour, -time.Second, time.Second} {
			off += jump
			answer(time.Millisecond, time.Millisecond)
			holds(4 * time.Millisecond)
		}
	})
}

// A time has come when the wait for it ends, and not sooner, wherever in a millisecond the wait begins.
func TestTheWaitForATimeIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		if wait := c.untilEarliest(1); wait != time.Millisecond {
			t.Errorf("without a clock, the wait is %v", wait)
		}
		sent := time.Now()
		time.Sleep(300 * time.Microsecond)
		c.updateBounds(rouse.Instant(time.Now().UnixMilli()), sent, time.Now(), false)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 77 * time.Microsecond)
			to := c.earliestNow() + 1 + rouse.Instant(i%3)
			time.Sleep(c.untilEarliest(to) - 1)
			if now := c.earliestNow(); now >= to {
				t.Fatalf("%v has come a nanosecond before the end of the wait: %v", to, now)
			}
			if time.Sleep(time.Nanosecond); c.earliestNow() != to {
				t.Fatalf("at the end of the wait for %v it is %v", to, c.earliestNow())
			}
			if wait := c.untilEarliest(to); wait != time.Millisecond {
				t.Fatalf("for a time that has come, the wait is %v", wait)
			}
		}
		if wait := c.untilEarliest(rouse.Never); wait < time.Hour {
			t.Errorf("the wait for never is %v", wait)
		}
	})
}
