package history

import (
	"slices"
	"time"
)

// cronTimes are the times of one cron expression in one zone. They are looked up for many timers, so the
// result of a walk is kept.
type cronTimes struct {
	cron   *cron
	policy DST

	from, to Time // the stretch that was walked; 0, 0 before
	list     []Time

	// Beyond the stretch nothing is due between after and then.
	after, then Time
	found       bool
}

const (
	// stride is how far the walked stretch grows at a time, if the requested time lies so near.
	stride = Time(6 * time.Hour / time.Microsecond)
	// horizon is longer than any expression that is due at all is silent: from one February 29 to the next,
	// around a century without leap year, on a certain day of the week.
	horizon = Time(41 * 366 * 24 * time.Hour / time.Microsecond)
)

func (c *cronTimes) hasCronTime(t Time) bool {
	if c.from <= t && t <= c.to {
		_, ok := slices.BinarySearch(c.list, t)
		return ok
	}
	return len(c.cron.timesBetween(c.policy, t, t, 1)) == 1
}

// nextCronTime returns the first time after the given one.
func (c *cronTimes) nextCronTime(after Time) (Time, bool) {
	c.growStretch(after)
	if c.from <= after+1 && after < c.to {
		i, _ := slices.BinarySearch(c.list, after+1)
		if i < len(c.list) {
			return c.list[i], true
		}
		after = c.to
	}
	if after < c.after || c.then <= after {
		c.after, c.then, c.found = after, after+horizon, false
		if l := c.cron.timesBetween(c.policy, after+1, c.then, 1); len(l) == 1 {
			c.then, c.found = l[0], true
		}
	}
	return c.then, c.found
}

// growStretch walks on if that brings the stretch to a time.
func (c *cronTimes) growStretch(t Time) {
	switch {
	case c.to == 0:
		c.from, c.to = t, t+stride
		c.list = c.cron.timesBetween(c.policy, c.from, c.to, 1<<31)
	case c.from-stride <= t && t < c.from:
		from := t - stride
		c.list = append(c.cron.timesBetween(c.policy, from, c.from-1, 1<<31), c.list...)
		c.from = from
	case c.to <= t && t <= c.to+stride:
		to := t + stride
		c.list = append(c.list, c.cron.timesBetween(c.policy, c.to+1, to, 1<<31)...)
		c.to = to
	}
}
