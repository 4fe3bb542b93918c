package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse/schedule"
)

func windowsOf(t *testing.T, zone string, lasts time.Duration, schedules ...string) (list []Window) {
	t.Helper()
	for _, text := range schedules {
		s, err := schedule.Parse(text, schedule.Options{Timezone: zone})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Window{s, lasts})
	}
	return list
}

// TestWindowStates checks at times of the wall clock whether workers may run, and how long that is certain.
func TestWindowStates(t *testing.T) {
	nights := windowsOf(t, "Europe/Stockholm", 8*time.Hour, "0 22 * * MON-FRI")
	for _, c := range []struct {
		name         string
		windows      []Window
		at           string
		open         bool
		until, shown string
	}{
		{"without windows", nil, "2027-03-01T12:00:00Z", true, "", ""},
		{"before", nights, "2027-03-01T20:59:59.999999Z", false, "2027-03-01T21:00:00Z", "opens at 2027-03-01T21:00:00.000Z"},
		{"from the first instant", nights, "2027-03-01T21:00:00Z", true, "2027-03-02T05:00:00Z", ""},
		{"to the last instant", nights, "2027-03-02T04:59:59.999999Z", true, "2027-03-02T05:00:00Z", ""},
		{"after", nights, "2027-03-02T05:00:00Z", false, "2027-03-02T21:00:00Z", ""},
		{"the night of a Friday", nights, "2027-03-06T04:00:00Z", true, "2027-03-06T05:00:00Z", ""},
		{"at the weekend", nights, "2027-03-07T21:00:00Z", false, "2027-03-08T21:00:00Z", ""},
		{"clocks go forward, and the window is elapsed time", windowsOf(t, "Europe/Stockholm", 8*time.Hour, "0 22 * * *"), "2027-03-28T04:30:00Z", true, "2027-03-28T05:00:00Z", ""},
		{"one overlaps another", windowsOf(t, "", 2*time.Hour, "0 8 * * *", "0 9 * * *"), "2027-03-01T10:30:00Z", true, "2027-03-01T11:00:00Z", ""},
		{"back to back", windowsOf(t, "", 24*time.Hour, "@daily"), "2027-03-02T00:00:00Z", true, "2027-03-03T00:00:00Z", ""},
		{"each overlaps the next for a year", windowsOf(t, "", maxWindow, "@hourly"), "2027-03-02T00:30:00Z", true, "2027-03-02T01:00:00Z", ""},
		{"the last is over", windowsOf(t, "", time.Hour, "rrule:FREQ=DAILY;UNTIL=20270101T000000Z"), "2027-03-02T00:30:00Z", false, "", "none of which opens again"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		s := windowState{windows: c.windows}
		s.advanceWindow(at)
		until := ""
		if !s.until.IsZero() {
			until = s.until.Format(time.RFC3339)
		}
		if s.closed == c.open || until != c.until || !strings.Contains(s.describeWait(), c.shown) || c.open != (s.describeWait() == "") {
			t.Errorf("%s: closed is %v until %q, and workers wait for %q", c.name, s.closed, until, s.describeWait())
		}
	}
}

// TestWindowsFollowTheClock sets the clock back and forward within and across windows.
func TestWindowsFollowTheClock(t *testing.T) {
	s := windowState{windows: windowsOf(t, "", 2*time.Hour, "0 8 * * *")}
	day := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		hour            int
		closed, changed bool
	}{{7, true, true}, {9, false, true}, {9, false, false}, {7, true, true}, {33, false, true}, {35, true, true}, {8, false, true}} {
		if changed := s.advanceWindow(day.Add(time.Duration(c.hour) * time.Hour)); s.closed != c.closed || changed != c.changed {
			t.Errorf("at hour %d closed is %v, and changed %v", c.hour, s.closed, changed)
		}
	}
}

// TestWorkersKeepToWindows publishes requests outside of a window: they wait without workers, are answered
// when it opens, and what is left when it closes waits for the next one.
func TestWorkersKeepToWindows(t *testing.T) {
	opens := 30 * time.Minute // clocks of a bubble begin at midnight
	bubble(t, Timing{Settle: time.Second, Listing: 17 * time.Minute}, func(w *simulation) {
		w.takes, w.stops = 2*time.Minute, true
		w.config = func(c *Config) {
			c.Windows, c.Pinned = windowsOf(t, "", 5*time.Minute, "30 * * * *"), []string{"pinned"}
		}
	}, func(t *testing.T, w *simulation) {
		begun := time.Now()
		look := func(after time.Duration, answered, workers int, limit string) {
			t.Helper()
			time.Sleep(time.Until(begun.Add(after)))
			synctest.Wait()
			n, done := 0, 0
			for _, g := range w.term.manager.View().Groups {
				n += len(g.Workers)
				if (limit == "") != (g.Limit == "") || !strings.HasSuffix(g.Limit, limit) {
					t.Errorf("after %v the limit of %s is %q", after, g.Key, g.Limit)
				}
			}
			for id := range 5 {
				done += w.answers(id)
			}
			if n != workers || done != answered {
				t.Errorf("after %v there are %d workers, and %d answers: %s", after, n, done, w.log())
			}
		}
		for id := range 5 {
			w.publish("k", id)
		}
		look(opens-time.Second, 0, 0, "opens at 2000-01-01T00:30:00.000Z")
		look(opens+time.Second, 0, 2, "")
		look(opens+5*time.Minute-time.Second, 2, 2, "")
		look(opens+10*time.Minute, 3, 0, "opens at 2000-01-01T01:30:00.000Z") // a request in progress is finished
		look(opens+time.Hour+10*time.Minute, 5, 0, "opens at 2000-01-01T02:30:00.000Z")
		if w.called("delete k") != 0 && w.called("ensure k") > 2 {
			t.Errorf("calls were %v", w.log())
		}
	})
}

// TestWindowClosesWithoutAManager closes a window while no manager runs: the next one ends the workers that
// it finds, and keeps the requests for the next window.
func TestWindowClosesWithoutAManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulation(t, 1)
		w.takes, w.stops = 10*time.Minute, true
		w.config = func(c *Config) { c.Windows = windowsOf(t, "", 5*time.Minute, "0 * * * *") }
		delays, timing := Delays{10 * time.Second, 10 * time.Second}, Timing{Settle: time.Second}
		stop := w.start(delays, timing)
		for id := range 2 {
			w.publish("k", id)
		}
		time.Sleep(time.Minute)
		stop()
		time.Sleep(5 * time.Minute)
		stop = w.start(delays, timing)
		time.Sleep(10 * time.Minute)
		if w.answers(0) != 1 || w.answers(1) != 0 || len(w.list()) != 0 {
			t.Errorf("%d and %d answers, workers %v; calls were %v", w.answers(0), w.answers(1), w.list(), w.log())
		}
		time.Sleep(time.Hour)
		if left := w.left(); w.answers(1) != 1 || len(left) > 0 {
			t.Errorf("%d answers, %q are left; calls were %v", w.answers(1), left, w.log())
		}
		stop()
		w.life.Wait()
	})
}
