package timers

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// Simulated is the fires of a range of time, in order.
type Simulated struct {
	Fires  []SimulatedFire
	Timers uint64 // that were checked
	More   bool   // the limit ended the list
}

// SimulatedFire is one of them.
type SimulatedFire struct {
	rouse.Coming
	Key    rouse.Key
	FireID string
	Zone   *time.Location
}

// MaxSimulated bounds the fires of one simulation, and maxSimulatedSteps the steps of rouse.MaxScheduleSteps
// that it takes.
const (
	MaxSimulated      = 10_000
	maxSimulatedSteps = 2_000_000
)

// Simulate returns the fires of the matching timers from from on (0: now) and before until, the earliest up
// to limit. It uses schedules alone: retries and requested runs are not included. It changes nothing.
func (ts *Timers) Simulate(ctx context.Context, q rouse.Query, from, until rouse.Instant,
	limit int) (Simulated, error) {
	var sim Simulated
	if err := q.Check(); err != nil {
		return sim, err
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return sim, err
	}
	now := ts.Engine.Now()
	if from == 0 {
		from = now
	}
	if err := rouse.CheckRange(from, until); err != nil {
		return sim, err
	}
	if limit < 1 || limit > MaxSimulated {
		return sim, rouse.Refuse("limit", strconv.Itoa(limit), "is out of bounds", fmt.Sprintf("use 1 to %d", MaxSimulated))
	}
	if err := ts.mayRead(ctx, q.Namespace); err != nil {
		return sim, err
	}
	if from >= now && (q.DueUntil == 0 || q.DueUntil > until) {
		q.DueUntil = until // timers that are next due after that do not fire before
	}
	bounded := q.DueUntil == until
	first := until
	if bounded {
		if soonest, err := ts.Engine.Soonest(ctx, from); err == nil { // it only saves time
			first = soonest
		}
	}
	for span := firstSpan; first.Add(span) < until; span *= spanGrowth { // the limit may be reached by few timers
		q.DueUntil = first.Add(span)
		began := time.Now()
		sim, err := ts.simulateRange(ctx, q, now, from, q.DueUntil, limit)
		if err != nil || sim.More {
			return sim, err
		}
		if time.Since(began) > slowSpan {
			break
		}
	}
	if bounded {
		q.DueUntil = until
	}
	return ts.simulateRange(ctx, q, now, from, until, limit)
}

// A simulation first looks at a short part of its range, from the first row that is visible in it on, and at
// longer ones as long as they have too few fires and are fast.
const (
	firstSpan  = time.Minute
	spanGrowth = 4
	slowSpan   = 200 * time.Millisecond
)

// simulateRange is Simulate for one range.
func (ts *Timers) simulateRange(ctx context.Context, q rouse.Query, now, from, until rouse.Instant,
	limit int) (sim Simulated, err error) {
	var earliest latestFirst
	m := &schedulecache.Meter{Limit: maxSimulatedSteps}
	err = ts.eachReadable(ctx, q, func(t *rouse.Timer) error {
		sim.Timers++
		err := ts.eachSimulated(ctx, t, m, now, from, until, func(c rouse.Coming, zone *time.Location) bool {
			if len(earliest) == limit {
				sim.More = true
				if c.At >= earliest[0].At {
					return false // this timer's later ones are later still
				}
				heap.Pop(&earliest)
			}
			heap.Push(&earliest, SimulatedFire{Coming: c, Key: t.Key, Zone: zone,
				FireID: rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, c.Due, false)})
			return true
		})
		if m.Out {
			return errSpent
		}
		return err
	})
	if errors.Is(err, errSpent) {
		sim.More, err = true, nil
	}
	sim.Fires = make([]SimulatedFire, len(earliest))
	for i := len(earliest) - 1; i >= 0; i-- {
		sim.Fires[i] = heap.Pop(&earliest).(SimulatedFire)
	}
	return sim, err
}

// errSpent ends a simulation that has taken all its steps.
var errSpent = errors.New("no steps are left")

// eachSimulated calls yield for the due times of a timer in a range, until it returns false.
func (ts *Timers) eachSimulated(ctx context.Context, t *rouse.Timer, m *schedulecache.Meter, now, from,
	until rouse.Instant, yield func(rouse.Coming, *time.Location) bool) error {
	s, err := ts.schedules.Of(t)
	if errors.Is(err, schedulecache.ErrNone) {
		if at := t.SentAt(t.Due); at >= from && at < until && !t.Paused {
			yield(rouse.Coming{Due: t.Due, At: at}, time.UTC)
		}
		return nil
	}
	if err != nil {
		return nil // a schedule that is no longer valid fires nothing
	}
	p := newPlan(t, now, from)
	at, zone := p.after, describeSchedule(s).Location
	m.On(s)
	for left := p.left; left > 0; {
		due, ok := m.Next(at)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !ok || due >= until {
			break
		}
		if at = due; due >= p.next {
			left--
		}
		sent := t.SentAt(due)
		if sent < p.first || sent >= until || due >= p.pause.From && due < p.pause.To {
			continue
		}
		c := rouse.Coming{Due: due, At: sent}
		var steps int
		c.Mark, steps = rouse.Mark(s, due)
		m.Steps += steps
		if !yield(c, zone) {
			break
		}
	}
	return nil
}

// plan is how the occurrences of a recurring timer in a range are found: those after a time, of which at most
// left remain from next on: those before it have used up theirs. Those before first, and those from
// pause.From on and before pause.To, do not fire, and only reduce left.
type plan struct {
	after rouse.Instant
	left  uint64
	next  rouse.Instant
	first rouse.Instant
	pause rouse.Span
}

func newPlan(t *rouse.Timer, now, from rouse.Instant) plan {
	p := plan{after: from - 1, left: 1<<64 - 1, next: t.Due, first: from}
	if t.Spec.MaxOccurrences != 0 {
		p.left = t.Spec.MaxOccurrences - min(t.Passed, t.Spec.MaxOccurrences)
	}
	switch {
	case t.Key.Fire != "", t.Spec.IsCheck(): // no other follows; a check is never sent
		p.left = 0
		return p
	case from < now: // a past range lists the occurrences that would have fired
		if t.Paused {
			if p.pause = (rouse.Span{From: now, To: rouse.Never}); t.PausedAt != 0 {
				p.pause.From = t.PausedAt + 1
			}
			if t.Until != 0 {
				p.pause.To = t.Until
			}
		}
		return p
	case t.Due == rouse.Never || t.Paused && t.Until == 0:
		p.left = 0
		return p
	}
	if t.Paused {
		p.first = max(from, t.Until)
	}
	if p.after = p.first - 1; t.Spec.MaxOccurrences != 0 || t.Due > p.first { // the remaining occurrences begin at Due
		p.after = t.Due - 1
	}
	return p
}

// latestFirst is a heap whose first is the latest.
type latestFirst []SimulatedFire

func (h latestFirst) Len() int { return len(h) }
func (h latestFirst) Less(i, j int) bool {
	if h[i].At != h[j].At {
		return h[i].At > h[j].At
	}
	return h[i].Key.Compare(h[j].Key) > 0
}
func (h latestFirst) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *latestFirst) Push(x any)   { *h = append(*h, x.(SimulatedFire)) }
func (h *latestFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
