package history

import (
	"cmp"
	"slices"
	"strings"
)

// account is a record with the occurrences that it is about.
type account struct {
	*Record
	from, to Time
}

// judgeRecords compares the service's records of a generation's occurrences with the observations.
func (c *checker) judgeRecords(g *generation, fates []fate, ds []delivery) {
	accounts := c.collectAccounts(g)
	for i := range accounts {
		c.judgeReason(g, &accounts[i], ds)
		c.judgeCause(g, &accounts[i], ds)
	}
	c.judgeSkips(g, accounts)
	// Whether a later occurrence has ended, so that this one must have ended.
	passed := make([]bool, len(fates))
	if g.put.Spec.isOrdered() && len(fates) > 0 {
		latest := Time(0)
		for i := range accounts {
			// occurrences that ended with the timer were recorded at once
			if o := (occurrence{accounts[i].to, accounts[i].to}); !accounts[i].endedWithTimer() &&
				!c.mayBeRequested(g, o, forever) {
				latest = max(latest, o.lo)
			}
		}
		for i := range fates {
			passed[i] = fates[i].lo < latest
		}
	}
	var active []account
	for i := range fates {
		f := &fates[i]
		for len(accounts) > 0 && accounts[0].from <= f.lo {
			active, accounts = append(active, accounts[0]), accounts[1:]
		}
		active = slices.DeleteFunc(active, func(a account) bool { return a.to < f.lo })
		c.judgeRecorded(g, f, active, passed[i])
	}
}

// collectAccounts returns the records of expected occurrences by their first one, and judges their counts.
func (c *checker) collectAccounts(g *generation) (list []account) {
	for _, r := range g.records {
		first, ok := g.findOccurrence(r.Due)
		if !ok {
			c.phantomRecord(r, "the timer has no such occurrence")
			continue
		}
		a := account{r, first.lo, first.lo}
		if r.LastDue != 0 {
			last, ok := g.findOccurrence(r.LastDue)
			if !ok {
				c.phantomRecord(r, "the timer has no occurrence of "+r.LastDue.String())
				continue
			}
			a.to = last.lo
			if n := c.countDueBetween(g, a.from, a.to); r.Count != 0 && n != r.Count {
				c.addViolation("R1-record", g, a.from, "a record counts %d occurrences from there to %v, there are %d",
					r.Count, a.to, n)
			}
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b account) int {
		return cmp.Or(cmp.Compare(a.from, b.from),
			cmp.Compare(a.to, b.to))
	})
	return list
}

// countDueBetween counts the occurrences from one to another, both included.
func (c *checker) countDueBetween(g *generation, from, to Time) (n int) {
	for o, ok := g.expect.nextOccurrence(from - 1); ok && o.lo <= to; o, ok = g.expect.nextOccurrence(o.lo) {
		n++
	}
	return n
}

// judgeRecorded judges the records of one occurrence. passed means that a later one has been dealt with,
// which comes after it.
func (c *checker) judgeRecorded(g *generation, f *fate, records []account, passed bool) {
	fired, gone := false, ""
	for _, r := range records {
		switch {
		case r.Ending == Fired:
			fired = true
		case r.Ending == Missed, r.Ending == Skipped && !r.endedWithTimer():
			gone = string(r.Ending)
		}
	}
	var arrivals, asked []arrival
	if f.d != nil {
		arrivals, asked = f.d.arrivals, f.d.asked
	}
	again := 0 // an occurrence that was asked for once more has a record more
	for i := range g.asks {
		if g.asks[i].coversOccurrence(f.occurrence) {
			again++
		}
	}
	touched := len(arrivals) > 0 && c.faults.hasFaultBetween(arrivals[0].T, c.recordedBy(arrivals))
	switch n := len(records); {
	case n > 1+again && !touched:
		c.addViolation("R1-record", g, f.lo, "%d records say what became of it", n)
	case n == 0 && c.cfg.Records && !f.told && c.mustHaveRecord(g, f, passed, touched):
		c.addViolation("R1-record", g, f.lo, "there is no record of how it ended")
	}
	accepted := func(a arrival) bool { return a.reply == ReplyOK }
	if fired && !slices.ContainsFunc(arrivals, accepted) && !slices.ContainsFunc(asked, accepted) {
		c.addViolation("R2-ending", g, f.lo, "it is recorded as fired, but no attempt was answered ok")
	}
	if gone != "" && len(arrivals) > 0 && !touched {
		c.addViolation("R2-ending", g, f.lo, "it is recorded as %s, but it arrived at %v", gone, arrivals[0].T)
	}
	if fired || len(records) == 0 || !c.cfg.Records {
		return
	}
	for i := range arrivals {
		a := &arrivals[i]
		if a.reply == ReplyOK && a.end <= a.T.Add(c.cfg.AttemptTimeout) && !touched &&
			a.end.Add(c.cfg.MaxLate+c.cfg.ClockErr) <= c.end && !g.cutOff(a, records) {
			c.addViolation("R2-ending", g, f.lo, "the attempt of %v was answered ok, but no record shows that it fired", a.T)
			return
		}
	}
}

// cutOff reports whether an attempt was answered ok only after its timer had been deleted or replaced, and
// the record is that of this end. It is so if the attempt had been accepted, or if the answer to the write
// reported it as in flight, or may have.
func (g *generation) cutOff(a *arrival, records []account) bool {
	if !slices.ContainsFunc(records, func(r account) bool { return r.Ending == Skipped && r.endedWithTimer() }) {
		return false
	}
	for _, w := range []*write{g.threat, g.ended} {
		if w != nil && a.end > w.t0 && (w.inflight || w.res == Info || a.Reply == ReplyNone) {
			return true
		}
	}
	return false
}

// recordedBy returns when all that follows from attempts has been written down.
func (c *checker) recordedBy(arrivals []arrival) Time {
	var end Time
	for i := range arrivals {
		end = max(end, c.runningUntil(&arrivals[i]))
	}
	return min(end, c.end).Add(c.cfg.MaxLate)
}

// mustHaveRecord reports whether there must be a record of an occurrence by now.
func (c *checker) mustHaveRecord(g *generation, f *fate, passed, touched bool) bool {
	switch {
	case !f.certain || g.put.Res != OK || g.unsure:
		return false
	case f.d != nil && len(f.d.arrivals) > 0:
		if f.d.done == forever {
			w := g.ended // an occurrence that was tried in vain until then ended with the timer
			return !touched && (passed || w != nil && c.recordedBy(f.d.arrivals) <= w.t0 &&
				w.t1.Add(c.cfg.MaxLate+c.cfg.ClockErr) <= c.end && g.threat == w)
		}
		by := c.faults.postponeDeadline(f.d.settled, f.d.settled.Add(c.cfg.MaxLate+c.cfg.ClockErr), c.cfg.MaxLate)
		// a fault lost it, and it cannot come again yet
		if end, paused := g.timer.pausedBetween(f.d.settled, by); touched && paused {
			by = max(by, c.faults.postponeDeadline(end, end.Add(c.cfg.AttemptTimeout), c.cfg.MaxLate))
		}
		return by <= c.end && !(touched && g.mayHaveEnded(by))
	}
	if w := g.ended; passed && w != nil && w.inflight && w.t0 <= f.deadline &&
		c.faults.hasFaultBetween(w.t0, w.t1.Add(c.cfg.AttemptTimeout+c.cfg.MaxLate)) {
		return false // its attempt was out, and the node that had it was lost before the attempt's end
	}
	return passed || f.deadline <= c.end && !f.contested
}

// judgeReason judges whether a timer's policies, or its clients, gave a record's reason.
func (c *checker) judgeReason(g *generation, a *account, ds []delivery) {
	s := &g.put.Spec
	switch word := a.reasonWord(); {
	case a.Ending == Fired || a.Ending == Died:
		return
	case a.Ending == Missed && word == "misfire" && (s.Misfire == MisfireLatest || s.Misfire == MisfireSkip ||
		s.Misfire == MisfireWithin):
		if next, ok := g.expect.nextOccurrence(a.to); s.Misfire != MisfireLatest || ok && next.lo <= c.end {
			return
		}
	case a.Ending == Missed && word == "deadline" && s.Deadline != 0:
		return
	case a.Ending == Skipped && word == "paused":
		if until, ok := g.timer.pausedBetween(a.from, c.end); ok && a.to <= until.Add(c.cfg.ClockErr) {
			return
		}
	case a.Ending == Skipped && a.endedWithTimer():
		if g.threat != nil {
			return
		}
	case a.Ending == Skipped && word == "asked" && g.maxSkipped(forever) > 0:
		return
	case a.Ending == Skipped && word == "overlap" && s.Overlap == OverlapSkip:
		if c.excusedByOverlap(g, occurrence{a.from, a.from}, ds) && c.excusedByOverlap(g, occurrence{a.to, a.to}, ds) {
			return
		}
	}
	c.addViolation("R3-reason", g, a.from, "it is recorded as %s: %q, for which there is no reason", a.Ending, a.Reason)
}

// reasonWord returns the first word of a record's reason.
func (r *Record) reasonWord() string {
	word, _, _ := strings.Cut(r.Reason, " ")
	return strings.TrimRight(word, ":")
}

// endedWithTimer reports whether an occurrence ended with its timer, while it was in progress.
func (r *Record) endedWithTimer() bool {
	return slices.Contains([]string{"deleted", "replaced", "rescheduled"}, r.reasonWord())
}

// judgeSkips compares how many occurrences were skipped on request with how many skips were requested.
func (c *checker) judgeSkips(g *generation, accounts []account) {
	n := 0
	for _, a := range accounts {
		if a.Ending != Skipped || !strings.HasPrefix(a.Reason, "asked") {
			continue
		}
		if a.LastDue != 0 && a.Count == 0 {
			return // it does not contain how many
		}
		n += max(1, a.Count)
	}
	most := g.maxSkipped(forever)
	if n > most && most > 0 { // with none, each is without a reason
		c.addViolation("R3-reason", g, 0, "%d occurrences were skipped as asked for, but %d were asked for", n, most)
	}
	if !c.cfg.Records || g.threat != nil || n >= most {
		return
	}
	least, last := 0, Time(0)
	for _, s := range g.timer.calls.skips {
		if s.Res == OK && g.mayBeMeant(s.T0) {
			least, last = least+s.Count, max(last, s.T1)
		}
	}
	// The schedule must have had so many left, and none be in progress that the skips still wait for.
	if by := c.faults.postponeDeadline(last, last.Add(c.cfg.AttemptTimeout+c.cfg.MaxLate), c.cfg.MaxLate); n < least &&
		by <= c.end && c.hasOccurrencesLeft(g, by, least) {
		c.addViolation("R3-reason", g, 0, "%d occurrences were skipped as asked for, but %d were asked for", n, least)
	}
}

// hasOccurrencesLeft reports whether a generation has so many occurrences after a time, and went on after it.
func (c *checker) hasOccurrencesLeft(g *generation, after Time, n int) bool {
	if g.put.Spec.Count > 0 {
		return false // skips count as well
	}
	o, ok := g.expect.nextOccurrence(after)
	for ; ok && n > 1; n-- {
		o, ok = g.expect.nextOccurrence(o.lo)
	}
	return ok && slices.ContainsFunc(g.records, func(r *Record) bool { return max(r.Due, r.LastDue) > after })
}
