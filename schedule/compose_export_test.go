package schedule

import "github.com/rousehq/rouse"

// ComposedSteps returns how many steps a composed schedule takes to find the next time; 0 for a plain one.
func ComposedSteps(s rouse.Schedule, after rouse.Instant) int {
	if c, ok := s.(*composed); ok {
		_, _, steps := c.Look(after, rouse.MaxScheduleSteps)
		return steps
	}
	return 0
}
