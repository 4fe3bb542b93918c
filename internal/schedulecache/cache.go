// Package schedulecache keeps compiled schedules, and the days of the calendars that they use: parsing a cron
// expression costs more than asking it for a time. All caches are bounded.
package schedulecache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Compile turns the schedule of a spec into due times. It is pure.
type Compile func(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error)

// Cache is safe for concurrent use.
type Cache struct {
	compile Compile
	cache   schedules // plain ones
	own     timers    // the others

	store     rouse.Timers
	shared    bool
	calendars calendars
}

// New returns an empty cache that reads calendars from a store. With shared, other nodes write to the store
// too.
func New(compile Compile, store rouse.Timers, shared bool) *Cache {
	return &Cache{compile: compile, store: store, shared: shared}
}

// maxAge is the maximum age of a cached calendar.
func (c *Cache) maxAge() time.Duration {
	if c.shared {
		return SharedAge
	}
	return calendarAge
}

// ErrNone is returned for a timer that does not recur.
var ErrNone = errors.New("a one-shot timer has no schedule to go on with")

// Of returns the schedule of a timer that recurs. One that is more than a plain expression is compiled once
// for its generation.
func (c *Cache) Of(t *rouse.Timer) (rouse.Schedule, error) {
	if !t.Spec.Recurring() {
		return nil, ErrNone
	}
	in := rouse.ScheduleInput{Key: rouse.Key{Namespace: t.Key.Namespace, Name: t.Key.Name}, Anchor: t.Anchor}
	if t.Spec.Plain() && (isCommon(t.Spec.Schedule) || isCheap(t.Spec.Schedule)) {
		return c.Parse(&t.Spec, in)
	}
	return c.own.getOrParse(timerVersion{in.Key, t.Generation}, t.Spec.Calendar, c.maxAge(),
		func() (rouse.Schedule, error) { return c.Parse(&t.Spec, in) })
}

// Settling is Metered for the step of an occurrence that has ended, which must not fail for ever: a schedule
// that cannot be compiled is a rouse.BrokenSchedule.
func (c *Cache) Settling(t *rouse.Timer) (rouse.Schedule, error) {
	s, err := c.Metered(t)
	if _, broken := errors.AsType[*rouse.Invalid](err); broken {
		return &Meter{Schedule: rouse.BrokenSchedule{Err: err}}, nil
	}
	return s, err
}

// Metered returns the schedule of a timer that recurs, for one goroutine; nil for one that does not. One that
// cannot be compiled is a *rouse.Invalid; any other error is rouse.ErrUnavailable.
func (c *Cache) Metered(t *rouse.Timer) (rouse.Schedule, error) {
	s, err := c.Of(t)
	_, invalid := errors.AsType[*rouse.Invalid](err)
	switch {
	case err == nil:
		return &Meter{Schedule: s}, nil
	case errors.Is(err, ErrNone) || t.Key.Fire != "": // no other occurrence follows
		return nil, nil
	case invalid || errors.Is(err, rouse.ErrUnavailable):
		return nil, err
	}
	return nil, fmt.Errorf("the schedule of %s/%s cannot be read now: %w: %v", t.Key.Namespace, t.Key.Name,
		rouse.ErrUnavailable, err)
}

// Known returns the schedule of a timer if it is at hand, or cheap to read; nil if the timer does not recur.
func (c *Cache) Known(t *rouse.Timer) (s rouse.Schedule, ok bool) {
	switch {
	case t.Key.Fire != "" || !t.Spec.Recurring():
		return nil, true
	case t.Spec.Plain() && isCheap(t.Spec.Schedule):
		s, err := c.Of(t)
		return s, err == nil
	case t.Spec.Plain() && isCommon(t.Spec.Schedule):
		s = c.cache.cachedSchedule(t.Spec.Schedule, t.Spec.Timezone)
		return s, s != nil
	}
	c.own.mu.Lock()
	defer c.own.mu.Unlock()
	own, ok := c.own.parsed[timerVersion{rouse.Key{Namespace: t.Key.Namespace, Name: t.Key.Name}, t.Generation}]
	return own.Schedule, ok && own.isFresh()
}

// Clear drops all schedules, because their sources have changed.
func (c *Cache) Clear() {
	c.cache.dropParsed()
	c.own.dropParsed()
}

// timers is a bounded cache of schedules that belong to one timer each. One that uses a calendar is compiled
// again after age, as the calendar may have changed.
type timers struct {
	mu     sync.Mutex
	parsed map[timerVersion]ownSchedule
	clears uint64
}

type timerVersion struct {
	key        rouse.Key
	generation uint64
}

type ownSchedule struct {
	rouse.Schedule
	until time.Time // zero: for ever
}

func (s *ownSchedule) isFresh() bool { return s.until.IsZero() || time.Now().Before(s.until) }

func (c *timers) getOrParse(v timerVersion, rule rouse.CalendarRule, age time.Duration,
	parse func() (rouse.Schedule, error)) (rouse.Schedule, error) {
	c.mu.Lock()
	s, ok := c.parsed[v]
	began := c.clears
	c.mu.Unlock()
	if ok && s.isFresh() {
		return s.Schedule, nil
	}
	parsed, err := parse()
	if err != nil && ok {
		return s.Schedule, nil // its calendars cannot be read now: the last known days count
	}
	if err != nil || v.generation == 0 {
		return parsed, err
	}
	s = ownSchedule{Schedule: parsed}
	if len(rule.Off)+len(rule.Only) > 0 {
		s.until = time.Now().Add(age)
	}
	v.key = rouse.Key{Namespace: strings.Clone(v.key.Namespace), Name: strings.Clone(v.key.Name)}
	c.mu.Lock()
	if c.parsed == nil || len(c.parsed) >= maxSchedules {
		c.parsed = make(map[timerVersion]ownSchedule)
	}
	if c.clears == began { // else it may have the days of before
		c.parsed[v] = s
	}
	c.mu.Unlock()
	return parsed, nil
}

func (c *timers) dropParsed() {
	c.mu.Lock()
	clear(c.parsed)
	c.clears++
	c.mu.Unlock()
}

// Parse compiles a spec's schedule; a plain cron expression is compiled once for all timers that have it.
func (c *Cache) Parse(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
	if spec.Plain() {
		return c.parsePlain(spec, in)
	}
	return c.parseComposed(spec, in)
}

// parseComposed is Parse for a spec that may have calendars.
func (c *Cache) parseComposed(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
	var away error // of a calendar that cannot be read: it must not pass for one that does not exist
	if in.Calendar == nil {
		in.Calendar = func(name string) ([]rouse.Date, bool) {
			dates, there, err := c.cachedDays(rouse.CalendarKey(in.Key.Namespace, name))
			if err != nil {
				away = err
			}
			return dates, there
		}
	}
	s, err := c.compile(spec, in)
	if err != nil && away != nil {
		return nil, away
	}
	return s, err
}

// parsePlain is Parse for a spec that has no calendars.
func (c *Cache) parsePlain(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
	if !isCommon(spec.Schedule) {
		return c.compile(spec, in)
	}
	return c.cache.getOrParse(spec.Schedule, spec.Timezone, func() (rouse.Schedule, error) { return c.compile(spec, in) })
}

// isCheap reports whether reading a schedule costs about as much as asking it: intervals and the words for
// cron expressions.
func isCheap(text string) bool {
	return text != "" && (text[0] == '@' || text[0] == 'P' || text[0] == 'R')
}

// isCommon reports whether a schedule has the same times for every timer: a cron expression of digits, names
// and signs, without an anchor and without H.
func isCommon(text string) bool {
	return text != "" && text[0] != '@' && text[0] != 'R' && text[0] != 'P' && !strings.ContainsAny(text, "Hh:") &&
		(&rouse.Spec{Schedule: text}).Recurring()
}

// schedules is a bounded cache of parsed schedules.
type schedules struct {
	mu     sync.RWMutex
	parsed map[scheduleKey]rouse.Schedule
	clears uint64
}

type scheduleKey struct{ text, zone string }

const maxSchedules = 4096

// cachedSchedule returns a schedule that is in the cache, or nil.
func (c *schedules) cachedSchedule(text, zone string) rouse.Schedule {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.parsed[scheduleKey{text, zone}]
}

func (c *schedules) getOrParse(text, zone string, parse func() (rouse.Schedule, error)) (rouse.Schedule, error) {
	c.mu.RLock()
	s, began := c.parsed[scheduleKey{text, zone}], c.clears
	c.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := parse()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clears != began { // it may be by rules of before
		return s, nil
	}
	if c.parsed == nil || len(c.parsed) >= maxSchedules {
		c.parsed = make(map[scheduleKey]rouse.Schedule) // starting again is cheap, and needs no list of uses
	}
	c.parsed[scheduleKey{strings.Clone(text), strings.Clone(zone)}] = s
	return s, nil
}

func (c *schedules) dropParsed() {
	c.mu.Lock()
	clear(c.parsed)
	c.clears++
	c.mu.Unlock()
}
