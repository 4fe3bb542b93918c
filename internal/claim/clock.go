package claim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// clock is a clock that many nodes advance: a lease whose data is a time and whose epoch is an optimistic
// lock. So exactly one node makes each advance. It is used by one goroutine at a time.
type clock struct {
	locks   rouse.Locks
	name    string
	owner   string
	every   time.Duration // interval of advances
	lag     time.Duration // distance behind the store's clock
	timeout time.Duration // of one call

	known    bool          // epoch and value are as last read from the store
	epoch    uint64        // of the last advance
	value    rouse.Instant // the time to which it advanced
	seen     time.Time     // when this node first saw that value
	tried    time.Time     // when this node last tried to advance it
	maybe    uint64        // the epoch of this node's advance that got no answer; 0: none
	measured time.Time     // when the store's clock was read
	storeNow rouse.Instant // its value then
}

// remeasure is how long a measured offset to the store's clock is used.
const remeasure = time.Minute

// lowerBound is a lower bound of the store's clock: the latest time to which the clock may be advanced.
func (c *clock) lowerBound(at time.Time) rouse.Instant {
	return rouse.Reached(c.storeNow.Time().Add(at.Sub(c.measured) - c.lag))
}

// nextTry is when to try to advance the clock: once per tick, with jitter, so that the winner varies.
func (c *clock) nextTry(now time.Time) time.Time {
	if c.tried.IsZero() {
		return now
	}
	chance := time.Duration(rand.Int64N(int64(c.every)/10 + 1))
	if !c.known {
		return c.tried.Add(c.every/2 + chance)
	}
	at := now.Add(c.value.Add(c.every).Sub(c.lowerBound(now)))
	if last := c.seen.Add(c.every); last.Before(at) { // the store's clock went back: ticks continue
		at = last
	}
	if first := c.tried.Add(c.every / 2); at.Before(first) {
		at = first
	}
	return at.Add(chance)
}

// advanceIfDue moves the clock to the store's current time if it is due, over any number of ticks. It reports
// whether this node made the advance, and the clock's value. In the steady state it costs one query.
func (c *clock) advanceIfDue(ctx context.Context) (won bool, to rouse.Instant, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.tried = boottime.Now()
	if !c.known || boottime.Since(c.measured) >= remeasure {
		if won, err := c.readClockLease(ctx); won || err != nil {
			return won, c.value, err
		}
		if c.epoch > 0 && c.value.Add(c.every) > c.lowerBound(boottime.Now()) && boottime.Since(c.seen) < c.every {
			return false, c.value, nil
		}
	}
	to = max(c.lowerBound(boottime.Now()), c.value) // it never goes back, whatever the store's clock does
	got, err := c.locks.Lock(ctx, c.owner, forEver, []rouse.Want{{Name: c.name, Data: []byte(to.String()), If: c.epoch}})
	if err != nil {
		c.known, c.maybe = false, c.epoch+1
		return false, 0, err
	}
	won = got[0].Owner == c.owner && got[0].Epoch > c.epoch && (c.epoch == 0 || got[0].Epoch == c.epoch+1)
	c.noteLease(got[0])
	return won, c.value, nil
}

// readClockLease reads the clock and the store's time. It reports whether an advance of this node succeeded
// without an answer.
func (c *clock) readClockLease(ctx context.Context) (won bool, err error) {
	lease, now, err := readOneLease(ctx, c.locks, c.name)
	if err != nil {
		c.known = false
		return false, err
	}
	c.measured, c.storeNow = boottime.Now(), now
	won = c.maybe > 0 && lease.Owner == c.owner && lease.Epoch == c.maybe
	c.known, c.maybe = true, 0
	c.noteLease(lease)
	return won, nil
}

func (c *clock) noteLease(l rouse.Lease) {
	if l.Epoch != c.epoch || c.seen.IsZero() {
		c.seen = boottime.Now()
	}
	c.epoch = l.Epoch
	c.value = 0 // treat invalid data as a time long ago
	if at, err := time.Parse(time.RFC3339Nano, string(l.Data)); err == nil {
		c.value = rouse.At(at)
	}
}
