package audit

import (
	"maps"
	"sync"
)

// Why events are dropped.
const (
	dropFull   = "full"            // the queue was; the call was refused, unless events may be dropped
	dropFailed = "write_failed"    // events may be dropped, or the node ended
	dropFlood  = "unauthenticated" // beyond MaxStrangers
)

// Counts are totals since the log was opened.
type Counts struct {
	OK, Refused uint64            // events
	Dropped     map[string]uint64 // events, by reason
	Failures    map[string]uint64 // failed writes, by destination
	Failing     map[string]string // why the last write to a destination failed; those that take events are not in it
	Queued      int64             // audited calls in progress, and events that are not written yet
}

type counts struct {
	mu sync.Mutex
	Counts
}

func (c *counts) countEvent(ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.OK++
	} else {
		c.Refused++
	}
}

func (c *counts) addFailure(destination string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Failures == nil {
		c.Failures = map[string]uint64{}
	}
	c.Failures[destination]++
	if c.Failing == nil {
		c.Failing = map[string]string{}
	}
	c.Failing[destination] = err.Error()
}

func (c *counts) clearFailure(destination string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.Failing, destination)
}

func (l *Log) countDropped(n int, reason string) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	if l.counts.Dropped == nil {
		l.counts.Dropped = map[string]uint64{}
	}
	l.counts.Dropped[reason] += uint64(n)
}

// Counts returns the totals. All reasons and destinations are in it.
func (l *Log) Counts() Counts {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	c := l.counts.Counts
	l.mu.Lock()
	c.Queued = int64(l.used)
	l.mu.Unlock()
	c.Dropped = map[string]uint64{dropFull: 0, dropFailed: 0, dropFlood: 0}
	c.Failures = map[string]uint64{}
	for _, to := range l.opts.To {
		c.Failures[to.Name()] = 0
	}
	c.Failing = maps.Clone(l.counts.Failing)
	maps.Copy(c.Dropped, l.counts.Counts.Dropped)
	maps.Copy(c.Failures, l.counts.Counts.Failures)
	return c
}
