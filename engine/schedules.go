package engine

import (
	"strings"
	"sync"

	"github.com/rousehq/rouse"
)

// schedules is a bounded cache of parsed schedules.
type schedules struct {
	mu     sync.RWMutex
	parsed map[scheduleKey]rouse.Schedule
}

type scheduleKey struct{ text, zone string }

const maxSchedules = 4096

func (c *schedules) get(text, zone string, parse func() (rouse.Schedule, error)) (rouse.Schedule, error) {
	key := scheduleKey{text, zone}
	c.mu.RLock()
	s := c.parsed[key]
	c.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := parse()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.parsed == nil || len(c.parsed) >= maxSchedules {
		c.parsed = make(map[scheduleKey]rouse.Schedule) // starting anew is cheap, and needs no list of what was used when
	}
	c.parsed[scheduleKey{strings.Clone(text), strings.Clone(zone)}] = s
	c.mu.Unlock()
	return s, nil
}
