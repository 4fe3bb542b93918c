package history

// judgeAttempts judges the attempts of one occurrence by themselves, and finds out when it was done.
func (c *checker) judgeAttempts(g *generation, d *delivery) {
	c.noteKeys(g, d)
	most := g.put.Spec.MaxAttempts
	d.done = c.doneBy(g, d)
	if n := len(d.arrivals); most > 0 && n > most && !c.faults.touch(d.arrivals[0].T, d.arrivals[n-1].T) {
		c.violate("C9-retry", g, d.lo, "%d attempts, max_attempts is %d", n, most)
	}
	var ok, fatal, running *arrival // the latest of each before the one that is looked at
	for i := range d.arrivals {
		a := &d.arrivals[i]
		c.judgeDeleted(g, d, a)
		if i > 0 {
			c.judgeNext(g, d, &d.arrivals[i-1], a)
		}
		again := c.repeated(g, d, ok, a, "after the reply ok")
		again = c.repeated(g, d, fatal, a, "after the reply fatal") || again
		if running != nil && a.T < c.runs(running) {
			again = c.repeated(g, d, running, a, "while an attempt was running") || again
		}
		if again {
			c.report.Stats.Dups++
		}
		switch a.reply {
		case ReplyOK:
			ok = a
		case ReplyFatal:
			fatal = a
		}
		if running == nil || c.runs(a) > c.runs(running) {
			running = a
		}
	}
	c.judgeEnd(g, d, ok != nil || fatal != nil)
	for _, dead := range d.deads {
		n := len(d.arrivals)
		if fatal == nil && n < most && !c.faults.touch(min(d.lo, dead.T), dead.T) {
			c.violate("C9-dead", g, d.lo, "it is a dead letter after %d attempts, max_attempts is %d", n, most)
		}
	}
}

// runs returns until when an attempt may have been running.
func (c *checker) runs(a *arrival) Time { return min(a.end, a.T.Add(c.cfg.AttemptTimeout)) }

// repeated judges an attempt by an earlier one after which, or beside which, there should be none. It says whether there is
// such an earlier one.
func (c *checker) repeated(g *generation, d *delivery, before, a *arrival, how string) bool {
	if before == nil {
		return false
	}
	if running := a.T < c.runs(before); running != (how == "while an attempt was running") {
		return false // told by the other
	}
	if c.cfg.StrictDup && !c.faults.touch(before.T, a.T) {
		c.violate("C6-dup", g, d.lo, "an attempt arrived at %v %s: that of %v", a.T, how, before.T)
	}
	return true
}

// judgeNext judges when an attempt follows one that was refused.
func (c *checker) judgeNext(g *generation, d *delivery, before, a *arrival) {
	if before.reply != ReplyRetry && before.reply != ReplyNone {
		return
	}
	from := before.end
	if from == forever {
		from = before.T
	}
	if wait := c.cfg.MinBackoff; wait > 0 && a.T < from.Add(wait) && !c.faults.touch(before.T, a.T) {
		c.violate("C9-retry", g, d.lo, "it was tried again at %v, %v after an attempt had failed; the least is %v", a.T, a.T.Sub(from), wait)
	}
	if by := c.retriedBy(before); a.T > by && !g.contested(by) {
		c.violate("C1-lost", g, d.lo, "after the attempt of %v had failed, nothing came by %v", before.T, by)
	}
}

// judgeEnd says whether an occurrence whose attempts all failed was given up without a word. A crash between an attempt and
// the note of its outcome makes a service forget the attempt; then the misfire policy may give the occurrence up after all.
func (c *checker) judgeEnd(g *generation, d *delivery, settled bool) {
	n, most := len(d.arrivals), g.put.Spec.MaxAttempts
	if n == 0 || settled || len(d.deads) > 0 || most > 0 && n >= most {
		return
	}
	last := &d.arrivals[n-1]
	by := c.retriedBy(last)
	if c.faults.touch(last.T, by) && c.misfired(g, occurrence{d.lo, d.lo}, by, by) {
		return
	}
	if by <= c.end && !g.contested(by) {
		c.violate("C1-lost", g, d.lo, "all %d attempts failed, and after that of %v nothing came by %v", n, last.T, by)
	}
}

// retriedBy returns when the next attempt should have come at the latest.
func (c *checker) retriedBy(a *arrival) Time {
	by := a.T.Add(c.cfg.AttemptTimeout)
	if a.end != forever {
		by = max(by, a.end)
	}
	return c.faults.push(a.T, by.Add(c.cfg.MaxBackoff+c.cfg.MaxLate+c.cfg.ClockErr), c.cfg.MaxLate)
}

// contested says whether something that may have ended the generation began before a time.
func (g *generation) contested(by Time) bool { return g.threat != nil && g.threat.t0 < by }

// doneBy returns when an occurrence had ended.
func (c *checker) doneBy(g *generation, d *delivery) Time {
	done := forever
	for i := range d.arrivals {
		if a := &d.arrivals[i]; a.reply == ReplyOK || a.reply == ReplyFatal {
			done = min(done, a.end)
		}
	}
	if n, most := len(d.arrivals), g.put.Spec.MaxAttempts; done == forever && n > 0 && (len(d.deads) > 0 || most > 0 && n >= most) {
		last := &d.arrivals[n-1]
		if done = last.end; done == forever {
			done = last.T // the service may have seen at once that it was cut
		}
	}
	return done
}

// judgeOrder judges when an occurrence began by when the one before it was done.
func (c *checker) judgeOrder(g *generation, previous, d *delivery, began Time) {
	if !g.put.Spec.Serial || previous == nil || began >= previous.done-micros(c.cfg.ClockErr) {
		return
	}
	before, _ := previous.began()
	if !c.faults.touch(min(before, began), max(before, began)) {
		c.violate("C10-order", g, d.lo, "it began at %v, the one due %v was done %v", began, previous.lo, previous.done)
	}
}

// judgeDeleted judges an arrival by when its generation was surely deleted or replaced.
func (c *checker) judgeDeleted(g *generation, d *delivery, a *arrival) {
	w := g.ended
	switch {
	case w == nil || a.T <= w.t1.Add(c.cfg.ClockErr):
	case w.inflight && d.lo <= w.t1 && a.T <= w.t1.Add(c.cfg.Lease):
	case c.cfg.ZombieOK && c.faults.touch(min(d.lo, w.t0), a.T):
	default:
		what := "deleted"
		if w.gen != nil {
			what = "replaced"
		}
		c.violate("C7-after-delete", g, d.lo, "an attempt arrived at %v, the timer was %s by %v", a.T, what, w.t1)
	}
}
