package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// manual holds the observations of runs that clients asked for.
type manual struct {
	arrivals   []arrival
	deads      []*Dead
	records    []*Record
	deliveries []delivery // one for each run that came, in the order of their beginnings
}

// judgeRunAttempts collects the attempts of each run, and judges them.
func (c *checker) judgeRunAttempts(g *generation) {
	m := &g.manual
	slices.SortStableFunc(m.arrivals, func(a, b arrival) int {
		return cmp.Or(strings.Compare(a.Key, b.Key),
			cmp.Compare(a.T, b.T))
	})
	for i := range m.arrivals {
		a := &m.arrivals[i]
		if i == 0 || a.Key != m.arrivals[i-1].Key {
			if why := c.whyUnasked(g, a); why != "" {
				c.reportPhantom("an arrival", g.put.Timer, g.put.Gen, a.Due, a.T, why)
			}
			m.deliveries = append(m.deliveries, delivery{occurrence: occurrence{a.Due, a.Due}, manual: true})
		}
		d := &m.deliveries[len(m.deliveries)-1]
		if len(d.arrivals) > 0 && g.redrivenRuns(a.Due, a.T.Add(c.cfg.ClockErr)) > 0 {
			d.asked = append(d.asked, *a)
		} else {
			d.arrivals = append(d.arrivals, *a)
		}
	}
	for i := range m.deliveries {
		d := &m.deliveries[i]
		for _, dead := range m.deads {
			if sameMilli(dead.Due, d.lo) {
				d.deads = append(d.deads, dead)
			}
		}
		c.judgeAttempts(g, d)
	}
	slices.SortStableFunc(m.deliveries, func(a, b delivery) int { return cmp.Compare(a.arrivals[0].T, b.arrivals[0].T) })
}

// whyUnasked reports why no client asked for an arrival; empty if one did.
func (c *checker) whyUnasked(g *generation, a *arrival) string {
	if r := c.runs[a.Key]; r != nil {
		switch {
		case r.Timer != g.put.Timer:
			return "the run of its key is another timer's"
		case r.Due != 0 && a.Due != r.Due:
			return "the run of its key is due " + r.Due.String()
		}
		return ""
	}
	if slices.ContainsFunc(g.timer.calls.runs, func(r *Run) bool {
		return r.Key == "" && r.Res != Fail &&
			r.T0 <= a.T.Add(c.cfg.ClockErr)
	}) {
		return ""
	}
	return "no call asked for a run with its key"
}

// busyUntil returns until when the attempts of others, in the order of their beginnings, may delay an
// occurrence that could begin at a time, or later by its jitter.
func (c *checker) busyUntil(ds []delivery, at Time, jitter time.Duration) Time {
	for i := range ds {
		if began, ok := ds[i].firstArrival(); ok && began <= c.faults.postponeDeadline(at,
			at.Add(jitter+c.cfg.MaxLate+c.cfg.ClockErr), c.cfg.MaxLate) {
			at = max(at, ds[i].settled)
		}
	}
	return at
}

// judgeRuns judges whether each run came, and has one record.
func (c *checker) judgeRuns(g *generation, ds []delivery) {
	others := slices.Concat(g.manual.deliveries, ds)
	others = slices.DeleteFunc(others, func(d delivery) bool { return len(d.arrivals) == 0 })
	slices.SortStableFunc(others, func(a, b delivery) int { return cmp.Compare(a.arrivals[0].T, b.arrivals[0].T) })
	for _, r := range g.timer.calls.runs {
		if r.Res != OK || !g.mayBeMeant(r.T0) {
			continue
		}
		at := slices.IndexFunc(g.manual.deliveries, func(d delivery) bool { return d.arrivals[0].Key == r.Key })
		by := c.busyUntil(others, r.T1, 0)
		if by != forever {
			by = c.faults.postponeDeadline(r.T0, by.Add(c.cfg.MaxLate+c.cfg.ClockErr), c.cfg.MaxLate)
		}
		died := slices.ContainsFunc(g.manual.deads, func(d *Dead) bool { return sameMilli(d.Due, r.Due) })
		if at < 0 && !died {
			if by <= c.end && !g.mayHaveEnded(by) {
				c.report.Stats.Musts++
				c.addViolation("R6-run", g, r.Due, "nothing came by %v of the run of %v", by, r.T0)
			}
			continue
		}
		if !c.cfg.Records || r.Due == 0 {
			continue
		}
		n := 0
		for _, record := range g.manual.records {
			if sameMilli(record.Due, r.Due) {
				n++
			}
		}
		touched, settled := true, Time(0)
		if at >= 0 {
			d := &g.manual.deliveries[at]
			settled = d.done
			touched = c.faults.hasFaultBetween(d.arrivals[0].T, min(d.done, c.end).Add(c.cfg.MaxLate))
		}
		switch {
		case n == 0 && settled != forever && c.faults.postponeDeadline(settled, settled.Add(c.cfg.MaxLate+c.cfg.ClockErr),
			c.cfg.MaxLate) <= c.end && !(touched && g.threat != nil):
			c.addViolation("R6-run", g, r.Due, "there is no record of how the run of %v ended", r.T0)
		case n > 1+g.redrivenRuns(r.Due, forever) && !touched:
			c.addViolation("R6-run", g, r.Due, "%d records say what became of the run of %v", n, r.T0)
		}
	}
	for _, record := range g.manual.records {
		if !slices.ContainsFunc(g.timer.calls.runs, func(r *Run) bool {
			return r.Res != Fail &&
				(r.Due == 0 || sameMilli(record.Due, r.Due))
		}) {
			c.phantomRecord(record, "no call asked for this run")
		}
	}
}

// redrivenRuns returns how often the dead letter of a run may have been redriven by a time.
func (g *generation) redrivenRuns(due, by Time) (n int) {
	for _, r := range g.timer.calls.redrives {
		if r.Manual && r.Res != Fail && r.Gen == g.put.Gen && sameMilli(r.Due, due) && r.T0 <= by {
			n++
		}
	}
	return n
}

// usedUp reports whether a run stands where an occurrence should.
func (g *generation) usedUp(o occurrence) bool {
	return slices.ContainsFunc(g.manual.arrivals, func(a arrival) bool { return sameMilli(a.Due, o.lo) }) ||
		slices.ContainsFunc(g.manual.records, func(r *Record) bool { return sameMilli(r.Due, o.lo) })
}
