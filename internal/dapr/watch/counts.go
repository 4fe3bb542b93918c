package watch

import (
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/dapr/job"
)

// Counts are the sink's counters, for metrics.
type Counts struct {
	Streams int    // open now
	Refused uint64 // watches refused because the maximum was open
	Held    int    // triggers in memory
	Waiting int    // of these, triggers without a stream
	Sent    uint64 // triggers handed to streams, including repeated ones

	Jobs, Actors Triggers

	SendFailed uint64 // streams that ended because a trigger could not be sent
	RecvFailed uint64 // streams that ended because a message could not be read or was not allowed

	Gates []GateCounts // by key
}

// Triggers counts the results of triggers of one kind of jobs.
type Triggers struct {
	Done        uint64 // answers of success
	Failed      uint64 // answers of failure, whether or not another attempt follows
	Undelivered uint64 // triggers for which there was no stream or no room
	Took        Latency
}

// Latencies are inclusive upper bounds of the buckets of a Latency.
var Latencies = [...]time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second}

// Latency counts triggers by the time from the engine's delivery to the answer, in whole milliseconds.
type Latency struct {
	Count   uint64
	Sum     time.Duration
	Buckets [len(Latencies)]uint64 // cumulative: triggers that took at most this long
}

func (l *Latency) note(took time.Duration) {
	took = max(took.Truncate(time.Millisecond), 0)
	l.Count++
	l.Sum += took
	for i := len(Latencies) - 1; i >= 0 && took <= Latencies[i]; i-- {
		l.Buckets[i]++
	}
}

// GateCounts describes the concurrency limits with one key, in all namespaces together.
type GateCounts struct {
	Key       string // TYPE, or TYPE:NAME
	Used      int    // triggers that are with streams
	Waiting   int    // triggers that wait for it
	Throttled uint64 // triggers that had to wait for it when they arrived
}

// mostKeys bounds the number of limit keys with their own counts, because clients choose them. Further ones
// are counted under otherKeys.
const (
	mostKeys  = 1000
	otherKeys = "(others)"
)

// Counts returns the counters since the start.
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

// throttle counts a new trigger if it waits for a gate.
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

// gateName is the key of a gate as users know it.
func (c *channel) gateName(key gateKey) string {
	if key.named {
		return c.key.Owner + ":" + key.name
	}
	return c.key.Owner
}

// waiting returns how many triggers wait for a gate. Each counts once: for the limit of its type if there is
// one, else for the limit of its key.
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
