package stream

import (
	"time"

	"github.com/rousehq/rouse"
)

type channelKey struct{ namespace, name string }

// channel is where the fires of one target meet their subscribers. Nothing waits in it that a ready subscriber could take: a
// fire is matched when it comes, a subscriber when it becomes ready.
type channel struct {
	key     channelKey
	subs    []*subscriber
	turn    int // whose turn it is, of subs
	waiting queue
	mixed   bool // some that wait have deadlines of their own
}

// item is a fire that is outstanding.
type item struct {
	d *delivery
	i int32
}

func (it item) fire() *rouse.Fire { return &it.d.fires[it.i] }

// until returns when the fire has waited long enough. The timer's deadline ends the wait as well, so that whoever delivers can say
// that it has passed; a fire that came after it all the same has none.
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

// pastDeadline is how long after a deadline it is sure that it has passed.
const pastDeadline = 2 * time.Millisecond

// dispatch gives each fire to a ready subscriber, or lets it wait. It returns when the first of them has waited long enough.
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

// assign gives each fire to a ready subscriber, or lets it wait.
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
		default: // nobody is ready, nor will be while the mutex is held
			c.waiting.push(items[n:]...)
			return
		}
	}
}

// pick returns the next subscriber in turn that is ready and wants the fire. If there is none, it says whether any was ready.
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

// feed gives a subscriber that became ready what waits for it.
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

// join and part keep the list of subscribers.
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

// overdue removes the fires that have waited long enough. Unless they are mixed they stand in the order in which their waits end, but
// for those that a subscriber gave back; these are found when they come to the front.
func (c *channel) overdue(out []report, now moment, lonely lonely, most time.Duration) []report {
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
			late = min(late, lonely.since(c.key, now.store))
		}
		out = append(out, report{it, deferral(cause, late, most)})
	}
	return out
}

// untaken returns why a fire that waits was not taken: no subscriber wants it, or those that do have as many as they can.
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

// channel returns a channel, which it makes if there is none.
func (s *Sink) channel(key channelKey) *channel {
	c := s.channels[key]
	if c == nil {
		c = &channel{key: key.clone()}
		s.channels[c.key] = c
	}
	return c
}

// forget drops a channel that nobody uses.
func (s *Sink) forget(c *channel) {
	if len(c.subs) == 0 && c.waiting.live == 0 {
		delete(s.channels, c.key)
	}
}
