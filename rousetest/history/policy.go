package history

import (
	"cmp"
	"slices"
	"time"
)

// skipGrace is how late an occurrence may be that the misfire policy skip lets fire although none after it is
// due.
const skipGrace = time.Minute

// givenUp reports whether the misfire policy or the deadline excuses an occurrence that did not come. delayed
// means that something kept it waiting, even briefly.
func (c *checker) givenUp(g *generation, o occurrence, delayed bool, hi, deadline Time) bool {
	s := &g.put.Spec
	if s.Deadline != 0 && delayed && deadline > o.lo.Add(s.Deadline) {
		return true
	}
	switch s.Misfire {
	case MisfireLatest:
		next, ok := g.expect.nextOccurrence(o.lo)
		return ok && next.lo < deadline
	case MisfireSkip:
		// A previous occurrence that took long is as good a reason as a fault.
		return c.faults.hasFaultBetween(o.lo, deadline) || hi > max(o.hi, g.put.T1) ||
			delayed && deadline > o.lo.Add(skipGrace)
	case MisfireWithin:
		return delayed && deadline > o.lo.Add(s.Within)
	}
	return false
}

// excusedByOverlap reports whether the overlap policy excuses an occurrence that did not come, because an
// earlier one may have been in progress when it came due. While a backlog is worked off that need not be the
// one before it.
func (c *checker) excusedByOverlap(g *generation, o occurrence, ds []delivery) bool {
	return g.put.Spec.Overlap == OverlapSkip && c.busyAt(g, o, ds) // compared with the time when it was to be sent
}

// inProgress reports whether an earlier occurrence, or a run, may have been in progress at a moment between
// lo and hi of an occurrence.
func (c *checker) inProgress(o occurrence, ds []delivery) bool {
	first, _ := slices.BinarySearchFunc(ds, o.hi, func(d delivery, t Time) int { return cmp.Compare(d.lo, t) })
	for i, looks := first-1, 1000; i >= 0 && looks > 0; i, looks = i-1, looks-1 {
		if c.mayBeInProgress(&ds[i], o) {
			return true
		}
	}
	return false
}

// mayBeInProgress reports whether a delivered occurrence may have been in progress at a moment between lo and
// hi of another one.
func (c *checker) mayBeInProgress(d *delivery, o occurrence) bool {
	slack := c.cfg.MaxLate + c.cfg.ClockErr
	began, ok := d.firstArrival()
	return ok && (d.manual || d.lo < o.lo) && began <= o.hi.Add(slack) &&
		o.lo <= c.faults.postponeDeadline(began, d.settled.Add(slack), c.cfg.MaxLate)
}

// judgeOverlap judges the arrival of an occurrence by whether the one before was surely in progress when it
// came due.
func (c *checker) judgeOverlap(g *generation, d, previous *delivery) {
	if g.put.Spec.Overlap != OverlapSkip || previous == nil {
		return
	}
	was, _ := previous.firstArrival()
	began, _ := d.firstArrival()
	slack := toMicros(c.cfg.ClockErr)
	if sent := d.lo.Add(g.put.Spec.Jitter); was+slack < d.lo && sent < previous.done-slack &&
		began >= previous.done-slack && !c.faults.hasFaultBetween(was, began) {
		c.addViolation("R4-overlap", g, d.lo,
			"it arrived at %v, but came due while that of %v was in progress, from %v to %v", began, previous.lo, was,
			previous.done)
	}
}

// judgeDeadline judges how late attempts were by the timer's own policies, whatever the reason.
func (c *checker) judgeDeadline(g *generation, d *delivery) {
	s := &g.put.Spec
	slack := s.Jitter + c.cfg.MaxLate + c.cfg.ClockErr
	if s.Misfire == MisfireWithin {
		if first, latest := d.arrivals[0].T, d.hi.Add(s.Within+slack); first > latest {
			c.addViolation("R5-deadline", g, d.lo, "it arrived at %v, %v after the misfire policy gives it up", first,
				first.Sub(latest))
		}
	}
	if s.Deadline == 0 {
		return
	}
	latest := d.hi.Add(s.Deadline + slack)
	for i := range d.arrivals {
		if t := d.arrivals[i].T; t > latest {
			c.addViolation("R5-deadline", g, d.lo, "an attempt arrived at %v, %v after its deadline", t, t.Sub(latest))
			return
		}
	}
}

// deadlinePassed reports whether the deadline may have ended an occurrence's attempts by a time.
func (c *checker) deadlinePassed(g *generation, d *delivery, by Time) bool {
	s := &g.put.Spec
	return s.Deadline != 0 && by.Add(c.cfg.ClockErr) >= d.lo.Add(s.Deadline)
}
