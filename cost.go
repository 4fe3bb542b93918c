package rouse

import (
	"fmt"
	"strings"
	"time"
)

// Cost searches from costNear times at the beginning, and from costProbes more, costApart apart, which
// cover all times of the day and days of the week in a year. It stops after maxCheckSteps steps.
const (
	costNear      = 8
	costProbes    = 24
	costApart     = 15*24*time.Hour + 7*time.Hour
	maxCheckSteps = 8 * MaxScheduleSteps
)

// CheckCost refuses, with an *Invalid, a schedule whose due times are too expensive to find: a search at some
// time in the year after from takes more than MaxScheduleSteps.
func (spec *Spec) CheckCost(from Instant, s Schedule) error {
	_, err := spec.Cost(from, s)
	return err
}

// Cost returns the steps of the longest search for a due time in the year after from, 1 for schedules that
// are always cheap. It refuses the same schedules as CheckCost.
func (spec *Spec) Cost(from Instant, s Schedule) (most int, err error) {
	if spec.Plain() && !strings.HasPrefix(spec.Schedule, "rrule:") {
		return 1, nil
	}
	total := 0
	look := func(after Instant) (next Instant, ok bool, err error) {
		next, ok, steps := Look(s, after)
		most = max(most, steps)
		if total += steps; steps > MaxScheduleSteps {
			return 0, false, TooCostly(spec, after)
		}
		return next, ok, nil
	}
	at := from
	for range costNear {
		next, ok, err := look(at)
		if err != nil || !ok {
			return most, err
		}
		at = next
	}
	for n := range costProbes {
		if total >= maxCheckSteps {
			break
		}
		if _, ok, err := look(at.Add(time.Duration(n+1) * costApart)); err != nil || !ok {
			return most, err
		}
	}
	return most, nil
}

// TooCostly is the refusal of a schedule of which a look after the given time gave up.
func TooCostly(spec *Spec, after Instant) error {
	cure := "give one with longer intervals, or a rule whose parts meet more often"
	switch {
	case len(spec.Except) > 0:
		cure = `take out whole hours or days in except, such as "* 9-17 * * *" or "* * * * SAT", instead of many single minutes, or give longer intervals`
	case len(spec.Calendar.Off)+len(spec.Calendar.Only) > 0:
		cure = "name calendars with fewer days in a row that do not count, or give longer intervals"
	}
	return Refuse("schedule", spec.Schedule,
		fmt.Sprintf("takes more than %d steps, about a millisecond, to find the occurrence after %v",
			MaxScheduleSteps, after), cure)
}

// dense is how many intervals in a row decide whether a schedule comes too often: a few may be close
// together.
const dense = 8

// CheckEvery refuses, with an *Invalid, a schedule that comes more often than once in least, as its next few
// dozen times after from show.
func (spec *Spec) CheckEvery(from Instant, s Schedule, least time.Duration) error {
	if least <= time.Millisecond || !spec.Recurring() {
		return nil
	}
	var ring [dense + 1]Instant
	at, total := from, 0
	for n := range intervals {
		next, ok, steps := Look(s, at)
		if total += steps; !ok || total > maxCheckSteps {
			break
		}
		at, ring[n%len(ring)] = next, next
		if n < dense {
			continue
		}
		first := ring[(n+1)%len(ring)]
		if d := next.Sub(first); d < dense*least {
			return Refuse("schedule", spec.Schedule, fmt.Sprintf("comes %d times in the %v after %v, more often than once in %v",
				dense, d, first, least),
				fmt.Sprintf(
					"use intervals of %v or more, or have the bound lowered: the server's min-interval, or the namespace's quota min_interval", least))
		}
	}
	return nil
}
