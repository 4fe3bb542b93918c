package pool

import (
	"slices"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/throttle"
)

// startLine queues the keys whose workers cannot be started yet because of a limit, first come, first served.
// It is owned by the group loop's goroutine.
type startLine struct {
	limits Limits
	line   []string
	tokens throttle.TokenBucket // of starts
	total  int                  // workers in the last list
	asked  int                  // requested workers that no list has shown yet
}

// missingWorkers returns how many workers a call of Ensure for a key would start.
func (l *groupLoop) missingWorkers(key string) int { return max(0, l.size-l.servingWorkers(key)) }

// countAsked records that a call of Ensure will start n workers. told records that a list has shown them, or
// that the call failed.
func (l *groupLoop) countAsked(c *groupCall, n int) {
	c.missing = n
	l.starts.asked += n
}

func (l *groupLoop) discountAsked(c *groupCall) {
	l.starts.asked -= c.missing
	c.missing = 0
}

// mayStart returns an empty limit if the missing workers of a key may be started now. Otherwise it returns
// the limit, and when to try again if that is known.
func (l *groupLoop) mayStart(key string, now time.Time) (limit string, again time.Time) {
	n := l.missingWorkers(key)
	if n == 0 {
		return "", time.Time{}
	}
	s := &l.starts
	at := slices.Index(s.line, key)
	if at > 0 || at < 0 && len(s.line) > 0 {
		limit = LimitWorkers
		if l.hasWorkerRoom(n) {
			limit = LimitStarts
		}
	} else if !l.hasWorkerRoom(n) {
		limit = LimitWorkers
	} else if wait := s.takeStartTokens(n, now); wait > 0 {
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

// hasWorkerRoom reports whether the limit on workers allows n more.
func (l *groupLoop) hasWorkerRoom(n int) bool {
	return l.starts.total+l.starts.asked+n <= l.starts.limits.Workers
}

// takeStartTokens takes n tokens. If there are fewer, it takes none and returns how long to wait for them.
func (s *startLine) takeStartTokens(n int, now time.Time) (wait time.Duration) {
	burst := s.limits.Starts * startBurst
	s.tokens.Set(float64(s.limits.Starts), burst, now)
	if need := min(n, burst); s.tokens.Allows(need, now) < need {
		return s.tokens.Wait(need)
	}
	s.tokens.Take(n)
	return 0
}

// advanceStartLine starts the keys whose turn has come.
func (l *groupLoop) advanceStartLine(start func(key string)) {
	s := &l.starts
	for len(s.line) > 0 && !l.atCallLimit() {
		key := s.line[0]
		if l.planWorkers(key) != run || l.missingWorkers(key) == 0 {
			s.line = s.line[1:]
			continue
		}
		if start(key); len(s.line) > 0 && s.line[0] == key {
			return
		}
	}
}

// countListed counts the workers of a list.
func (s *startLine) countListed(workers []driver.Worker) { s.total = len(workers) }
