package pool

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// Window is when the workers of a pool may run: from each time of a schedule, for a duration of elapsed time.
type Window struct {
	Schedule rouse.Schedule
	For      time.Duration // from minWindow to maxWindow
}

// LimitWindows is the name of the setting, and of the limit that groups wait for outside of the windows.
const LimitWindows = "windows"

// The bounds of windows.
const (
	minWindow  = time.Minute
	maxWindow  = 366 * 24 * time.Hour
	maxWindows = 100 // of a pool
)

func checkWindows(list []Window) error {
	if len(list) > maxWindows {
		return rouse.Refuse(LimitWindows, fmt.Sprint(len(list)), "are too many windows",
			fmt.Sprintf("give up to %d", maxWindows))
	}
	for i, w := range list {
		field := fmt.Sprintf("%s[%d]", LimitWindows, i)
		if w.Schedule == nil {
			return rouse.Refuse(field+".schedule", "", "is missing", `give when workers may start, such as "0 22 * * MON-FRI"`)
		}
		if w.For < minWindow || w.For > maxWindow {
			return rouse.Refuse(field+".for", w.For.String(), "is out of range",
				fmt.Sprintf("give from %v to %v, such as 8h", minWindow, maxWindow))
		}
	}
	return nil
}

// windowState is whether workers may run, from the time of its computation until its next change. It searches
// the schedules at changes only, and when the clock has been set back.
type windowState struct {
	windows     []Window // none: workers may always run
	closed      bool
	from, until time.Time // wall clock; no until: there is no further change
}

// advanceWindow computes the state at a time, and reports whether it has changed.
func (s *windowState) advanceWindow(now time.Time) (changed bool) {
	now = now.Round(0) // schedules follow the wall clock
	if len(s.windows) == 0 || !s.from.IsZero() && !now.Before(s.from) && (s.until.IsZero() || now.Before(s.until)) {
		return false
	}
	was := s.closed
	s.closed, s.from, s.until = true, now, time.Time{}
	var opens time.Time
	for _, w := range s.windows {
		if begun, ok := w.Schedule.Next(rouse.Reached(now.Add(-w.For))); !ok {
			continue
		} else if at := begun.Time(); at.After(now) {
			opens = earlierNonZero(opens, at)
		} else {
			s.closed, s.until = false, earlierNonZero(s.until, at.Add(w.For)) // then another one may be open
		}
	}
	if s.closed {
		s.until = opens
	}
	return s.closed != was
}

// DescribeWindowWait returns the window that workers wait for at a time, empty while they may run.
func (c *Config) DescribeWindowWait(now time.Time) string {
	s := windowState{windows: c.Windows}
	s.advanceWindow(now)
	return s.describeWait()
}

// describeWait returns the limit that workers wait for; empty while they may run.
func (s *windowState) describeWait() string {
	switch {
	case !s.closed:
		return ""
	case s.until.IsZero():
		return LimitWindows + ", none of which opens again"
	}
	return LimitWindows + ", the next of which opens at " + rouse.At(s.until).String()
}
