package history

import (
	"cmp"
	"slices"
)

// delivery is what came of one occurrence.
type delivery struct {
	occurrence
	arrivals []arrival // in the order of their times
	deads    []*Dead
	done     Time // when the occurrence had ended; forever if it had not
}

// began returns when the occurrence first arrived.
func (d *delivery) began() (Time, bool) {
	if len(d.arrivals) == 0 {
		return 0, false
	}
	return d.arrivals[0].T, true
}

// judge holds what was delivered of a generation against what it promised.
func (c *checker) judge(g *generation) {
	slices.SortStableFunc(g.arrivals, func(a, b arrival) int { return cmp.Compare(a.T, b.T) })
	if g.expect = c.expect(g); g.expect == nil {
		return
	}
	ds := c.deliveries(g)
	var previous *delivery
	for i := range ds {
		d := &ds[i]
		c.judgeAttempts(g, d)
		if began, ok := d.began(); ok {
			c.judgeOrder(g, previous, d, began)
			previous = d
		}
	}
	c.judgeArrivals(g, ds)
	if n := g.put.Spec.Count; n > 0 && len(ds) > n {
		c.violate("C11-count", g, ds[n].lo, "%d occurrences were delivered, count is %d", len(ds), n)
	}
}

// claim is an arrival or a dead letter that names an occurrence.
type claim struct {
	occurrence
	arrival *arrival
	dead    *Dead
}

// deliveries sorts arrivals and dead letters by the occurrences that they name, earliest first. Those that name none are
// phantoms.
func (c *checker) deliveries(g *generation) []delivery {
	claims := make([]claim, 0, len(g.arrivals)+len(g.deads))
	add := func(what string, due, t Time, cl claim) {
		var ok bool
		cl.occurrence, ok = g.expect.match(due)
		switch {
		case due == 0:
			c.phantom(what, g.put.Timer, g.put.Gen, due, t, "it names no due time")
		case !ok:
			c.phantom(what, g.put.Timer, g.put.Gen, due, t, "the timer has no such occurrence")
		default:
			if len(claims) == 0 {
				pin(g.expect, due)
				cl.occurrence, _ = g.expect.match(due)
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
		if cl.dead != nil {
			d.deads = append(d.deads, cl.dead)
		} else {
			d.arrivals = append(d.arrivals, *cl.arrival)
		}
	}
	return ds
}

// judgeArrivals goes through the occurrences in their order: those that should have come, and those that came.
func (c *checker) judgeArrivals(g *generation, ds []delivery) {
	busy := Time(0) // until then the previous occurrence was not done
	came := func(d *delivery, index int) {
		c.judgeTime(g, d, d.occurrence, busy, index)
		if g.put.Spec.Serial && len(d.arrivals) > 0 {
			busy = max(busy, d.done)
		}
	}
	limit := c.end
	if g.threat != nil {
		limit = min(limit, g.threat.t0) // no deadline is earlier than what is due
	}
	index := 0
	if g.put.Res == OK && !g.unsure {
		for o, ok := g.expect.next(0); ok && o.lo <= limit; o, ok = g.expect.next(o.lo) {
			for len(ds) > 0 && ds[0].lo < o.lo {
				came(&ds[0], index)
				ds = ds[1:]
			}
			if len(ds) > 0 && ds[0].lo == o.lo {
				came(&ds[0], index)
				ds = ds[1:]
			} else {
				c.judgeTime(g, nil, o, busy, index)
			}
			index++
		}
	}
	for i := range ds {
		came(&ds[i], index)
	}
}

// judgeTime says whether an occurrence had to come, and whether it came in time. d is nil if nothing came; index is its place
// among all from the beginning of the call that made the timer.
func (c *checker) judgeTime(g *generation, d *delivery, o occurrence, busy Time, index int) {
	p := g.put
	hi := max(o.hi, p.T1, min(busy, c.end))
	deadline := c.faults.push(o.lo, hi.Add(c.cfg.MaxLate+c.cfg.ClockErr), c.cfg.MaxLate)
	// After the call, or the only one: a call that is not over may have come too late for it.
	certain := o.lo > p.T1.Add(c.cfg.ClockErr) || p.Res == OK && p.single()
	contested := g.threat != nil && g.threat.t0 < deadline
	counted := p.Spec.Count == 0 || index < p.Spec.Count
	must := certain && !contested && counted && p.Res == OK && !g.unsure && deadline <= c.end && busy != forever
	if d == nil || len(d.arrivals) == 0 && len(d.deads) == 0 {
		if must && !c.misfired(g, o, hi, deadline) {
			c.report.Stats.Musts++
			c.violate("C1-lost", g, o.lo, "nothing came by %v", deadline)
		}
		return
	}
	if must {
		c.report.Stats.Musts++
	}
	first, ok := d.began()
	if !ok {
		return
	}
	if first < o.lo {
		c.report.Stats.Early++
	}
	c.late = append(c.late, max(0, first-hi))
	if first < o.lo-micros(c.cfg.EarlyTol)-micros(c.cfg.ClockErr) {
		c.violate("C2-early", g, o.lo, "it arrived at %v, %v early", first, o.lo.Sub(first))
	}
	if first > deadline && !contested && (certain || p.Res == OK) && busy != forever {
		c.violate("C3-late", g, o.lo, "it arrived at %v, %v after its deadline", first, first.Sub(deadline))
	}
}

// misfired says whether the misfire policy excuses an occurrence that did not come.
func (c *checker) misfired(g *generation, o occurrence, hi, deadline Time) bool {
	switch g.put.Spec.Misfire {
	case MisfireLatest:
		next, ok := g.expect.next(o.lo)
		return ok && next.lo < deadline
	case MisfireSkip:
		// A previous occurrence that took long is as good a reason as a fault.
		return c.faults.touch(o.lo, deadline) || hi > max(o.hi, g.put.T1)
	}
	return false
}

// single says whether the timer has one occurrence.
func (p *Put) single() bool { return p.Spec.Every == 0 && p.Spec.Cron == "" }
