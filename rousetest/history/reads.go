package history

import (
	"fmt"
	"maps"
	"slices"
)

// judgeReads compares the results of reads with the writes that were acknowledged before.
func (c *checker) judgeReads(h *History) {
	for i := range h.Gets {
		if r := &h.Gets[i]; r.Res == OK || r.Res == NotFound {
			c.judgeRead("a get", r.Timer, r.T0, r.T1, r.Gen, r.Res == OK)
		}
	}
	for i := range h.Finals {
		f := &h.Finals[i]
		for _, t := range c.timers {
			gen, ok := f.Timers[t.name]
			c.judgeRead("the final listing", t.name, f.T0, f.T1, gen, ok)
		}
		for _, name := range slices.Sorted(maps.Keys(f.Timers)) {
			if c.byName[name] == nil {
				c.judgeRead("the final listing", name, f.T0, f.T1, f.Timers[name], true)
			}
		}
	}
}

// judgeRead judges the result of a read of a timer between t0 and t1: gen, or that it is not there. what
// names the read.
func (c *checker) judgeRead(what, name string, t0, t1 Time, gen uint64, shown bool) {
	violate := func(format string, args ...any) {
		detail := fmt.Sprintf("%s from %v to %v shows ", what, t0, t1) + fmt.Sprintf(format, args...)
		c.report.Violations = append(c.report.Violations, Violation{Rule: "C8-read", Timer: name, Gen: gen, Detail: detail})
	}
	t := c.byName[name]
	if t == nil {
		if shown {
			violate("a timer that never was")
		}
		return
	}
	// The last write that was acknowledged before the read, and those after it that may have been seen.
	slack := c.cfg.ClockErr
	acknowledged, from := (*write)(nil), 0
	for i := range t.writes {
		if w := &t.writes[i]; w.res == OK && w.t1.Add(slack) <= t0 {
			acknowledged, from = w, i+1
		}
	}
	var possible []*write
	for i := from; i < len(t.writes); i++ {
		if w := &t.writes[i]; w.res != Fail && w.t0 < t1.Add(slack) {
			possible = append(possible, w)
		}
	}
	if !shown {
		if acknowledged != nil && acknowledged.gen != nil && len(possible) == 0 &&
			c.isStillDue(acknowledged.gen, t1.Add(slack)) {
			violate("no timer, but gen %d was acknowledged at %v and is due again", acknowledged.gen.put.Gen, acknowledged.t1)
		}
		return
	}
	for _, w := range possible {
		if w.gen != nil && w.gen.put.Gen == gen {
			return
		}
	}
	switch {
	case acknowledged == nil:
		violate("a generation that was not created")
	case acknowledged.gen == nil:
		violate("a timer whose deletion was acknowledged at %v", acknowledged.t1)
	case acknowledged.gen.put.Gen != gen:
		violate("another generation than %d, which was acknowledged at %v", acknowledged.gen.put.Gen, acknowledged.t1)
	}
}

// isStillDue reports whether a generation that nothing has ended is surely due after a time.
func (c *checker) isStillDue(g *generation, t Time) bool {
	if g.expect == nil || g.unsure || g.fatal != 0 && g.fatal <= t {
		return false // a target that wants no more may end a timer
	}
	if n := g.put.Spec.Count; n > 0 {
		for o, ok := g.expect.nextOccurrence(0); ok && o.lo <= t; o, ok = g.expect.nextOccurrence(o.lo) {
			if n--; n == 0 {
				return false
			}
		}
	}
	o, ok := g.expect.nextOccurrence(t)
	for n := g.maxSkipped(t); ok && n > 0; n-- { // a skip may have ended the schedule
		o, ok = g.expect.nextOccurrence(o.lo)
	}
	return ok
}
