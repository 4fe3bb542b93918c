package engine

import (
	"errors"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
)

// compiled keeps schedules that do not depend on an anchor: parsing a cron expression costs more than asking it.
type compiled struct {
	compile func(schedule, timezone string, anchor rouse.Instant) (rouse.Schedule, error)
	cache   schedules
}

var errNoSchedule = errors.New("a one-shot timer has no schedule to go on with")

func (c *compiled) of(t *rouse.Timer) (rouse.Schedule, error) {
	if !t.Spec.Recurring() {
		return nil, errNoSchedule
	}
	return c.parse(t.Spec.Schedule, t.Spec.Timezone, t.Anchor)
}

func (c *compiled) parse(text, zone string, anchor rouse.Instant) (rouse.Schedule, error) {
	if text == "" || text[0] == '@' || text[0] == 'R' || text[0] == 'P' || !(&rouse.Spec{Schedule: text}).Recurring() {
		return c.compile(text, zone, anchor) // depends on the anchor, or is used once
	}
	return c.cache.get(text, zone, func() (rouse.Schedule, error) { return c.compile(text, zone, anchor) })
}

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
