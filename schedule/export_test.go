package schedule

import "github.com/rousehq/rouse"

// Steps returns how many steps a cron schedule takes to find the next time; 0 for the other forms.
func Steps(s *Schedule, after rouse.Instant) int {
	if c, ok := s.times.(*cron); ok {
		_, _, steps := c.nextWithSteps(max(after, 0))
		return steps
	}
	return 0
}
