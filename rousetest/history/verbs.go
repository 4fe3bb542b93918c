package history

import (
	"cmp"
	"slices"
	"time"
)

// timerCalls are the calls of clients for a timer other than writes.
type timerCalls struct {
	pauses    []*Pause
	resumes   []*Resume
	skips     []*Skip
	runs      []*Run
	backfills []*Backfill
	redrives  []*Redrive
}

// gatherCalls puts the calls to their timers.
func (c *checker) gatherCalls(h *History, named func(string) *timer) {
	c.runs = map[string]*Run{}
	for i := range h.Pauses {
		t := named(h.Pauses[i].Timer)
		t.calls.pauses = append(t.calls.pauses, &h.Pauses[i])
	}
	for i := range h.Resumes {
		t := named(h.Resumes[i].Timer)
		t.calls.resumes = append(t.calls.resumes, &h.Resumes[i])
	}
	for i := range h.Skips {
		t := named(h.Skips[i].Timer)
		t.calls.skips = append(t.calls.skips, &h.Skips[i])
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		t := named(r.Timer)
		t.calls.runs = append(t.calls.runs, r)
		if r.Key != "" {
			c.runs[r.Key] = r
		}
	}
	for i := range h.Backfills {
		t := named(h.Backfills[i].Timer)
		t.calls.backfills = append(t.calls.backfills, &h.Backfills[i])
	}
	for i := range h.Redrives {
		t := named(h.Redrives[i].Timer)
		t.calls.redrives = append(t.calls.redrives, &h.Redrives[i])
	}
}

// mayBeMeant reports whether a call that began at t0 may have been about the generation.
func (g *generation) mayBeMeant(t0 Time) bool {
	return g.put.T0 <= t0 && (g.ended == nil || t0 < g.ended.t1)
}

// pause is the time from which until which a timer may have been paused, and the part of it in which it
// surely was.
type pause struct {
	from, to Time
	sure     window
}

// relatePauses finds out when the timer was paused. A pause ends at its time, and by a resume, a delete, a
// create or replace, or another pause.
func (t *timer) relatePauses(clockErr time.Duration) {
	if len(t.calls.pauses) == 0 {
		return
	}
	type end struct {
		t0, t1 Time
		res    Res
		maybe  bool // only if the timer was not there any more
	}
	var ends []end
	for _, p := range t.calls.pauses {
		ends = append(ends, end{p.T0, p.T1, p.Res, false})
	}
	for _, r := range t.calls.resumes {
		ends = append(ends, end{r.T0, r.T1, r.Res, false})
	}
	for i := range t.writes {
		if w := &t.writes[i]; w.gen == nil || !w.gen.put.Reschedule && w.gen.goes == nil {
			ends = append(ends, end{w.t0, w.t1, w.res, w.gen != nil && w.gen.put.Replace})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(a.t0, b.t0) })
	slices.SortStableFunc(t.calls.pauses, func(a, b *Pause) int { return cmp.Compare(a.T0, b.T0) })
	for _, p := range t.calls.pauses {
		if p.Res == Fail {
			continue
		}
		span := pause{p.T0, forever, window{p.T1, forever}}
		if p.Until != 0 {
			span.to, span.sure.to = p.Until.Add(clockErr), p.Until-toMicros(clockErr)
		}
		for _, e := range ends {
			if e.t0 < p.T1 || e.t0 == p.T0 || e.res == Fail {
				continue
			}
			span.sure.to = min(span.sure.to, e.t0)
			if e.res == OK && !e.maybe {
				span.to = min(span.to, e.t1)
				break
			}
		}
		if p.Res != OK {
			span.sure = window{}
		}
		t.pauses = append(t.pauses, span)
	}
}

// pausedBetween reports whether the timer may have been paused between two times, and until when: one pause
// may go on in another.
func (t *timer) pausedBetween(from, to Time) (until Time, ok bool) {
	for i := range t.pauses { // in the order of their beginnings
		if p := &t.pauses[i]; p.from <= max(to, until) && from <= p.to {
			until, ok = max(until, p.to), true
		}
	}
	return until, ok
}

// judgePause judges whether an occurrence should have arrived first when it did.
func (c *checker) judgePause(g *generation, d *delivery) {
	began, ok := d.firstArrival()
	if !ok {
		return
	}
	slack := toMicros(c.cfg.ClockErr)
	for i := range g.timer.pauses {
		p := g.timer.pauses[i].sure
		onItsWay := p.from + slack + toMicros(c.cfg.MaxLate) // until then it may have been
		// it went its own way when it came due, and waited for the end of a fault
		if g.put.Spec.Overlap == OverlapAllow && d.lo <= p.from+slack {
			onItsWay = c.faults.postponeDeadline(p.from, onItsWay, c.cfg.MaxLate)
		}
		within := onItsWay < began && began < p.to-slack
		cameDue := g.put.Spec.isRecurring() && p.from+slack < d.lo && d.lo < p.to-slack && p.from < began
		if within || cameDue {
			c.addViolation("R7-pause", g, d.lo, "it arrived at %v, the timer was paused from %v to %v", began, p.from, p.to)
			return
		}
	}
}

// maxSkipped returns how many occurrences may have been given up by skips that began before a time.
func (g *generation) maxSkipped(by Time) (n int) {
	for _, s := range g.timer.calls.skips {
		if s.Res != Fail && s.T0 < by && g.mayBeMeant(s.T0) {
			n += s.Count
		}
	}
	return n
}

// ask is a redrive of one occurrence, or a backfill of those from one to before another.
type ask struct {
	from, until Time
	t0, t1      Time
	sure        bool // it was acknowledged
	backfill    bool
}

func (a *ask) coversOccurrence(o occurrence) bool { return a.from <= o.lo && o.lo < a.until }

// relateAsks finds out which occurrences were asked for again.
func (c *checker) relateAsks(g *generation) {
	for _, b := range g.timer.calls.backfills {
		if b.Res != Fail && g.mayBeMeant(b.T0) {
			g.asks = append(g.asks, ask{b.From, b.Until, b.T0, b.T1, b.Res == OK, true})
		}
	}
	for _, r := range g.timer.calls.redrives {
		if r.Res == Fail || r.Gen != g.put.Gen || r.Manual {
			continue
		}
		if o, ok := g.findOccurrence(r.Due); ok {
			g.asks = append(g.asks, ask{o.lo, o.lo + 1, r.T0, r.T1, r.Res == OK, false})
		}
	}
	slices.SortStableFunc(g.asks, func(a, b ask) int { return cmp.Compare(a.t0, b.t0) })
}

// findOccurrence returns the occurrence that a due time names, be it one that only a backfill can ask for.
func (g *generation) findOccurrence(due Time) (occurrence, bool) {
	o, ok := g.expect.matchDue(due)
	if !ok {
		if o, ok = g.expect.widenStart().matchDue(due); ok {
			ok = slices.ContainsFunc(g.asks, func(a ask) bool { return a.backfill && a.coversOccurrence(o) })
		}
	}
	return o, ok
}

// mayBeRequested reports whether an arrival of an occurrence at a time may have been requested.
func (c *checker) mayBeRequested(g *generation, o occurrence, t Time) bool {
	return slices.ContainsFunc(g.asks, func(a ask) bool { return a.coversOccurrence(o) && a.t0 <= t.Add(c.cfg.ClockErr) })
}

// judgeAsks judges whether the requested occurrences came.
func (c *checker) judgeAsks(g *generation, ds []delivery) {
	for i := range g.asks {
		a := &g.asks[i]
		by := c.faults.postponeDeadline(a.t0, a.t1.Add(c.cfg.MaxLate+c.cfg.ClockErr), c.cfg.MaxLate)
		if !a.sure || by > c.end || g.mayHaveEnded(by) {
			continue
		}
		wide := g.expect.widenStart()
		for o, ok := wide.nextOccurrence(a.from - 1); ok && o.lo < a.until && o.hi < a.t0; o, ok = wide.nextOccurrence(o.lo) {
			if a.backfill && slices.ContainsFunc(g.asks[:i], func(b ask) bool { return b.coversOccurrence(o) }) {
				continue // the fire of an earlier call may still be on its way, and is left alone
			}
			at, found := slices.BinarySearchFunc(ds, o.lo, func(d delivery, lo Time) int { return cmp.Compare(d.lo, lo) })
			if found && (ds[at].cameBetween(a.t0-toMicros(c.cfg.ClockErr), by) || ds[at].isInProgress(a.t0) ||
				a.backfill && ds[at].failedAllAttempts()) {
				continue // it came, is on its way, or is a dead letter that is left alone
			}
			if deadline := c.faults.postponeDeadline(o.lo, o.hi.Add(c.cfg.MaxLate+c.cfg.ClockErr+g.put.Spec.Jitter),
				c.cfg.MaxLate); a.backfill && a.t0 < deadline {
				continue // it may have been on its way
			}
			what := "redrive"
			if a.backfill {
				what = "backfill"
			}
			c.report.Stats.Musts++
			c.addViolation("C1-lost", g, o.lo, "nothing came by %v of the %s of %v", by, what, a.t0)
		}
	}
}

// cameBetween reports whether an attempt arrived between two times.
func (d *delivery) cameBetween(from, to Time) bool {
	for _, list := range [...][]arrival{d.arrivals, d.asked} {
		if slices.ContainsFunc(list, func(a arrival) bool { return from <= a.T && a.T <= to }) {
			return true
		}
	}
	return false
}

// failedAllAttempts reports whether there were attempts, none of which was answered ok.
func (d *delivery) failedAllAttempts() bool {
	return len(d.arrivals) > 0 && !slices.ContainsFunc(d.arrivals, func(a arrival) bool { return a.reply == ReplyOK })
}

// isInProgress reports whether attempts of the occurrence were made and not ended at a time.
func (d *delivery) isInProgress(at Time) bool {
	began, ok := d.firstArrival()
	return ok && began <= at && at <= d.done
}
