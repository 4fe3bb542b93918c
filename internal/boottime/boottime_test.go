package boottime

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestASuspensionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, at := Now(), time.Now()
		t.Cleanup(Suspend(time.Hour))
		time.Sleep(time.Second)
		if d := Since(before); d < time.Hour+time.Second || d > time.Hour+2*time.Second {
			t.Errorf("%v since, want an hour and a second", d)
		}
		if d := Until(before.Add(2 * time.Hour)); d > time.Hour {
			t.Errorf("%v until two hours after", d)
		}
		if d := time.Since(at); d != time.Second {
			t.Errorf("by the clock that stands still %v", d)
		}
	})
}

// Clocks that are read one after the other differ by chance; a suspension adds to the difference for good.
func TestTheDifferenceOfTwoClocksIsASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := 5 * time.Hour
		known := true
		m := newMeter(func() (time.Duration, bool) { return asleep, known })
		for _, c := range []struct {
			asleep, want time.Duration
		}{
			{5 * time.Hour, 0},
			{5*time.Hour + noise/2, 0},
			{5*time.Hour - noise/2, 0},
			{6 * time.Hour, time.Hour},
			{6*time.Hour - noise/2, time.Hour},
			{6*time.Hour + time.Minute, time.Hour + time.Minute},
			{5 * time.Hour, time.Hour + time.Minute}, // never less
		} {
			asleep = c.asleep
			time.Sleep(lookEvery)
			if got := m.suspendedTime(); got != c.want {
				t.Errorf("%v asleep: suspended for %v, want %v", c.asleep, got, c.want)
			}
		}
		known = false
		time.Sleep(lookEvery)
		if got := m.suspendedTime(); got != 0 {
			t.Errorf("suspended for %v without the clocks", got)
		}
	})
}

// The machine's own clocks are there where the system has them, and stand where they were without a
// suspension.
func TestTheClocksOfTheMachine(t *testing.T) {
	first, ok := readAsleep()
	second, still := readAsleep()
	if ok != still || (second-first).Abs() > time.Minute { // the machine may be suspended in between
		t.Errorf("asleep for %v (%v), then %v (%v)", first, ok, second, still)
	}
}
