package sink

import "time"

// circuit is what a breaker knows of one lane: a pure state machine with three states.
//
//	closed     deliveries pass; failures in a row, within a time, open it
//	open       nothing passes until a time
//	half open  one delivery passes, the probe; its outcome closes the circuit, or opens it for twice as long
//
// Attempts in progress when the circuit opened no longer matter, unless they succeed.
type circuit struct {
	failures int       // consecutive, while closed
	first    time.Time // of these failures
	since    time.Time // of the first failure after the last success; zero without a failure
	touched  time.Time // last used; the oldest circuit is dropped first

	opened  int       // consecutive openings; 0 while closed
	until   time.Time // end of the open state
	probing bool      // half open, and the probe is in progress
}

// allow reports whether a delivery may pass at now, and whether it is the probe; if not, how long it should
// wait.
func (c *circuit) allow(now time.Time, o *BreakerOptions) (pass, probe bool, wait time.Duration) {
	c.touched = now
	switch {
	case c.opened == 0:
		return true, false, 0
	case now.Before(c.until):
		return false, false, c.until.Sub(now)
	case c.probing:
		return false, false, c.period(o)
	}
	c.probing = true
	return true, true, 0
}

// period is how long the circuit stays open this time.
func (c *circuit) period(o *BreakerOptions) time.Duration {
	d := o.Open
	for i := 1; i < c.opened && d < o.MaxOpen; i++ {
		d *= 2
	}
	return min(d, o.MaxOpen)
}

// failed records that a delivery did not get through.
func (c *circuit) failed(now time.Time, probe bool, o *BreakerOptions) {
	c.touched = now
	if c.since.IsZero() {
		c.since = now
	}
	switch {
	case probe && c.probing:
		c.probing = false
	case c.opened > 0:
		return // it began before the circuit opened
	default:
		if c.failures == 0 || now.Sub(c.first) > o.Within {
			c.failures, c.first = 0, now
		}
		if c.failures++; c.failures < o.Failures {
			return
		}
	}
	c.opened++
	c.until = now.Add(c.period(o))
}

// released records that a probe ended without evidence about the host.
func (c *circuit) released(probe bool) {
	if probe {
		c.probing = false
	}
}

// lost reports whether the host has failed for so long that fires should no longer wait for it.
func (c *circuit) lost(now time.Time, o *BreakerOptions) bool {
	return !c.since.IsZero() && now.Sub(c.since) > o.Patience
}
