package stream

import (
	"time"

	"github.com/rousehq/rouse"
)

type channelKey struct{ namespace, name string }

// channel matches the fires of one target with its subscribers. A fire is matched when it arrives, a
// subscriber when it becomes ready, so nothing waits that a ready subscriber could take.
type channel struct {
	key     channelKey
	subs    []*subscriber
	turn    int // index of the next subscriber in turn
	waiting queue
	mixed   bool // some waiting fires have their own deadlines
}

// item is an unreported fire.
type item struct {
	d *delivery
	i int32
}

func (it item) fire() *rouse.Fire { return &it.d.fires[it.i] }

// until returns when the fire has waited long enough. The timer's deadline ends the wait as well, so that
// the engine can report it as expired; a fire that arrived after its deadline has none.
func (it item) until() (at time.Duration, expires bool) {
	f := it.fire()
	if f.Spec.Deadline == 0 || f.Manual {
		return it.d.until, false
	}
	left := f.At.Add(f.Spec.Deadline + pastDeadline).Sub(it.d.came.store)
	if at := it.d.came.at + left; left > 0 && at < it.d.until {
		return at, true
	}
	return it.d.until, false
}

// pastDeadline is added to a deadline to be sure that it has passed.
const pastDeadline = 2 * time.Millisecond

// dispatch gives each fire to a ready subscriber, or queues it. It returns when the first queued fire has
// waited long enough.
func (c *channel) dispatch(items []item, now moment) (until time.Duration) {
	before := c.waiting.live
	c.assign(items, now)
	if c.waiting.live == before {
		return never
	}
	if before == 0 {
		c.mixed = false
	}
	until = never
	for _, it := range items {
		at, expires := it.until()
		until, c.mixed = min(until, at), c.mixed || expires
	}
	return until
}

// assign gives each fire to a ready subscriber, or queues it.
func (c *channel) assign(items []item, now moment) {
	for n, it := range items {
		f := it.fire()
		size := fireSize(f)
		sub, ready := c.pick(f, size)
		switch {
		case sub != nil:
			sub.assign(it, f, size, now)
		case ready:
			c.waiting.push(it)
		default: // no subscriber is ready, nor will be while the mutex is held
			c.waiting.push(items[n:]...)
			return
		}
	}
}

// pick returns the next subscriber in turn that is ready and wants the fire. If there is none, it reports
// whether any was ready.
func (c *channel) pick(f *rouse.Fire, size int) (sub *subscriber, ready bool) {
	for k := range c.subs {
		n := c.turn + k
		if n >= len(c.subs) {
			n -= len(c.subs)
		}
		sub := c.subs[n]
		if !sub.ready(size) {
			continue
		}
		ready = true
		if sub.wants(f) {
			c.turn = (n + 1) % len(c.subs)
			return sub, true
		}
	}
	return nil, ready
}

// feed gives waiting fires to a subscriber that became ready.
func (c *channel) feed(sub *subscriber, now moment) {
	if c.waiting.live == 0 {
		return
	}
	from := uint64(0)
	if sub.filtered() {
		from = sub.seen
	}
	at, last := c.waiting.from(from)
	for ; at < last; at++ {
		it := c.waiting.at(at)
		if it.d == nil {
			continue
		}
		f := it.fire()
		if !sub.wants(f) {
			continue
		}
		size := fireSize(f)
		if !sub.ready(size) {
			break
		}
		sub.assign(it, f, size, now)
		c.waiting.remove(at)
	}
	sub.seen = at
}

// join and part maintain the list of subscribers.
func (c *channel) join(sub *subscriber) { c.subs = append(c.subs, sub) }

func (c *channel) part(sub *subscriber) {
	for n, other := range c.subs {
		if other == sub {
			c.subs = append(c.subs[:n], c.subs[n+1:]...)
			if c.turn > n {
				c.turn--
			}
			if c.turn >= len(c.subs) {
				c.turn = 0
			}
			return
		}
	}
}

// overdue removes the fires that have waited long enough. Unless deadlines are mixed, fires are queued in
// the order in which their waits end, except those that a subscriber returned; these are found when they
// come to the front.
func (c *channel) overdue(out []report, now moment, unserved unserved, most time.Duration) []report {
	at, last := c.waiting.from(0)
	for ; at < last; at++ {
		it := c.waiting.at(at)
		if it.d == nil {
			continue
		}
		until, expires := it.until()
		if until > now.at {
			if c.mixed {
				continue
			}
			break
		}
		c.waiting.remove(at)
		cause := c.untaken(it)
		if expires {
			out = append(out, report{it, rouse.Outcome{Verdict: rouse.Deferred, Cause: cause, After: time.Millisecond, Detail: "no subscriber has taken it"}})
			continue
		}
		late := now.store.Sub(it.fire().Due)
		if len(c.subs) == 0 {
			late = min(late, unserved.since(c.key, now.store))
		}
		out = append(out, report{it, deferral(cause, late, most)})
	}
	return out
}

// untaken returns why a waiting fire was not taken: no subscriber wants it, or those that do have no
// credits left.
func (c *channel) untaken(it item) rouse.Cause {
	f := it.fire()
	for _, sub := range c.subs {
		if sub.wants(f) {
			return rouse.CauseBacklog
		}
	}
	return rouse.CauseNoSubscriber
}

// nextOverdue returns when the next fire has waited long enough.
func (c *channel) nextOverdue() time.Duration {
	next := never
	at, last := c.waiting.from(0)
	for ; at < last; at++ {
		if it := c.waiting.at(at); it.d != nil {
			until, _ := it.until()
			if next = min(next, until); !c.mixed {
				break
			}
		}
	}
	return next
}

// channel returns a channel, which it creates if necessary.
func (s *Sink) channel(key channelKey) *channel {
	c := s.channels[key]
	if c == nil {
		c = &channel{key: key.clone()}
		s.channels[c.key] = c
	}
	return c
}

// dropUnused deletes a channel without subscribers and fires.
func (s *Sink) dropUnused(c *channel) {
	if len(c.subs) == 0 && c.waiting.live == 0 {
		delete(s.channels, c.key)
	}
}
