package rouse

import (
	"fmt"
	"slices"
	"time"
)

// Forecast is how many occurrences come due in each step of a range of time.
type Forecast struct {
	From   Instant // where the range begins
	Loads  []Load  // in the order of time; a step in which nothing comes due has none
	Timers int64   // that were read

	// Of a forecast that stopped at its bound: how many timers the query matches at most, 0 if that is not
	// known, and where the rest of the forecast begins.
	Of   int64
	Next *ForecastPlace
}

// Load is how many occurrences come due in a step. Steps begin at multiples of their length since 1970, in
// UTC.
type Load struct {
	From  Instant
	Count int64
}

// ForecastPlace is where a forecast stopped: after a timer or, with a Due, after this occurrence of it, with
// Left more at most. Now is when the forecast began.
type ForecastPlace struct {
	Now  Instant
	Key  Key
	Due  Instant
	Left uint64
}

// MaxLoads bounds the steps of a forecast: a week has so many minutes.
const MaxLoads = 7 * 24 * 60

// CheckForecast refuses a range and a step that do not go together. It returns the step to use.
func CheckForecast(from, until Instant, step time.Duration) (time.Duration, error) {
	if step == 0 {
		step = time.Hour
	}
	if err := CheckRange(from, until); err != nil {
		return 0, err
	}
	if _, err := CheckBy(ByTime, step); err != nil {
		return 0, err
	}
	if n := int64(until.Sub(from) / step); n > MaxLoads {
		return 0, Refuse("step", step.String(), fmt.Sprintf("divides the range into %d parts, more than %d", n, MaxLoads), "give a longer one, or an earlier until")
	}
	return step, nil
}

// Add adds the next part of the same forecast.
func (f *Forecast) Add(next *Forecast) {
	f.Timers += next.Timers
	f.Of, f.Next = next.Of, next.Next
	for _, l := range next.Loads {
		i, is := slices.BinarySearchFunc(f.Loads, l.From, func(l Load, at Instant) int { return int(min(max(l.From-at, -1), 1)) })
		if !is {
			f.Loads = slices.Insert(f.Loads, i, Load{From: l.From})
		}
		f.Loads[i].Count += l.Count
	}
}

// Total is the sum of the loads.
func (f *Forecast) Total() (n int64) {
	for _, l := range f.Loads {
		n += l.Count
	}
	return n
}
