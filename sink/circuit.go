package sink

import (
	"cmp"
	"time"
)

// CircuitOptions configure a circuit. Zero fields have the defaults that their comments name.
type CircuitOptions struct {
	Off bool // there is no circuit: every delivery passes
	// the part of the deliveries within Window that have to fail to open it, at most 1; default 0.5
	Share      float64
	Deliveries int           // how many deliveries within Window it takes at least; default 10
	Window     time.Duration // the time span in which they are counted; default 30 s
	Open       time.Duration // how long it stays open at first; doubled by each failed probe; default 1 s
	MaxOpen    time.Duration // default 30 s, or Open if that is longer

	// Patience is how long fires wait for a target that keeps failing. After that they fail without being
	// sent: each such failure spends an attempt, so that fires for a host that never comes back end as dead
	// letters. Default 1 h.
	Patience time.Duration
}

func (o CircuitOptions) withDefaults() CircuitOptions {
	if o.Share <= 0 || o.Share > 1 {
		o.Share = 0.5
	}
	o.Deliveries = cmp.Or(max(o.Deliveries, 0), 10)
	o.Window = cmp.Or(max(o.Window, 0), 30*time.Second)
	o.Open = cmp.Or(max(o.Open, 0), time.Second)
	o.MaxOpen = max(cmp.Or(max(o.MaxOpen, 0), 30*time.Second), o.Open)
	o.Patience = cmp.Or(max(o.Patience, 0), time.Hour)
	return o
}

// circuit is a pure state machine for one host or one address, with three states.
//
//	closed     deliveries pass; if the share of those that fail within the window is too large, it opens
//	open       nothing passes until a time
//	half open  one delivery passes, the probe; its outcome closes the circuit, or opens it for twice as long
//
// Attempts in progress when the circuit opened no longer matter. A circuit begins with the first failure, so
// one that is closed and has no failure in its window is not needed any more. The methods accept a nil
// circuit, which is closed and counts nothing.
type circuit struct {
	opts    CircuitOptions
	counts  counts
	since   time.Time // of the first failure after the last success; zero without a failure
	touched time.Time // last used; the oldest circuit is dropped first

	opened  int       // consecutive openings; 0 while closed
	until   time.Time // end of the open state
	probing bool      // half open, and the probe is in progress
}

// decision is the answer of a circuit to a delivery.
type decision int

const (
	passes decision = iota
	probes
	waits
)

// decidePass returns the decision about a delivery at now; if it waits, for how long.
func (c *circuit) decidePass(now time.Time) (d decision, wait time.Duration) {
	if c == nil {
		return passes, 0
	}
	c.touched = now
	switch {
	case c.opened == 0:
		return passes, 0
	case now.Before(c.until):
		return waits, c.until.Sub(now)
	case c.probing:
		return waits, c.openDuration()
	}
	return probes, 0
}

// isOpen reports whether the circuit is open or half open.
func (c *circuit) isOpen() bool { return c != nil && c.opened > 0 }

// openDuration is how long the circuit stays open this time.
func (c *circuit) openDuration() time.Duration {
	d := c.opts.Open
	for i := 1; i < c.opened && d < c.opts.MaxOpen; i++ {
		d *= 2
	}
	return min(d, c.opts.MaxOpen)
}

// recordFailure records that a delivery failed; probe means that it decides a half-open circuit.
func (c *circuit) recordFailure(now time.Time, probe bool) {
	if c == nil {
		return
	}
	c.touched = now
	if c.since.IsZero() {
		c.since = now
	}
	if c.opened > 0 {
		if !probe || now.Before(c.until) {
			return // it began before the circuit opened
		}
	} else {
		c.counts.addResult(now, c.opts.Window, false)
		ok, failed := c.counts.sumResults(now, c.opts.Window)
		if ok+failed < uint64(c.opts.Deliveries) || float64(failed) < c.opts.Share*float64(ok+failed) {
			return
		}
	}
	c.probing = false
	c.opened++
	c.until = now.Add(c.openDuration())
}

// recordSuccess records that a delivery succeeded; probe means that it decides a circuit that is not closed.
// It reports whether the circuit is not needed any more.
func (c *circuit) recordSuccess(now time.Time, probe bool) (over bool) {
	if c == nil {
		return false
	}
	c.touched = now
	if c.opened > 0 {
		return probe
	}
	c.since = time.Time{}
	c.counts.addResult(now, c.opts.Window, true)
	return c.isUnneeded(now)
}

// silence is how long a host has to be silent until that counts against it: when a few paths time out at the
// same moment, the next answer may be under way.
const silence = time.Second

// countsSilence reports whether silence is evidence against a host: nothing has succeeded since the first
// failure of the window, and that was some time ago. A first failure is always counted.
func (c *circuit) countsSilence(now time.Time) bool {
	if c == nil {
		return true
	}
	ok, _ := c.counts.sumResults(now, c.opts.Window)
	return ok == 0 && now.Sub(c.counts.begin) >= silence
}

// endProbe records that a probe ended without evidence.
func (c *circuit) endProbe(probe bool) {
	if c != nil && probe {
		c.probing = false
	}
}

// exceedsPatience reports whether the target has failed for so long that fires should no longer wait for it.
func (c *circuit) exceedsPatience(now time.Time) bool {
	return !c.since.IsZero() && now.Sub(c.since) > c.opts.Patience
}

// isUnneeded reports whether the circuit is not needed any more: a closed one without a failure in its
// window, or one for which nothing waits, as waiting deliveries ask again within twice its pause.
func (c *circuit) isUnneeded(now time.Time) bool {
	if c.opened > 0 {
		return !c.probing && now.Sub(c.touched) > 4*c.opts.MaxOpen
	}
	_, failed := c.counts.sumResults(now, c.opts.Window)
	return failed == 0
}

// countParts is the number of parts of a window of counts.
const countParts = 6

// counts are the deliveries of a sliding window, in parts: the oldest part is left behind as a whole, so the
// counted time is between five sixths of the window and all of it.
type counts struct {
	begin      time.Time // of part 0: the first delivery
	part       int64     // the newest part
	ok, failed [countParts]uint32
}

// advanceWindow moves the window on to now.
func (n *counts) advanceWindow(now time.Time, window time.Duration) {
	if n.begin.IsZero() {
		n.begin = now
	}
	part := int64(now.Sub(n.begin) / max(window/countParts, 1))
	for i := max(n.part+1, part-countParts+1); i <= part; i++ {
		n.ok[i%countParts], n.failed[i%countParts] = 0, 0
	}
	n.part = max(n.part, part)
}

func (n *counts) addResult(now time.Time, window time.Duration, ok bool) {
	n.advanceWindow(now, window)
	if ok {
		n.ok[n.part%countParts]++
	} else {
		n.failed[n.part%countParts]++
	}
}

func (n *counts) sumResults(now time.Time, window time.Duration) (ok, failed uint64) {
	n.advanceWindow(now, window)
	for i := range countParts {
		ok += uint64(n.ok[i])
		failed += uint64(n.failed[i])
	}
	return ok, failed
}
