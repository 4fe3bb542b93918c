package history

import "slices"

// judgeAttempts judges the attempts of one occurrence by themselves, and finds out when it was done.
func (c *checker) judgeAttempts(g *generation, d *delivery) {
	c.noteKeys(g, d)
	most := g.put.Spec.MaxAttempts
	d.done = c.doneBy(g, d)
	d.settled = c.settledBy(g, d)
	if n := d.countAttempts(); most > 0 && n > most &&
		!c.faults.hasFaultBetween(d.arrivals[0].T, d.arrivals[len(d.arrivals)-1].T) {
		c.addViolation("C9-retry", g, d.lo, "%d attempts, max_attempts is %d", n, most)
	}
	var ok, fatal, running *arrival // the latest of each before the one that is looked at
	for i := range d.arrivals {
		a := &d.arrivals[i]
		c.judgeDeleted(g, d, a)
		c.judgeOutdated(g, d, a)
		if i > 0 {
			c.judgeNext(g, d, &d.arrivals[i-1], a)
		}
		again := c.judgeRepeated(g, d, ok, a, "after the reply ok")
		again = c.judgeRepeated(g, d, fatal, a, "after the reply fatal") || again
		if running != nil && a.T < c.runningUntil(running) {
			again = c.judgeRepeated(g, d, running, a, "while an attempt was running") || again
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
		if running == nil || c.runningUntil(a) > c.runningUntil(running) {
			running = a
		}
	}
	c.judgeEnd(g, d, ok != nil || fatal != nil)
	for _, dead := range d.deads {
		n := len(d.arrivals)
		if fatal == nil && n < most && len(d.asked) == 0 && !c.deadlinePassed(g, d, dead.T) &&
			!c.faults.hasFaultBetween(min(d.lo, dead.T), dead.T) {
			c.addViolation("C9-dead", g, d.lo, "it is a dead letter after %d attempts, max_attempts is %d", n, most)
		}
	}
}

// runningUntil returns until when an attempt may have been running.
func (c *checker) runningUntil(a *arrival) Time { return min(a.end, a.T.Add(c.cfg.AttemptTimeout)) }

// judgeRepeated judges an attempt by an earlier one after which, or in parallel to which, there should be
// none. It reports whether there is such an earlier one.
func (c *checker) judgeRepeated(g *generation, d *delivery, before, a *arrival, how string) bool {
	if before == nil {
		return false
	}
	if running := a.T < c.runningUntil(before); running != (how == "while an attempt was running") {
		return false // the other call reports it
	}
	if c.cfg.StrictDup && !c.doubles.hasFaultBetween(before.T, a.T) {
		c.addViolation("C6-dup", g, d.lo, "an attempt arrived at %v %s: that of %v", a.T, how, before.T)
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
	_, paused := g.timer.pausedBetween(before.T, a.T) // the end of a pause ends the wait
	if wait := c.cfg.MinBackoff; wait > 0 && !sentOnceMore(before, a) && a.T < from.Add(wait) && !paused &&
		!c.faults.hasFaultBetween(before.T, a.T) {
		c.addViolation("C9-retry", g, d.lo, "it was tried again at %v, %v after an attempt had failed; the least is %v", a.T,
			a.T.Sub(from), wait)
	}
	if by := c.retriedBy(g, d, before); a.T > by && !g.mayHaveEnded(by) {
		c.addViolation("C1-lost", g, d.lo, "after the attempt of %v had failed, nothing came by %v", before.T, by)
	}
}

// countAttempts returns how many attempts have arrived.
func (d *delivery) countAttempts() int {
	n := len(d.arrivals)
	for i := 1; i < len(d.arrivals); i++ {
		if sentOnceMore(&d.arrivals[i-1], &d.arrivals[i]) {
			n--
		}
	}
	return n
}

// sentOnceMore reports whether an arrival is the same attempt over another connection: the one before broke
// without an answer.
func sentOnceMore(before, a *arrival) bool {
	return before.reply == ReplyNone && before.end != forever && a.Attempt > 0 && a.Attempt == before.Attempt &&
		a.Epoch == before.Epoch
}

// judgeEnd reports whether an occurrence whose attempts all failed was given up without a record. A crash
// between an attempt and the write of its outcome loses the attempt; then the misfire policy, or a pause, may
// give the occurrence up after all.
func (c *checker) judgeEnd(g *generation, d *delivery, settled bool) {
	n, most := len(d.arrivals), g.put.Spec.MaxAttempts
	if n == 0 || settled || g.becameDeadLetter(d) || most > 0 && n >= most {
		return
	}
	last := &d.arrivals[n-1]
	by := c.retriedBy(g, d, last)
	if !d.manual && c.faults.hasFaultBetween(last.T, by) {
		if _, paused := g.timer.pausedBetween(last.T, by); paused && g.put.Spec.isRecurring() ||
			c.givenUp(g, occurrence{d.lo, d.lo}, true, by, by) {
			return
		}
	}
	if by <= c.end && !g.mayHaveEnded(by) {
		c.addViolation("C1-lost", g, d.lo, "all %d attempts failed, and after that of %v nothing came by %v", n, last.T, by)
	}
}

// retriedBy returns when the next attempt should have come, or the occurrence been given up, at the latest.
func (c *checker) retriedBy(g *generation, d *delivery, a *arrival) Time {
	by := a.T.Add(c.cfg.AttemptTimeout)
	if a.end != forever {
		by = max(by, a.end)
	}
	wait := c.cfg.MaxBackoff + c.cfg.MaxLate + c.cfg.ClockErr
	by = c.faults.postponeDeadline(a.T, by.Add(wait), c.cfg.MaxLate)
	if s := &g.put.Spec; s.Limit != "" {
		by = max(by, c.limitedUntil(s))
	}
	// the attempt was lost, and runs that were requested since may be before the next
	if !d.manual && c.faults.hasFaultBetween(a.T, by) {
		for i := range g.manual.deliveries {
			if run := &g.manual.deliveries[i]; len(run.arrivals) > 0 && run.arrivals[0].T <= by && run.settled > a.T {
				by = max(by, c.faults.postponeDeadline(a.T, run.settled.Add(wait), c.cfg.MaxLate))
			}
		}
	}
	if end, paused := g.timer.pausedBetween(a.T, by); paused && !d.manual {
		by = max(by, c.faults.postponeDeadline(a.T, end.Add(wait), c.cfg.MaxLate))
	}
	return by
}

// mayHaveEnded reports whether something that may have ended the generation began before a time.
func (g *generation) mayHaveEnded(by Time) bool { return g.threat != nil && g.threat.t0 < by }

// doneBy returns when an occurrence had ended. Attempts that a crash lost do not count towards the last one.
func (c *checker) doneBy(g *generation, d *delivery) Time {
	done := forever
	for i := range d.arrivals {
		if a := &d.arrivals[i]; a.reply == ReplyOK || a.reply == ReplyFatal {
			done = min(done, a.end)
		}
	}
	n, most := len(d.arrivals), g.put.Spec.MaxAttempts
	spent := func() bool {
		return most > 0 && n >= most && !c.faults.hasFaultBetween(d.arrivals[0].T, c.runningUntil(&d.arrivals[max(0, n-2)]))
	}
	if done == forever && n > 0 && (g.becameDeadLetter(d) || spent()) {
		last := &d.arrivals[n-1]
		if done = last.end; done == forever {
			done = last.T // the service may have seen at once that it was cut
		}
	}
	return done
}

// settledBy returns by when the service may have noticed that an occurrence had ended: one that its deadline
// ended, when its next attempt would have been.
func (c *checker) settledBy(g *generation, d *delivery) Time {
	n, s := len(d.arrivals), &g.put.Spec
	if d.done == forever || n == 0 || n >= s.MaxAttempts || s.Deadline == 0 || d.manual {
		return d.done
	}
	last := &d.arrivals[n-1]
	if last.reply == ReplyOK || last.reply == ReplyFatal {
		return d.done
	}
	settled := d.done.Add(c.cfg.MaxBackoff)
	if end, paused := g.timer.pausedBetween(last.T, settled); paused {
		settled = max(settled, c.faults.postponeDeadline(end, end.Add(c.cfg.MaxBackoff), c.cfg.MaxLate))
	}
	return settled
}

// becameDeadLetter reports whether the service gave an occurrence up: it is a dead letter, or was one that
// was redriven, or is recorded as one. An occurrence that was backfilled while it was being tried goes on as
// the requested one: the two cannot be distinguished.
func (g *generation) becameDeadLetter(d *delivery) bool {
	records := g.records
	if d.manual {
		records = g.manual.records
	}
	return len(d.deads) > 0 || d.manual && g.redrivenRuns(d.lo, forever) > 0 ||
		!d.manual && slices.ContainsFunc(g.asks, func(a ask) bool {
			return a.coversOccurrence(d.occurrence) &&
				a.t0 > d.arrivalOrForever()
		}) ||
		slices.ContainsFunc(records, func(r *Record) bool { return r.Ending == Died && sameMilli(r.Due, d.lo) })
}

// arrivalOrForever returns when the occurrence first arrived, forever if it did not.
func (d *delivery) arrivalOrForever() Time {
	if began, ok := d.firstArrival(); ok {
		return began
	}
	return forever
}

// judgeOrder judges when an occurrence began by when the one before it was done.
func (c *checker) judgeOrder(g *generation, previous, d *delivery, began Time) {
	if !g.put.Spec.isOrdered() || previous == nil || began >= previous.done-toMicros(c.cfg.ClockErr) {
		return
	}
	before, _ := previous.firstArrival()
	if !c.faults.hasFaultBetween(min(before, began), max(before, began)) {
		c.addViolation("C10-order", g, d.lo, "it began at %v, the one due %v was done %v", began, previous.lo, previous.done)
	}
}

// judgeDeleted judges an arrival by when its generation was surely deleted or replaced.
func (c *checker) judgeDeleted(g *generation, d *delivery, a *arrival) {
	w := g.ended
	switch {
	case w == nil:
	case w.gen != nil && !w.gen.put.Replace && !w.gen.put.Reschedule: // a create found no timer: the schedule had ended, and retries go on
	// A write between the two whose answer was lost may have ended the generation, and have reported that an
	// attempt was in flight.
	case c.mayArriveAfter(w, d, a, g.threat != w && g.threat.res == Info):
	case g.put.Res == Info && g.put.Spec.Delay != 0 && a.Due >= w.t0+toMicros(g.put.Spec.Delay): // applied after that, as its client had given it up
	default:
		what := "deleted"
		if w.gen != nil {
			what = "replaced"
		}
		c.addViolation("C7-after-delete", g, d.lo, "an attempt arrived at %v, the timer was %s by %v", a.T, what, w.t1)
	}
}

// judgeOutdated judges an arrival by when a write that began no generation had surely changed what it
// carries.
func (c *checker) judgeOutdated(g *generation, d *delivery, a *arrival) {
	writes := g.changes[g.changeOf(a.Gen):]
	if len(writes) > 0 && !c.mayArriveAfter(writes[0], d, a, false) {
		c.addViolation("C7-after-delete", g, d.lo, "an attempt arrived at %v with what the timer carried before a write of %v",
			a.T, writes[0].t1)
	}
}

// changeOf returns how many of the writes that changed a generation had been made when it carried a gen.
func (g *generation) changeOf(gen uint64) int {
	return 1 + slices.IndexFunc(g.changes, func(w *write) bool { return w.gen.put.Gen == gen })
}

// mayArriveAfter reports whether an attempt may arrive when a write that it should not follow was
// acknowledged: it was in flight, as the answer reported, or one that was lost may have.
func (c *checker) mayArriveAfter(w *write, d *delivery, a *arrival, lost bool) bool {
	return a.T <= w.t1.Add(c.cfg.ClockErr) ||
		(w.inflight || lost) && d.lo <= w.t1 && a.T <= w.t1.Add(c.cfg.Lease) ||
		c.cfg.ZombieOK && c.faults.hasFaultBetween(min(d.lo, w.t0), a.T)
}
