package history

import (
	"slices"
	"time"
)

// causes are the endings that each cause of a record goes with.
var causes = map[string][]Ending{
	"delivered": {Fired}, "notice": {Fired}, "reported": {Fired, Died},
	"rejected": {Died}, "attempts_exhausted": {Died}, "give_up": {Died}, "gone": {Died}, "deadline": {Died},
	"invalid": {Died}, "poison": {Died},
	"paused": {Skipped, Missed}, "skipped_by_request": {Skipped}, "deleted": {Skipped}, "replaced": {Skipped},
	"overlap_limit": {Skipped}, "notice_limit": {Skipped},
	"overlapped":  {Skipped, Missed},
	"server_down": {Missed}, "store_unavailable": {Missed}, "clock_moved": {Missed}, "no_subscriber": {Missed},
	"circuit_open":       {Missed},
	"broker_unavailable": {Missed}, "rate_limited": {Missed}, "backlog": {Missed}, "deferred": {Missed},
	"created_late": {Missed}, "no_secret": {Missed}, "limit": {Missed},
	"not_reported": {Missed},
}

// judgeCause judges whether the cause of a record is plausible by observations from outside.
func (c *checker) judgeCause(g *generation, a *account, ds []delivery) {
	if a.Cause == "" {
		return
	}
	wrong := func(why string) {
		c.addViolation("R8-cause", g, a.from, "a record has the ending %s with cause %s, but %s", a.Ending, a.Cause, why)
	}
	if endings, known := causes[a.Cause]; !known || !slices.Contains(endings, a.Ending) {
		wrong("this cause does not go with that ending")
		return
	}
	s := &g.put.Spec
	switch a.Cause {
	case "overlapped":
		if c.cfg.Handovers {
			break // the log does not show which occurrence a node had in progress when it went
		}
		first, last := occurrence{a.from, a.from}, occurrence{a.to, a.to}
		switch {
		case !c.busyAt(g, first, ds) || !c.busyAt(g, last, ds):
			wrong("no other occurrence was in progress when it was due")
		case a.Other != 0 && !c.hasOccurrenceDue(g, a.Other, ds):
			wrong("the timer has no occurrence or run of " + a.Other.String())
		}
	case "server_down", "store_unavailable", "clock_moved":
		if a.Cause == "server_down" && c.cfg.Handovers || a.Cause == "store_unavailable" && c.cfg.SlowStore {
			break
		}
		if faults := c.explains[a.Cause]; !faults.hasFaultBetween(a.from, c.givenUpBy(g, a)) {
			wrong("there was no fault that can be the cause")
		}
	case "paused":
		if until, ok := g.timer.pausedBetween(a.from, c.end); !ok || a.to > until.Add(c.cfg.ClockErr) {
			wrong("the timer was not paused")
		}
	case "skipped_by_request":
		if g.maxSkipped(forever) == 0 {
			wrong("no client asked to skip any")
		}
	case "deleted", "replaced":
		if g.threat == nil {
			wrong("no client did that")
		}
	case "deadline":
		if s.Deadline == 0 {
			wrong("the timer has no deadline")
		}
	case "attempts_exhausted":
		if s.MaxAttempts > 0 && a.Attempts != s.MaxAttempts && a.Attempts != 0 {
			wrong("it was tried less often, or more, than the timer allows")
		}
	case "rejected":
		if i := slices.IndexFunc(ds, func(d delivery) bool { return d.lo == a.from }); i >= 0 && !c.mayBeRejected(&ds[i]) {
			wrong("no attempt of it was refused for good")
		}
	}
}

// givenUpBy returns by when the policies of a timer have given up the occurrences of a record, whatever
// delayed them.
func (c *checker) givenUpBy(g *generation, a *account) Time {
	s := &g.put.Spec
	wait := max(s.Within, s.Deadline, skipGrace)
	if next, ok := g.expect.nextOccurrence(a.to); ok && s.Misfire == MisfireLatest {
		wait = max(wait, next.lo.Sub(a.to)+c.cfg.AttemptTimeout)
	}
	return a.to.Add(s.Jitter + wait + c.cfg.MaxLate + c.cfg.ClockErr)
}

// mayBeRejected reports whether an attempt of an occurrence was refused for good, or a fault may have hidden
// that.
func (c *checker) mayBeRejected(d *delivery) bool {
	for _, list := range [][]arrival{d.arrivals, d.asked} {
		if slices.ContainsFunc(list, func(a arrival) bool {
			return a.reply == ReplyFatal ||
				c.faults.hasFaultBetween(a.T, a.end)
		}) {
			return true
		}
	}
	return false
}

// busyAt reports whether another occurrence of the timer, or a run, may have been in progress when this one
// was due.
func (c *checker) busyAt(g *generation, o occurrence, ds []delivery) bool {
	o.hi = o.lo.Add(g.put.Spec.Jitter)
	return c.inProgress(o, ds) || c.inProgress(o, g.manual.deliveries)
}

// hasOccurrenceDue reports whether a time is the due time of an occurrence of the timer that arrived, or of a
// run.
func (c *checker) hasOccurrenceDue(g *generation, due Time, ds []delivery) bool {
	at := func(d delivery) bool { return d.lo <= due && due <= max(d.hi, d.lo.Add(time.Millisecond)) }
	return slices.ContainsFunc(ds, at) || slices.ContainsFunc(g.manual.deliveries, at)
}
