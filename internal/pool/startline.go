package pool

import (
	"slices"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// startLine has the keys whose workers may not be started yet, as that would be over a limit, in the order in which they came. The
// group loop's goroutine owns it.
type startLine struct {
	limits Limits
	line   []string
	tokens float64 // workers that may be started now
	at     time.Time
	total  int // workers that there are, by the last list
	asked  int // workers that were asked for, and that no list has told of yet
}

// missingWorkers is how many workers a call of Ensure for a key would start.
func (l *groupLoop) missingWorkers(key string) int { return max(0, l.size-l.settled(key)) }

// asked notes that a call of Ensure is to bring workers; told that a list has told of them, or that it has failed.
func (l *groupLoop) asked(c *groupCall, n int) {
	c.missing = n
	l.starts.asked += n
}

func (l *groupLoop) told(c *groupCall) {
	l.starts.asked -= c.missing
	c.missing = 0
}

// mayStart says whether the workers that a key lacks may be started now, or names the limit; the time is when to look again, if that
// is known.
func (l *groupLoop) mayStart(key string, now time.Time) (limit string, again time.Time) {
	n := l.missingWorkers(key)
	if n == 0 {
		return "", time.Time{}
	}
	s := &l.starts
	at := slices.Index(s.line, key)
	if at > 0 || at < 0 && len(s.line) > 0 {
		limit = LimitWorkers
		if l.room(n) {
			limit = LimitStarts
		}
	} else if !l.room(n) {
		limit = LimitWorkers
	} else if wait := s.take(n, now); wait > 0 {
		limit, again = LimitStarts, now.Add(wait)
	}
	switch {
	case limit != "" && at < 0:
		s.line = append(s.line, key)
	case limit == "" && at == 0:
		s.line = s.line[1:]
	}
	return limit, again
}

// room says whether there may be n workers more.
func (l *groupLoop) room(n int) bool {
	return l.starts.total+l.starts.asked+n <= l.starts.limits.Workers
}

// take takes n starts, or returns how long it is until there are so many.
func (s *startLine) take(n int, now time.Time) (wait time.Duration) {
	rate := float64(s.limits.Starts)
	burst := rate * startBurst
	if s.at.IsZero() {
		s.tokens = burst
	} else {
		s.tokens = min(burst, s.tokens+rate*now.Sub(s.at).Seconds())
	}
	s.at = now
	if need := min(float64(n), burst); s.tokens < need {
		return max(time.Millisecond, time.Duration((need-s.tokens)/rate*float64(time.Second))) // never 0, which is that they are taken
	}
	s.tokens -= float64(n)
	return 0
}

// advance starts those whose turn it is.
func (l *groupLoop) advance(start func(key string)) {
	s := &l.starts
	for len(s.line) > 0 && !l.full() {
		key := s.line[0]
		if l.plans[key] != run || l.missingWorkers(key) == 0 {
			s.line = s.line[1:]
			continue
		}
		if start(key); len(s.line) > 0 && s.line[0] == key {
			return
		}
	}
}

// count counts the workers of a list.
func (s *startLine) count(workers []driver.Worker) { s.total = len(workers) }
