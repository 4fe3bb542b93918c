package schedule

import "github.com/rousehq/rouse"

// RRuleSteps returns how many months, days and periods a recurrence rule checks to find the next time; 0 for
// other forms.
func RRuleSteps(s *Schedule, after rouse.Instant) int {
	r, ok := s.times.(*rrule)
	if !ok {
		return 0
	}
	l := looks{most: 1 << 30}
	r.matchSet(r.zone.latestWall(int64(max(after, 0))/1000)+1, &l)
	return l.n
}
