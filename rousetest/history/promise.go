package history

import (
	"slices"
	"time"
)

// toMicros is a duration as the difference of two Times.
func toMicros(d time.Duration) Time { return Time(d.Microseconds()) }

// newExpectation returns the occurrences that a generation promises, nil if they are not known; and judges
// the due time that the service answered (C13), and whether it should have accepted the expression at all
// (C12).
func (c *checker) newExpectation(g *generation) expectation {
	p, s := g.put, &g.put.Spec
	slack, until := toMicros(c.cfg.ClockErr), s.Until
	if until == 0 {
		until = forever
	}
	switch {
	case s.At != 0:
		c.judgeTold(g, sameMilli(p.Due, s.At))
		g.unsure = s.At > until
		return &once{occurrence: occurrence{s.At, s.At}}
	case s.Every != 0:
		if len(s.Except)+len(s.Off) > 0 {
			return c.expectWorking(g, until)
		}
		return c.expectEvery(g, until)
	case s.Cron != "":
		return c.expectCron(g, until)
	}
	d := toMicros(s.Delay)
	e := &once{occurrence: occurrence{p.T0 + d, c.appliedBy(p) + d}, slack: slack}
	if _, ok := e.matchDue(p.Due); c.judgeTold(g, ok) {
		e.lo, e.hi = p.Due, p.Due
	}
	g.unsure = e.hi > until
	return e
}

// appliedBy returns by when a call was applied, if it was: one that its client gave up may be applied at any
// later time.
func (c *checker) appliedBy(p *Put) Time {
	if p.Res == Info {
		return max(p.T1, c.end)
	}
	return p.T1
}

func (c *checker) expectEvery(g *generation, until Time) expectation {
	p, s := g.put, &g.put.Spec
	slack, step := toMicros(c.cfg.ClockErr), toMicros(s.Every)
	if s.Start == 0 {
		e := &every{first: occurrence{p.T0 + step, c.appliedBy(p) + step}, step: step, until: until, slack: slack}
		told := e.first.lo-slack <= ceilMilli(p.Due) && p.Due <= min(ceilMilli(e.first.hi+slack), until)
		if c.judgeTold(g, told) {
			e.first, e.slack = occurrence{p.Due, p.Due}, 0
		}
		return e
	}
	e := &every{first: occurrence{s.Start, s.Start}, step: step, until: until, start: s.Start}
	if o, _ := e.nextOccurrence(p.T0 - slack - 1); o.lo > s.Start {
		e.first = o // earlier ones were due before the timer was there
	}
	c.judgeTold(g, c.isFirst(e, p))
	return e
}

// expectWorking is expectEvery with days that are off: the first interval may not end on a day that counts,
// so the due time that was answered may be any multiple of them later.
func (c *checker) expectWorking(g *generation, until Time) expectation {
	p, s := g.put, &g.put.Spec
	step, slack := toMicros(s.Every), toMicros(c.cfg.ClockErr)
	e := &every{step: step, until: until, start: s.Start}
	w := &working{e, days{time.UTC, slices.Concat(s.Except, s.Off)}}
	if s.Start != 0 {
		e.first = occurrence{s.Start, s.Start}
		if o, _ := e.nextOccurrence(p.T0 - slack - 1); o.lo > s.Start {
			e.first = o
		}
		c.judgeTold(g, c.isFirst(w, p))
		return w
	}
	e.first, e.slack = occurrence{p.T0 + step, c.appliedBy(p) + step}, slack
	earliest := floorMilli(e.first.lo - slack)
	base := earliest + Time(positiveMod(int64(p.Due-earliest), int64(step)))
	if told := p.Due >= base && base <= ceilMilli(e.first.hi+slack) &&
		p.Due <= until; c.judgeTold(g, told && firstWorkingDue(w, e, base) == p.Due) {
		e.first, e.slack = occurrence{base, base}, 0
	}
	return w
}

// firstWorkingDue returns the first due time of w, whose intervals e begin to end at base.
func firstWorkingDue(w *working, e *every, base Time) Time {
	was := *e
	e.first, e.slack = occurrence{base, base}, 0
	o, _ := w.nextOccurrence(base - 1)
	*e = was
	return o.lo
}

func (c *checker) expectCron(g *generation, until Time) expectation {
	p, s := g.put, &g.put.Spec
	policy := s.DST
	if policy == "" {
		policy = c.cfg.DST
	}
	key := cronKey{s.Cron, s.TZ, policy}
	times, ok := c.crons[key]
	if !ok {
		cron, err := parseCron(s.Cron, s.TZ)
		times = known{&cronTimes{cron: cron, policy: policy}, err}
		c.crons[key] = times
	}
	if times.err != nil {
		if p.Res == OK || len(g.arrivals) > 0 {
			c.addViolation("C12-bad-input", g, 0, "the service accepted the cron expression %q in the zone %q: %v", s.Cron,
				s.TZ, times.err)
		}
		return nil
	}
	var e expectation = &crontab{times: times.cronTimes, from: max(s.Start, p.T0-toMicros(c.cfg.ClockErr)), until: until,
		start: s.Start}
	if len(s.Except)+len(s.Off) > 0 {
		e = &working{e, days{times.cron.loc, slices.Concat(s.Except, s.Off)}}
	}
	c.judgeTold(g, c.isFirst(e, p))
	return e
}

type cronKey struct {
	text, tz string
	policy   DST
}

type known struct {
	*cronTimes
	err error
}

// isFirst reports whether the answered due time is the first one at some moment of the call.
func (c *checker) isFirst(e expectation, p *Put) bool {
	if p.Due == 0 {
		return true
	}
	slack := toMicros(c.cfg.ClockErr)
	if _, ok := e.matchDue(p.Due); !ok { // nothing from before the call matches
		return false
	}
	first, ok := e.nextOccurrence(p.T1 + slack)
	return !ok || floorMilli(p.Due) <= first.lo
}

// judgeTold reports whether the answer has a due time, and the right one.
func (c *checker) judgeTold(g *generation, right bool) bool {
	if g.put.Due == 0 || g.put.Res != OK {
		return false
	}
	if !right {
		c.addViolation("C13-bad-due", g, g.put.Due, "the service answered %v as first due, which is not what the %s asks for",
			g.put.Due, g.put.scheduleForm())
	}
	return right
}

func (p *Put) scheduleForm() string {
	switch {
	case p.Spec.At != 0:
		return "at"
	case p.Spec.Every != 0:
		return "every_ms"
	case p.Spec.Cron != "":
		return "cron"
	}
	return "delay_ms"
}
