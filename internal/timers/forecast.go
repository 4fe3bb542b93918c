package timers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// MaxForecast bounds the timers that one part of a forecast reads. It is also bounded by searchBytes and
// maxSimulatedSteps.
const MaxForecast = 50_000

// Forecast counts the occurrences of the matching timers that come due from from on (0: now) and before
// until, in steps of time, and divided by a property of the timers, which may be empty. It uses schedules
// alone: retries and requested runs are not included. It reads timers in the order of their keys, after
// place, until it reaches a bound: Next is where the rest begins.
func (ts *Timers) Forecast(ctx context.Context, q rouse.Query, from, until rouse.Instant, step time.Duration,
	by string, place *rouse.ForecastPlace) (rouse.Forecast, error) {
	none := rouse.Forecast{}
	if err := cmp.Or(q.Check(), refuseOrder(&q)); err != nil {
		return none, err
	}
	if err := ts.mayRead(ctx, q.Namespace); err != nil {
		return none, err
	}
	now, err := ts.store.Now(ctx)
	if err != nil {
		return none, err
	}
	if place != nil {
		now = place.Now // all parts are of one moment
	}
	from = cmp.Or(from, now)
	if step, err = rouse.CheckForecast(from, until, step, by); err != nil {
		return none, err
	}
	if from >= now && (q.DueUntil == 0 || q.DueUntil > until) {
		q.DueUntil = until // timers that are next due after that have no occurrence before
	}
	f := forecast{Timers: ts, now: now, from: from, until: until, step: rouse.Instant(step.Milliseconds()), by: by,
		counts: map[rouse.Load]int64{}, keys: map[string]bool{}}
	f.meter.Limit = bounds.steps
	next, err := f.countAfter(ctx, q, place)
	if err != nil {
		return none, err
	}
	out := rouse.Forecast{From: from, Timers: f.read, Next: next}
	for l, n := range f.counts {
		l.Count = n
		out.Loads = append(out.Loads, l)
	}
	slices.SortFunc(out.Loads, rouse.Load.Compare)
	if next != nil { // others only see how far it came
		if n, err := ts.Count(ctx, rouse.Query{Namespace: q.Namespace, States: q.States}); err == nil {
			out.Of = max(n, out.Timers)
		}
	}
	return out, nil
}

// forecast is one part of a forecast.
type forecast struct {
	*Timers
	now, from, until rouse.Instant
	step             rouse.Instant
	by               string
	keys             map[string]bool
	counts           map[rouse.Load]int64 // without their counts
	meter            schedulecache.Meter
	read             int64
}

// countAfter reads timers after a place, and returns where it stopped; nil at the end.
func (f *forecast) countAfter(ctx context.Context, q rouse.Query,
	place *rouse.ForecastPlace) (*rouse.ForecastPlace, error) {
	if place != nil {
		if q.After = place.Key; place.Due != 0 {
			if next, err := f.countRest(ctx, place); next != nil || err != nil {
				return next, err
			}
		}
	}
	for rows, bytes, sparse := 0, 0, 0; ; {
		q.Limit = min(5*pageChunk, bounds.forecast-rows)
		page, err := f.pageRows(ctx, q, access.TimersRead)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			bytes += len(page.Rows[i].Body)
			t, err := f.Read(&page.Rows[i])
			if err != nil || !f.mayList(ctx, &t, access.TimersRead) || !f.matchesSought(ctx, &q, &t) {
				continue
			}
			f.read++
			if next, err := f.countOccurrences(ctx, &t, newPlan(&t, f.now, f.from)); next != nil || err != nil {
				return next, err
			}
		}
		if page.Next == nil {
			return nil, nil
		}
		if q.After = *page.Next; len(page.Rows) < q.Limit {
			sparse++
		}
		if rows += len(page.Rows); rows >= bounds.forecast || bytes >= searchBytes || sparse >= maxSparse {
			return &rouse.ForecastPlace{Now: f.now, Key: q.After}, nil
		}
	}
}

// countRest counts the rest of the timer in which the part before stopped.
func (f *forecast) countRest(ctx context.Context, place *rouse.ForecastPlace) (*rouse.ForecastPlace, error) {
	t, err := f.getAllowed(ctx, access.TimersRead, place.Key)
	switch {
	case errors.Is(err, rouse.ErrNotFound): // it was deleted since
		return nil, nil
	case err != nil:
		return nil, err
	}
	p := newPlan(&t, f.now, f.from)
	if p.after = place.Due; place.Due >= p.next {
		p.left = place.Left
	}
	return f.countOccurrences(ctx, &t, p)
}

// countOccurrences counts the occurrences of a timer. It returns the place where the steps were used up; nil
// if all were counted.
func (f *forecast) countOccurrences(ctx context.Context, t *rouse.Timer, p plan) (*rouse.ForecastPlace, error) {
	s, err := f.schedules.Of(t)
	if errors.Is(err, schedulecache.ErrNone) {
		if t.Due >= f.from && t.Due < f.until && !t.Paused {
			f.counts[rouse.Load{From: t.Due / f.step * f.step, Key: f.forecastKey(t)}]++
		}
		return nil, nil
	}
	if err != nil {
		return nil, nil // a schedule that is no longer valid fires nothing
	}
	f.meter.On(s)
	key, at, left := f.forecastKey(t), p.after, p.left
	for left > 0 {
		due, ok := f.meter.Next(at)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case f.meter.Out:
			return &rouse.ForecastPlace{Now: f.now, Key: t.Key, Due: at, Left: left}, nil
		case !ok || due >= f.until:
			return nil, nil
		}
		begins := due / f.step * f.step
		ends, fires := min(begins+f.step, f.until), false
		switch {
		case due < p.first:
			ends = min(p.first, f.until)
		case due >= p.pause.From && due < p.pause.To:
			ends = min(p.pause.To, f.until)
		default:
			if fires = true; due < p.pause.From {
				ends = min(ends, p.pause.From)
			}
		}
		n, passed := uint64(1), due < p.next
		if at = due; passed {
			ends = min(ends, p.next)
		} else {
			left--
		}
		if more, last, counted := f.meter.Between(due, ends-1); counted && more > 0 {
			if at = last; !passed {
				more = min(more, left)
				left -= more
			}
			n += more
		}
		if fires {
			f.counts[rouse.Load{From: begins, Key: key}] += int64(n)
		}
	}
	return nil, nil
}

// forecastKey returns the group that a timer is counted in; empty if there are too many.
func (f *forecast) forecastKey(t *rouse.Timer) (key string) {
	switch f.by {
	case rouse.ByNamespace:
		key = t.Key.Namespace
	case rouse.ByTarget:
		key = t.Spec.Target
	}
	if key == "" || f.keys[key] {
		return key
	}
	if len(f.keys) >= rouse.MaxForecastKeys {
		return ""
	}
	f.keys[key] = true
	return key
}
