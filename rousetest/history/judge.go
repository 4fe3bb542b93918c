package history

import (
	"cmp"
	"slices"
)

// delivery holds the observations of one occurrence.
type delivery struct {
	occurrence
	arrivals []arrival // in the order of their times
	asked    []arrival // those that followed a redrive or a backfill
	deads    []*Dead
	done     Time // when the occurrence had ended; forever if it had not
	settled  Time // when the service may have noticed it at the latest
	manual   bool // it is a run's
}

// firstArrival returns when the occurrence first arrived.
func (d *delivery) firstArrival() (Time, bool) {
	if len(d.arrivals) == 0 {
		return 0, false
	}
	return d.arrivals[0].T, true
}

// judgeGeneration compares the deliveries of a generation with its promise.
func (c *checker) judgeGeneration(g *generation) {
	slices.SortStableFunc(g.arrivals, func(a, b arrival) int { return cmp.Compare(a.T, b.T) })
	if g.expect = c.newExpectation(g); g.expect == nil {
		return
	}
	c.relateAsks(g)
	ds := c.groupDeliveries(g)
	c.judgeRunAttempts(g)
	var previous *delivery
	came := 0
	for i := range ds {
		d := &ds[i]
		c.judgeAttempts(g, d)
		c.judgePause(g, d)
		if began, ok := d.firstArrival(); ok {
			c.judgeOrder(g, previous, d, began)
			previous = d
		}
		if len(d.arrivals)+len(d.deads) > 0 && len(d.asked) == 0 {
			came++
		}
		if n := g.put.Spec.Count; n > 0 && came == n+1 {
			c.addViolation("C11-count", g, d.lo, "%d occurrences or more were delivered, count is %d", came, n)
			came++ // reported
		}
	}
	fates := c.judgeArrivals(g, ds)
	c.judgeAsks(g, ds)
	c.judgeRuns(g, ds)
	c.judgeRecords(g, fates, ds)
}

// claim is an arrival or a dead letter that names an occurrence.
type claim struct {
	occurrence
	arrival *arrival
	dead    *Dead
	asked   bool
}

// groupDeliveries sorts arrivals and dead letters by the occurrences that they name, earliest first. Those
// that name none are phantoms.
func (c *checker) groupDeliveries(g *generation) []delivery {
	claims := make([]claim, 0, len(g.arrivals)+len(g.deads))
	add := func(what string, due, t Time, cl claim) {
		var ok bool
		cl.occurrence, ok = g.findOccurrence(due)
		cl.asked = ok && cl.arrival != nil && c.mayBeRequested(g, cl.occurrence, t)
		switch {
		case due == 0:
			c.reportPhantom(what, g.put.Timer, g.put.Gen, due, t, "it names no due time")
		case !ok:
			c.reportPhantom(what, g.put.Timer, g.put.Gen, due, t, "the timer has no such occurrence")
		default:
			if len(claims) == 0 {
				pinFirstDue(g.expect, due)
				cl.occurrence, _ = g.findOccurrence(due)
			}
			claims = append(claims, cl)
		}
	}
	for i := range g.arrivals {
		a := &g.arrivals[i]
		if a.reply == ReplyFatal && g.fatal == 0 {
			g.fatal = a.T
		}
		add("an arrival", a.Due, a.T, claim{arrival: a})
	}
	for _, dead := range g.deads {
		add("a dead letter", dead.Due, dead.T, claim{dead: dead})
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.lo, b.lo) })
	var ds []delivery
	for i, cl := range claims {
		if i == 0 || cl.lo != claims[i-1].lo {
			ds = append(ds, delivery{occurrence: cl.occurrence})
		}
		d := &ds[len(ds)-1]
		switch {
		case cl.dead != nil:
			d.deads = append(d.deads, cl.dead)
		case cl.asked:
			d.asked = append(d.asked, *cl.arrival)
		default:
			d.arrivals = append(d.arrivals, *cl.arrival)
		}
	}
	return ds
}

// fate is the judgement of an occurrence that was expected, or came.
type fate struct {
	occurrence
	d         *delivery // nil: nothing came
	deadline  Time      // by when it should have come, or been given up; forever if that is not known
	certain   bool      // it is the generation's
	contested bool      // something that may have ended the generation began before the deadline
	told      bool      // that it did not come was reported already
}

// judgeArrivals goes through the occurrences in their order: those that should have come, and those that
// came.
func (c *checker) judgeArrivals(g *generation, ds []delivery) (fates []fate) {
	keep := c.cfg.Records || len(g.records) > 0
	p := pressure{all: ds}
	came := func(o occurrence, d *delivery, index int) {
		f := c.judgeTime(g, d, o, &p, index)
		if d != nil && len(d.arrivals) > 0 {
			c.judgeOverlap(g, d, p.previous)
			p.previous = d
			if g.put.Spec.isOrdered() {
				p.busy = max(p.busy, d.settled)
			}
		}
		if d != nil && g.put.Spec.isOrdered() {
			for i := range d.asked { // any of them may have been due, and not have come, when requested
				p.busy = max(p.busy, c.runningUntil(&d.asked[i]))
			}
		}
		if keep {
			fates = append(fates, f)
		}
	}
	limit := c.end
	if g.threat != nil {
		limit = min(limit, g.threat.t0) // no deadline is earlier than its due time
	}
	index := 0
	if g.put.Res == OK && !g.unsure {
		for o, ok := g.expect.nextOccurrence(0); ok && o.lo <= limit; o, ok = g.expect.nextOccurrence(o.lo) {
			for len(ds) > 0 && ds[0].lo < o.lo {
				came(ds[0].occurrence, &ds[0], index)
				ds = ds[1:]
			}
			if len(ds) > 0 && ds[0].lo == o.lo {
				came(o, &ds[0], index)
				ds = ds[1:]
			} else {
				came(o, nil, index)
			}
			index++
		}
	}
	for i := range ds {
		came(ds[i].occurrence, &ds[i], index)
	}
	return fates
}

// pressure holds the reasons why occurrences wait, or do not come, as they are gone through in their order.
type pressure struct {
	busy     Time      // until then the previous occurrence was not done
	previous *delivery // the last one that arrived
	all      []delivery
	skipped  int // occurrences that skips were held to have given up
}

// judgeTime reports whether an occurrence had to come, and whether it came in time. d is nil if nothing came;
// index is its place among all from the beginning of the call that made the timer.
func (c *checker) judgeTime(g *generation, d *delivery, o occurrence, press *pressure, index int) fate {
	p, s := g.put, &g.put.Spec
	busy := c.busyUntil(g.manual.deliveries, max(o.hi, p.T1, press.busy), s.Jitter)
	if busy == max(o.hi, p.T1) {
		busy = press.busy
	}
	late := s.Jitter + c.cfg.MaxLate + c.cfg.ClockErr
	if s.Limit != "" {
		busy = max(busy, c.limitedUntil(s).Add(-late))
	}
	hi := max(o.hi, p.T1, min(busy, c.end))
	deadline := c.faults.postponeDeadline(o.lo, hi.Add(late), c.cfg.MaxLate)
	end, paused := g.timer.pausedBetween(o.lo, deadline)
	if paused { // a run that was asked for in the pause may be under way at its end
		waits := c.busyUntil(g.manual.deliveries, end, s.Jitter)
		if waits == forever {
			busy = forever
		}
		deadline = max(deadline, c.faults.postponeDeadline(o.lo, min(waits, c.end).Add(late), c.cfg.MaxLate))
	}
	// After the call, or the only one: a call that is not over may have come too late for it.
	f := fate{occurrence: o, d: d, deadline: deadline}
	f.certain = o.lo > p.T1.Add(c.cfg.ClockErr) || p.Res == OK && p.hasOneOccurrence()
	f.contested = g.mayHaveEnded(deadline)
	counted := s.Count == 0 || index < s.Count
	must := f.certain && !f.contested && counted && p.Res == OK && !g.unsure && deadline <= c.end && busy != forever
	f.certain = f.certain && counted
	if busy == forever {
		f.deadline = forever
	}
	if d == nil || len(d.arrivals) == 0 && len(d.deads) == 0 {
		delayed := paused || hi > max(o.hi, p.T1) || p.T1 > o.hi || c.faults.hasFaultBetween(o.lo, deadline)
		switch {
		case !must || paused && s.isRecurring() || c.givenUp(g, o, delayed, hi, deadline) ||
			c.excusedByOverlap(g, o, press.all):
		case c.mayBeRequested(g, o, deadline): // it cannot be distinguished from a requested one
		case press.skipped < g.maxSkipped(deadline):
			press.skipped++
		default:
			f.told = true
			c.report.Stats.Musts++
			if g.usedUp(o) {
				c.addViolation("R6-run", g, o.lo, "a run came in its place")
			} else {
				c.addViolation("C1-lost", g, o.lo, "nothing came by %v", deadline)
			}
		}
		return f
	}
	if must {
		c.report.Stats.Musts++
	}
	first, ok := d.firstArrival()
	if !ok {
		return f
	}
	if first < o.lo {
		c.report.Stats.Early++
	}
	c.late = append(c.late, max(0, first-hi))
	if first < o.lo-toMicros(c.cfg.EarlyTol)-toMicros(c.cfg.ClockErr) {
		c.addViolation("C2-early", g, o.lo, "it arrived at %v, %v early", first, o.lo.Sub(first))
	}
	if first > deadline && !f.contested && (f.certain || p.Res == OK) && busy != forever {
		c.addViolation("C3-late", g, o.lo, "it arrived at %v, %v after its deadline", first, first.Sub(deadline))
	}
	c.judgeDeadline(g, d)
	return f
}

// hasOneOccurrence reports whether the timer has one occurrence.
func (p *Put) hasOneOccurrence() bool { return !p.Spec.isRecurring() }
