package watch

import (
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// gate limits how many triggers of an actor type, or of its jobs with one concurrency key, are with streams.
// It exists as long as a stream names it.
type gate struct {
	limit int // of all members together, from the last stream that named it
	used  int
	users int // streams that name it
}

// share is a member's part of each limit. The first members get the remainder, and each has at least 1.
type share struct{ index, of int }

func (h share) limit(all int) int {
	n := all / h.of
	if h.index < all%h.of {
		n++
	}
	return max(n, 1)
}

// gateKey names a gate of a channel.
type gateKey struct {
	named bool
	name  string // a concurrency key, if named
}

// limitsOf returns the limits that a stream names, by actor type. As in the protocol, limits below 1 are
// ignored.
func limitsOf(initial *schedulerv1.WatchJobsRequestInitial) map[string]map[gateKey]int {
	limits := map[string]map[gateKey]int{}
	for _, l := range initial.ConcurrencyLimits {
		if l.GetMaxConcurrent() <= 0 || l.GetActor() == nil {
			continue
		}
		typ := l.GetActor().GetType()
		if limits[typ] == nil {
			limits[typ] = map[gateKey]int{}
		}
		limits[typ][gateKey{l.Name != nil, l.GetName()}] = int(l.MaxConcurrent)
	}
	return limits
}

// limit adds a stream's gates.
func (c *channel) limit(limits map[gateKey]int) {
	for key, n := range limits {
		g := c.gates[key]
		if g == nil {
			g = &gate{}
			if c.gates == nil {
				c.gates = map[gateKey]*gate{}
			}
			c.gates[key] = g
		}
		g.limit = n
		g.users++
	}
	c.sort()
}

// unlimit removes the gates of a stream that ends.
func (c *channel) unlimit(limits map[gateKey]int) {
	for key := range limits {
		if g := c.gates[key]; g != nil {
			if g.users--; g.users == 0 {
				delete(c.gates, key)
			}
		}
	}
	c.sort()
}

// lineOf returns the key of the queue for a trigger. Triggers that wait for their own gate do not delay
// others.
func (c *channel) lineOf(t *trigger) gateKey {
	if m := t.job.Metadata; m.ConcurrencyKey != nil && len(c.gates) > 0 {
		if key := (gateKey{true, *m.ConcurrencyKey}); c.gates[key] != nil {
			return key
		}
	}
	return gateKey{}
}

// open reports whether triggers of a queue may pass their gates now.
func (c *channel) open(line gateKey, h share) bool {
	if len(c.gates) == 0 {
		return true
	}
	for _, key := range [...]gateKey{{}, line} {
		if g := c.gates[key]; g != nil && g.used >= h.limit(g.limit) {
			return false
		}
	}
	return true
}

// enter takes a place in each gate of a trigger.
func (c *channel) enter(t *trigger, line gateKey) {
	if len(c.gates) == 0 {
		return
	}
	if g := c.gates[gateKey{}]; g != nil {
		t.gates = append(t.gates, g)
	}
	if g := c.gates[line]; g != nil && line.named {
		t.gates = append(t.gates, g)
	}
	for _, g := range t.gates {
		g.used++
	}
}

func (t *trigger) leaveGates() {
	for _, g := range t.gates {
		g.used--
	}
	t.gates = nil
}
