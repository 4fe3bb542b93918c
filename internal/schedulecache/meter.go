package schedulecache

import "github.com/rousehq/rouse"

// stepBudget is after how many steps of one evaluation occurrences are jumped over instead of counted.
const stepBudget = 200_000

// Meter is a schedule whose looks are counted. With a Limit, a look after that many steps finds nothing, and
// Out is set: its result is not to be used.
type Meter struct {
	rouse.Schedule
	Steps, Limit int
	Out          bool
}

func (m *Meter) Look(after rouse.Instant, most int) (next rouse.Instant, ok bool, steps int) {
	if m.Limit > 0 {
		most = min(most, m.Limit-m.Steps)
	}
	if m.Out || most <= 0 {
		m.Out = true
		return 0, false, 0
	}
	if metered, is := m.Schedule.(rouse.Metered); is {
		next, ok, steps = metered.Look(after, most)
	} else {
		next, ok, steps = rouse.Look(m.Schedule, after)
	}
	if m.Steps += steps; m.Limit > 0 && m.Steps > m.Limit {
		m.Out = true
		return 0, false, 0
	}
	return next, ok, steps
}

func (m *Meter) Next(after rouse.Instant) (rouse.Instant, bool) {
	next, ok, _ := m.Look(after, rouse.MaxScheduleSteps)
	return next, ok
}

// Between counts due times where the schedule can do so without a look at each.
func (m *Meter) Between(after, until rouse.Instant) (n uint64, last rouse.Instant, ok bool) {
	if c, counted := m.Schedule.(rouse.Counted); counted {
		m.Steps++
		return c.Between(after, until)
	}
	return 0, 0, false
}

// EveryDay returns the schedule as it would be if every day counted; nil if it has no calendars.
func (m *Meter) EveryDay() rouse.Schedule {
	if c, is := m.Schedule.(rouse.Calendared); is {
		return c.EveryDay()
	}
	return nil
}

// Broken returns why the schedule cannot be compiled, if it cannot.
func (m *Meter) Broken() error {
	if b, is := m.Schedule.(interface{ Broken() error }); is {
		return b.Broken()
	}
	return nil
}

// Exhausted makes a timer jump over occurrences that it would count.
func (m *Meter) Exhausted() bool { return m.Steps >= stepBudget }

// On prepares the meter for another schedule, nil for none.
func (m *Meter) On(s rouse.Schedule) rouse.Schedule {
	m.Schedule, m.Out = s, false
	if s == nil {
		return nil
	}
	return m
}
