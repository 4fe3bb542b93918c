package watch

import (
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/hub"
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
var Latencies = [...]time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
	10 * time.Second}

// Latency counts triggers by the time from the engine's delivery to the answer, in whole milliseconds.
type Latency struct {
	Count   uint64
	Sum     time.Duration
	Buckets [len(Latencies)]uint64 // cumulative: triggers that took at most this long
}

func (l *Latency) noteLatency(took time.Duration) {
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
	s.hub.Lock()
	defer s.hub.Unlock()
	c, n := s.counts, s.hub.Counts()
	c.Streams, c.Held = n.Subs, n.Held
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
	for key, ch := range s.hub.Channels() {
		if len(ch.Subs) == 0 {
			c.Waiting += ch.Held()
		}
		for g, load := range ch.Gates() {
			of := gate(gateName(key, g))
			of.Used += load.Used
			of.Waiting += load.Waiting
		}
	}
	for _, g := range gates {
		c.Gates = append(c.Gates, *g)
	}
	slices.SortFunc(c.Gates, func(a, b GateCounts) int { return strings.Compare(a.Key, b.Key) })
	return c
}

// triggerCounts returns the counts of a channel's triggers.
func (s *Sink) triggerCounts(key job.Channel) *Triggers {
	if key.Actor {
		return &s.counts.Actors
	}
	return &s.counts.Jobs
}

// countThrottled counts a new trigger that waits for a gate.
func (s *Sink) countThrottled(c *channel, key hub.GateKey) {
	name := gateName(c.Key, key)
	if _, known := s.throttled[name]; !known && len(s.throttled) >= mostKeys {
		name = otherKeys
	}
	s.throttled[name]++
}

// gateName is the key of a gate as users know it.
func gateName(of job.Channel, key hub.GateKey) string {
	if key.Named {
		return of.Owner + ":" + key.Name
	}
	return of.Owner
}
