package schedulecache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// calendars is a bounded cache of the days of calendars. Other nodes may change one: entries older than
// calendarAge are read again.
type calendars struct {
	mu      sync.Mutex
	known   map[rouse.Key]knownCalendar
	changes uint64 // that Invalidate was told of
}

type knownCalendar struct {
	dates []rouse.Date
	there bool
	read  time.Time
}

// SharedAge is the calendarAge where other nodes may change a calendar.
const SharedAge = time.Second

const (
	calendarAge  = 10 * time.Second
	maxCalendars = 1024
)

// cachedDays returns the days of a calendar. If the store does not answer, the last known days count; err
// is why nothing is known.
func (c *Cache) cachedDays(key rouse.Key) (dates []rouse.Date, there bool, err error) {
	c.calendars.mu.Lock()
	k, ok := c.calendars.known[key]
	began := c.calendars.changes
	c.calendars.mu.Unlock()
	if ok && time.Since(k.read) < c.maxAge() {
		return k.dates, k.there, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rows, err := c.store.Get(ctx, []rouse.Key{key})
	if err != nil && ok {
		return k.dates, k.there, nil
	}
	if err != nil {
		return nil, false, err
	}
	k = knownCalendar{read: time.Now()}
	if rows[0].Revision != 0 {
		cal, err := rouse.DecodeCalendar(&rows[0])
		if err != nil { // a later version may have written it
			return nil, false, fmt.Errorf("calendar %s: %w: %v", key.Name, rouse.ErrUnavailable, err)
		}
		k.there = true
		for _, d := range cal.Days {
			k.dates = append(k.dates, d.Date)
		}
	}
	c.calendars.mu.Lock()
	if c.calendars.known == nil || len(c.calendars.known) >= maxCalendars {
		c.calendars.known = map[rouse.Key]knownCalendar{}
	}
	if c.calendars.changes == began { // else it may have been read before the change
		c.calendars.known[key] = k
	}
	c.calendars.mu.Unlock()
	return k.dates, k.there, nil
}

// Invalidate makes the next use of a calendar read it again.
func (c *Cache) Invalidate(key rouse.Key) {
	c.calendars.mu.Lock()
	delete(c.calendars.known, key)
	c.calendars.changes++
	c.calendars.mu.Unlock()
	c.own.dropParsed()
}
