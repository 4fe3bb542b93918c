package history

import (
	"cmp"
	"slices"
	"time"
)

const (
	// limitObeyed is how long after its answer a change of a limit is obeyed on all nodes.
	limitObeyed = time.Second
	// limitCatchUp is how much of a rate those that wait for it may use later.
	limitCatchUp = 100 * time.Millisecond
	// limitFirst bounds how long a node that does not know what began elsewhere lets a rate wait.
	limitFirst = time.Minute
)

// gatherLimits groups what is known of limits by their names, in the order of the calls.
func (c *checker) gatherLimits(h *History) {
	c.limits = map[string][]Limit{}
	for _, l := range h.Limits {
		if l.Res != Fail {
			c.limits[l.Limit] = append(c.limits[l.Limit], l)
		}
	}
	for _, list := range c.limits {
		slices.SortFunc(list, func(a, b Limit) int { return cmp.Compare(a.T0, b.T0) })
	}
}

// limitedUntil returns by when an occurrence of a timer with a limit has to come: the end of the log, or
// never if the limit may be paused then.
func (c *checker) limitedUntil(s *Spec) Time {
	for _, l := range c.possibleLimits(s.Limit, c.end) {
		if l.Paused {
			return forever
		}
	}
	return c.end
}

// possibleLimits returns the states of a limit that nodes may obey at a time; none if it may not exist.
func (c *checker) possibleLimits(name string, at Time) (list []Limit) {
	for _, l := range c.limits[name] {
		if l.T0 > at {
			break
		}
		if l.Res == OK && l.T1.Add(limitObeyed+c.cfg.ClockErr) < at {
			list = list[:0]
		} else if len(list) == 0 {
			list = append(list, Limit{Limit: name}) // before it was set
		}
		list = append(list, l)
	}
	return list
}

// loosestLimit returns the least that a limit surely demands at a time.
func (c *checker) loosestLimit(name string, at Time) (least Limit) {
	for i, l := range c.possibleLimits(name, at) {
		if i == 0 {
			least = l
			continue
		}
		least.Concurrency = looserBound(least.Concurrency, l.Concurrency)
		least.Paused = least.Paused && l.Paused
		least.Ordered = least.Ordered || l.Ordered
		least.PerKey = least.PerKey || l.PerKey
		if l.interval() < least.interval() || l.Count == 0 {
			least.Count, least.Per = l.Count, l.Per
		}
		least.Burst = max(least.Burst, l.Burst)
	}
	return least
}

// looserBound returns the larger of two bounds; 0 is unlimited.
func looserBound(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// interval returns the time between two attempts at the rate; 0 if it is unlimited.
func (l *Limit) interval() time.Duration {
	if l.Count == 0 {
		return 0
	}
	return l.Per / time.Duration(l.Count)
}

// tolerance returns how much earlier than at the rate an attempt may begin.
func (l *Limit) tolerance() time.Duration {
	burst := cmp.Or(l.Burst, int(100*time.Millisecond/max(l.interval(), 1)))
	return time.Duration(max(burst-1, 0)) * l.interval()
}

// limitPlace is what attempts count for together.
type limitPlace struct{ limit, key string }

// limited is an attempt of a timer with a limit.
type limited struct {
	g *generation
	a *arrival
	d Time // its due time
}

// endOfLimited returns until when an attempt counts for its limit.
func (c *checker) endOfLimited(a *arrival) Time {
	if a.T1 != 0 {
		return a.T1
	}
	return c.runningUntil(a)
}

// judgeLimits judges the attempts of all timers with limits together (C14).
func (c *checker) judgeLimits(h *History) {
	places := map[limitPlace][]limited{}
	for _, t := range c.timers {
		for i := range t.writes {
			g := t.writes[i].gen
			if g == nil || g.put.Spec.Limit == "" {
				continue
			}
			s := &g.put.Spec
			for _, list := range [][]arrival{g.arrivals, g.manual.arrivals} {
				for k := range list {
					place := limitPlace{s.Limit, s.LimitKey}
					places[place] = append(places[place], limited{g, &list[k], list[k].Due})
				}
			}
		}
	}
	for place, list := range places {
		slices.SortFunc(list, func(a, b limited) int { return cmp.Compare(a.a.T, b.a.T) })
		c.judgeConcurrency(place, list)
		c.judgeRate(place, list)
		for _, l := range list {
			if c.loosestLimit(place.limit, l.a.T).Paused {
				c.addViolation("C14-limit", l.g, l.d, "an attempt arrived at %v, its limit %s was paused", l.a.T, place.limit)
				break
			}
		}
	}
}

// judgeConcurrency reports the first attempt of a place that began when too many were in progress. After a
// fault, the service does not know what is still at its receivers, for as long as an attempt takes.
func (c *checker) judgeConcurrency(place limitPlace, list []limited) {
	var running []Time // their ends
	for _, l := range list {
		at := l.a.T
		running = slices.DeleteFunc(running, func(end Time) bool { return end <= at.Add(c.cfg.ClockErr) })
		running = append(running, c.endOfLimited(l.a))
		most := c.loosestLimit(place.limit, at).Concurrency
		if most > 0 && len(running) > most && !c.faults.hasFaultBetween(at.Add(-c.cfg.AttemptTimeout), at) {
			c.addViolation("C14-limit", l.g, l.d, "at %v, %d attempts of limit %s were in progress, %d may be", at, len(running),
				place.limit, most)
			return
		}
	}
}

// judgeRate reports the first attempt of a place that began earlier than the rate allows. What began in time
// may arrive late, and so seem to be early.
func (c *checker) judgeRate(place limitPlace, list []limited) {
	next := -forever // when the next one would be on time
	seen := map[string]bool{}
	for i, l := range list {
		at, is := l.a.T, c.loosestLimit(place.limit, l.a.T)
		if is.Ordered && l.a.Attempt > 1 {
			continue
		}
		if i > 0 && sentOnceMore(list[i-1].a, l.a) && seen[l.a.Key] {
			continue
		}
		seen[l.a.Key] = true
		step := toMicros(is.interval())
		early := at.Add(is.tolerance() + limitCatchUp + c.cfg.MaxLate + c.cfg.ClockErr)
		if step == 0 || is.interval() > limitFirst && c.faults.hasFaultBetween(at-step, at) {
			next = -forever
			continue
		}
		if next = min(next, early+step); next > early { // it may have been slower
			c.addViolation("C14-limit", l.g, l.d, "an attempt arrived at %v, which is %v earlier than limit %s of %d in %v allows", at,
				next.Sub(early), place.limit, is.Count, is.Per)
			return
		}
		next = max(next, at) + step
	}
}
