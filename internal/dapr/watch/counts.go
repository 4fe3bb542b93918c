package watch

import (
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/dapr/job"
)

// Counts is what has happened, for metrics.
type Counts struct {
	Streams int    // open now
	Refused uint64 // watches that were refused because as many were open as may be
	Held    int    // triggers in memory, now
	Waiting int    // those of them that no stream is there for
	Sent    uint64 // triggers handed to streams, those that came again included

	Jobs, Actors Triggers

	SendFailed uint64 // streams that ended because a trigger could not be sent
	RecvFailed uint64 // streams that ended because what came could not be read, or was nothing that may come

	Gates []GateCounts // by key
}

// Triggers is what became of the triggers of one kind of jobs.
type Triggers struct {
	Done        uint64 // answers of success
	Failed      uint64 // answers that said so, whether another attempt follows or not
	Undelivered uint64 // triggers that found no stream, or no room
	Took        Latency
}

// Latencies are upper bounds of the buckets of a Latency, inclusive.
var Latencies = [...]time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second}

// Latency counts how long triggers took that were answered, from when they came from the engine, in whole milliseconds.
type Latency struct {
	Count   uint64
	Sum     time.Duration
	Buckets [len(Latencies)]uint64 // those that took at most so long, each with those of the buckets before it
}

func (l *Latency) note(took time.Duration) {
	took = max(took.Truncate(time.Millisecond), 0)
	l.Count++
	l.Sum += took
	for i := len(Latencies) - 1; i >= 0 && took <= Latencies[i]; i-- {
		l.Buckets[i]++
	}
}

// GateCounts is what a concurrency limit does, of all namespaces that have one of that key together.
type GateCounts struct {
	Key       string // TYPE, or TYPE:NAME
	Used      int    // triggers that are with streams, now
	Waiting   int    // triggers that wait for it, now
	Throttled uint64 // triggers that had to wait for it when they came
}

// mostKeys bounds the keys of limits by which is counted, as clients name them; what is beyond is counted under otherKeys.
const (
	mostKeys  = 1000
	otherKeys = "(others)"
)

// Counts returns what has happened so far.
func (s *Sink) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Streams, c.Held = len(s.streams), s.held
	gates := map[string]*GateCounts{}
	gate := func(key string) *GateCounts {
		if gates[key] == nil && len(gates) >= mostKeys {
			key = otherKeys
		}
		if gates[key] == nil {
			gates[key] = &GateCounts{Key: key}
		}
		return gates[key]
	}
	for key, n := range s.throttled {
		gate(key).Throttled += n
	}
	for _, ch := range s.channels {
		if len(ch.streams) == 0 {
			c.Waiting += ch.held
		}
		for key, g := range ch.gates {
			of := gate(ch.gateName(key))
			of.Used += g.used
			of.Waiting += ch.waiting(key)
		}
	}
	for _, g := range gates {
		c.Gates = append(c.Gates, *g)
	}
	slices.SortFunc(c.Gates, func(a, b GateCounts) int { return strings.Compare(a.Key, b.Key) })
	return c
}

// kind returns the counts of a channel's triggers.
func (s *Sink) kind(key job.Channel) *Triggers {
	if key.Actor {
		return &s.counts.Actors
	}
	return &s.counts.Jobs
}

// throttle counts a trigger that has just come and waits, if it waits for a gate.
func (s *Sink) throttle(c *channel, t *trigger) {
	if len(c.gates) == 0 || t.queue == nil {
		return
	}
	for _, key := range [...]gateKey{{}, t.queue.line} {
		g := c.gates[key]
		if g == nil || g.used < s.share.limit(g.limit) {
			continue
		}
		name := c.gateName(key)
		if _, known := s.throttled[name]; !known && len(s.throttled) >= mostKeys {
			name = otherKeys
		}
		s.throttled[name]++
		return
	}
}

// gateName is the key by which people know a gate.
func (c *channel) gateName(key gateKey) string {
	if key.named {
		return c.key.Owner + ":" + key.name
	}
	return c.key.Owner
}

// waiting is how many triggers wait for a gate. Each counts once: under the limit of its type if there is one, or else under that of its key.
func (c *channel) waiting(key gateKey) (n int) {
	if key.named && c.gates[gateKey{}] != nil {
		return 0
	}
	for line, q := range c.queues {
		if line == key || !key.named {
			n += q.length
		}
	}
	return n
}
