package rouse

import (
	"cmp"
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
// UTC. Key is the namespace or the target of the timers, in a forecast that is divided by it; empty for those
// beyond MaxForecastKeys.
type Load struct {
	From  Instant
	Key   string
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

// Bounds of a forecast that is divided: the keys of one part, the first in the order of the timers, and the
// steps.
const (
	MaxForecastKeys = 50
	maxDividedLoads = 1000
)

// CheckForecast refuses a range and a step that do not go together, and a by other than ByNamespace, ByTarget
// and "". It returns the step to use.
func CheckForecast(from, until Instant, step time.Duration, by string) (time.Duration, error) {
	most := MaxLoads
	switch by {
	case "":
	case ByNamespace, ByTarget:
		most = maxDividedLoads
	default:
		return 0, Refuse("by", by, "is nothing that a forecast can be divided by",
			"give "+ByNamespace+" or "+ByTarget+", or leave it out")
	}
	if step == 0 {
		step = time.Hour
	}
	if err := CheckRange(from, until); err != nil {
		return 0, err
	}
	if _, err := CheckBy(ByTime, step); err != nil {
		return 0, err
	}
	if n := int64(until.Sub(from) / step); n > int64(most) {
		return 0, Refuse("step", step.String(), fmt.Sprintf("divides the range into %d parts, more than %d", n, most),
			"give a longer one, or an earlier until")
	}
	return step, nil
}

// Add adds the next part of the same forecast.
func (f *Forecast) Add(next *Forecast) {
	f.Timers += next.Timers
	f.Of, f.Next = next.Of, next.Next
	for _, l := range next.Loads {
		i, is := slices.BinarySearchFunc(f.Loads, l, Load.Compare)
		if !is {
			f.Loads = slices.Insert(f.Loads, i, Load{From: l.From, Key: l.Key})
		}
		f.Loads[i].Count += l.Count
	}
}

// Compare orders loads by time, and those of one step by their keys.
func (l Load) Compare(other Load) int {
	return cmp.Or(cmp.Compare(l.From, other.From), cmp.Compare(l.Key, other.Key))
}

// Total is the sum of the loads.
func (f *Forecast) Total() (n int64) {
	for _, l := range f.Loads {
		n += l.Count
	}
	return n
}
