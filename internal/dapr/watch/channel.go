package watch

import (
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// channel connects the triggers of an app, or of an actor type, with the streams that watch for it. No
// trigger waits in it that a ready stream could take.
type channel struct {
	key     job.Channel
	streams []*stream
	turn    int // next stream to try
	gates   map[gateKey]*gate
	queues  map[gateKey]*queue // waiting triggers; one queue for all triggers without a named gate
	turns   uint64
	front   uint64              // the last turn given at the front, counting down
	byName  map[string]*trigger // all triggers here or with a stream, by their timer's name
	held    int                 // number of these
}

// queue holds triggers in order of their turns.
type queue struct {
	line       gateKey
	head, tail *trigger
	length     int
}

// middle is the first turn; there is as much space before it as after it.
const middle = 1 << 63

// channel returns a channel, creating it if there is none.
func (s *Sink) channel(key job.Channel) *channel {
	c := s.channels[key]
	if c == nil {
		key.Namespace, key.Owner = strings.Clone(key.Namespace), strings.Clone(key.Owner)
		c = &channel{key: key, queues: map[gateKey]*queue{}, byName: map[string]*trigger{}, turns: middle, front: middle}
		s.channels[key] = c
	}
	return c
}

// dropUnused removes a channel that has no streams, triggers or gates.
func (s *Sink) dropUnused(c *channel) {
	if len(c.streams) == 0 && len(c.byName) == 0 && len(c.gates) == 0 {
		delete(s.channels, c.key)
	}
}

// name and unname maintain the list of a job's triggers: mostly one, but more if the job was replaced while
// one was here.
func (c *channel) name(t *trigger) {
	key := t.fire().Name
	t.namesake = c.byName[key]
	c.byName[key] = t
}

func (c *channel) unname(t *trigger) {
	key := t.fire().Name
	if c.byName[key] == t {
		if delete(c.byName, key); t.namesake != nil {
			c.byName[key] = t.namesake
		}
	} else {
		for other := c.byName[key]; other != nil; other = other.namesake {
			if other.namesake == t {
				other.namesake = t.namesake
				break
			}
		}
	}
	t.namesake = nil
}

// push appends a trigger behind all others; unpush puts it in front of them.
func (c *channel) push(t *trigger) {
	c.turns++
	t.turn = c.turns
	c.line(c.lineOf(t)).insert(t)
}

func (c *channel) unpush(t *trigger) {
	c.front--
	t.turn = c.front
	c.line(c.lineOf(t)).insert(t)
}

func (c *channel) line(key gateKey) *queue {
	q := c.queues[key]
	if q == nil {
		q = &queue{line: key}
		c.queues[key] = q
	}
	return q
}

// insert puts a trigger into its place by turn. That is at an end, except when triggers are sorted again.
func (q *queue) insert(t *trigger) {
	t.queue = q
	q.length++
	after := q.tail
	if q.head != nil && t.turn < q.head.turn {
		after = nil
	}
	for after != nil && after.turn > t.turn {
		after = after.prev
	}
	if t.prev = after; after != nil {
		t.next, after.next = after.next, t
	} else {
		t.next, q.head = q.head, t
	}
	if t.next != nil {
		t.next.prev = t
	} else {
		q.tail = t
	}
}

func (q *queue) remove(t *trigger) {
	q.length--
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		q.head = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		q.tail = t.prev
	}
	t.queue, t.prev, t.next = nil, nil, nil
}

// sort moves all waiting triggers to their current queues in order, after gates were added or removed.
func (c *channel) sort() {
	var all []*trigger
	for _, q := range c.queues {
		for t := q.head; t != nil; t = t.next {
			all = append(all, t)
		}
	}
	clear(c.queues)
	slices.SortFunc(all, func(a, b *trigger) int {
		if a.turn < b.turn {
			return -1
		}
		return 1
	})
	for _, t := range all {
		t.prev, t.next = nil, nil
		c.line(c.lineOf(t)).insert(t)
	}
}

// first returns the trigger with the lowest turn among those whose gates are open.
func (c *channel) first(h share) (first *trigger) {
	for key, q := range c.queues {
		if q.head == nil {
			if key.named {
				delete(c.queues, key)
			}
			continue
		}
		if (first == nil || q.head.turn < first.turn) && c.open(q.line, h) {
			first = q.head
		}
	}
	return first
}

// pick returns the next ready stream in turn.
func (c *channel) pick(o *Options) *stream {
	for k := range c.streams {
		n := (c.turn + k) % len(c.streams)
		if st := c.streams[n]; st.ready(o) {
			c.turn = (n + 1) % len(c.streams)
			return st
		}
	}
	return nil
}

// pump assigns waiting triggers to ready streams.
func (s *Sink) pump(c *channel, out []report) []report {
	for len(c.streams) > 0 {
		t := c.first(s.share)
		if t == nil {
			return out
		}
		st := c.pick(&s.opts)
		if st == nil {
			return out
		}
		line := t.queue.line
		t.queue.remove(t)
		c.enter(t, line)
		st.assign(t)
		s.counts.Sent++
	}
	return out
}

// release reports all waiting triggers with an outcome.
func (s *Sink) release(c *channel, o rouse.Outcome, out []report) []report {
	for _, q := range c.queues {
		for q.head != nil {
			out = append(out, s.put(q.head, o))
		}
	}
	return out
}
