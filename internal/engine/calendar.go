package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// calendars is a bounded cache of the days of calendars. Other nodes may change one: what is older than calendarAge is read again.
type calendars struct {
	mu    sync.Mutex
	known map[rouse.Key]knownCalendar
}

type knownCalendar struct {
	dates []rouse.Date
	there bool
	read  time.Time
}

const (
	calendarAge  = 10 * time.Second
	sharedAge    = time.Second // where other nodes may change one
	maxCalendars = 1024
)

// days returns the days of a calendar. If the store does not answer, what was known before counts; err is why nothing is known.
func (c *compiled) days(key rouse.Key) (dates []rouse.Date, there bool, err error) {
	c.calendars.mu.Lock()
	k, ok := c.calendars.known[key]
	c.calendars.mu.Unlock()
	if ok && time.Since(k.read) < c.calendarAge() {
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
		if cal, err := rouse.DecodeCalendar(&rows[0]); err == nil {
			k.there = true
			for _, d := range cal.Days {
				k.dates = append(k.dates, d.Date)
			}
		}
	}
	c.calendars.mu.Lock()
	if c.calendars.known == nil || len(c.calendars.known) >= maxCalendars {
		c.calendars.known = map[rouse.Key]knownCalendar{}
	}
	c.calendars.known[key] = k
	c.calendars.mu.Unlock()
	return k.dates, k.there, nil
}

// forget makes the next look at a calendar read it.
func (c *compiled) forget(key rouse.Key) {
	c.calendars.mu.Lock()
	delete(c.calendars.known, key)
	c.calendars.mu.Unlock()
	c.own.forget()
}

// PutCalendar creates or replaces a calendar, and moves the timers that go by it, and have no occurrence due or in progress, to
// their new due times. It returns how many moved. A timer that would have none left keeps its due time.
func (e *Engine) PutCalendar(ctx context.Context, c rouse.Calendar) (saved rouse.Calendar, moved uint64, err error) {
	if err := e.awake(ctx); err != nil {
		return c, 0, err
	}
	if c, err = c.Ordered(); err != nil {
		return c, 0, err
	}
	c.Updated = e.clock.latest()
	key := rouse.CalendarKey(c.Namespace, c.Name)
	row := c.Row(e.bucket(key))
	out, err := e.writer.Do(ctx, []*write{{change: rouse.Change{Key: key, If: rouse.AnyRevision, To: &row}}})
	if err != nil {
		return c, 0, err
	}
	if out[0].err != nil {
		return c, 0, out[0].err
	}
	e.compiled.forget(key)
	c.Revision = out[0].Revision
	// Until other nodes have read the new days, they may move timers on by the old ones: those are moved again below. A node keeps
	// a schedule for as long as the days that it was made of, so twice the age is enough.
	if e.others != nil && !sleep(ctx, 2*sharedAge) {
		return c, 0, ctx.Err()
	}
	err = e.eachGoingBy(ctx, c.Namespace, c.Name, func(t *rouse.Timer) error {
		_, err := e.editTimer(ctx, t.Key, func(t *rouse.Timer) (rouse.Step, error) {
			s, err := e.compiled.of(t)
			if err != nil || t.Attempts != 0 || t.Due <= e.clock.latest() || t.Due == rouse.Never {
				return rouse.Step{Keep: true}, nil
			}
			if !t.Replan(e.clock.latest(), s) {
				return rouse.Step{Keep: true}, nil
			}
			moved++
			return rouse.Step{To: t}, nil
		})
		return err
	})
	return c, moved, err
}

// eachGoingBy calls do for every timer of a namespace that goes by a calendar.
func (e *Engine) eachGoingBy(ctx context.Context, namespace, calendar string, do func(*rouse.Timer) error) error {
	return e.each(ctx, rouse.Query{Namespace: namespace}, func(t *rouse.Timer) error {
		if slices.Contains(t.Spec.Calendar.Off, calendar) || slices.Contains(t.Spec.Calendar.Only, calendar) {
			return do(t)
		}
		return nil
	})
}

// each calls do for every row that matches, page by page. Rows that cannot be read are skipped.
func (e *Engine) each(ctx context.Context, q rouse.Query, do func(*rouse.Timer) error) error {
	q.Limit = 500
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			t, err := e.readTimer(&page.Rows[i])
			if err != nil {
				continue
			}
			if err := do(&t); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

// calendarKey refuses what can be no calendar.
func calendarKey(namespace, name string) error {
	return cmp.Or(rouse.CheckNamespace(namespace), rouse.CheckCalendarName("name", name))
}

// Calendar returns a calendar with its days.
func (e *Engine) Calendar(ctx context.Context, namespace, name string) (rouse.Calendar, error) {
	if err := calendarKey(namespace, name); err != nil {
		return rouse.Calendar{}, err
	}
	rows, err := e.store.Get(ctx, []rouse.Key{rouse.CalendarKey(namespace, name)})
	if err != nil {
		return rouse.Calendar{}, err
	}
	if rows[0].Revision == 0 {
		return rouse.Calendar{}, fmt.Errorf("calendar %q: %w", name, rouse.ErrNotFound)
	}
	return rouse.DecodeCalendar(&rows[0])
}

// Calendars returns the calendars of a namespace, with their days, up to a thousand of them.
func (e *Engine) Calendars(ctx context.Context, namespace string) ([]rouse.Calendar, error) {
	if err := rouse.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	q := rouse.CalendarQuery(namespace, 100)
	var list []rouse.Calendar
	for len(list) < 1000 {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			c, err := rouse.DecodeCalendar(&page.Rows[i])
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	return list, nil
}

// DeleteCalendar forgets a calendar. One that a timer goes by is rouse.ErrConflict.
func (e *Engine) DeleteCalendar(ctx context.Context, namespace, name string) error {
	if err := calendarKey(namespace, name); err != nil {
		return err
	}
	if err := e.awake(ctx); err != nil {
		return err
	}
	err := e.eachGoingBy(ctx, namespace, name, func(t *rouse.Timer) error {
		return fmt.Errorf("the timer %q goes by it: %w", t.Key.Name, rouse.ErrConflict)
	})
	if err != nil {
		return err
	}
	key := rouse.CalendarKey(namespace, name)
	out, err := e.writer.Do(ctx, []*write{{change: rouse.Change{Key: key, If: rouse.AnyRevision}}})
	switch {
	case err != nil:
		return err
	case out[0].err != nil:
		return out[0].err
	case !out[0].Existed:
		return fmt.Errorf("calendar %q: %w", name, rouse.ErrNotFound)
	}
	e.compiled.forget(key)
	return nil
}
