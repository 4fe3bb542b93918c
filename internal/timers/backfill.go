package timers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
)

// BackfillRequest selects the occurrences of a backfill.
type BackfillRequest struct {
	From, Until rouse.Instant // due from From on and before Until
	DryRun      bool          // only count them
	PerSecond   float64       // start at most so many in a second, one after the other; 0: all now
}

// Backfilled is the result of a backfill.
type Backfilled struct {
	Count   uint64         // occurrences of the range
	Waiting uint64         // of them already scheduled or in progress, or dead letters
	First   []rouse.Coming // the first hundred
	FireIDs []string       // of First
	Zone    *time.Location
}

// MaxBackfill bounds the occurrences of one backfill.
const MaxBackfill = 10_000

// Backfill fires the occurrences that the timer's schedule had in a range, with the fire ids that they had or
// would have had. Each becomes a row next to the timer; an existing row, in flight or a dead letter, is left
// alone. All rows are written when it returns, each with the time of its first attempt: the rate needs
// nothing that stays running. An interrupted backfill can be repeated: with an Idempotency-Key it goes on
// where it was.
func (ts *Timers) Backfill(ctx context.Context, key rouse.Key, r BackfillRequest) (Backfilled, error) {
	var b Backfilled
	from, until := r.From, r.Until
	if r.DryRun {
		audit.Checks(ctx)
	}
	if err := cmp.Or(forTimers(key), rouse.CheckRange(from, until), checkRate(r.PerSecond)); err != nil {
		return b, err
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return b, err
	}
	now := ts.Engine.Latest()
	switch {
	case until > now+1:
		return b, rouse.Refuse("until", until.String(), "is not past: now is "+now.String(),
			"give a range of past times; what is to come fires by itself")
	}
	t, err := ts.getAllowed(ctx, access.TimersBackfill, key)
	if err != nil {
		return b, err
	}
	if err := t.RefuseCheck(); err != nil {
		return b, err
	}
	s, err := ts.schedules.Of(&t)
	if err != nil {
		return b, rouse.Refuse("name", key.Name, "has no schedule to go back on", "create a timer that is due now instead")
	}
	b.Zone = describeSchedule(s).Location
	due, err := comingOccurrences(ctx, &t, s, from-1, until, MaxBackfill+1, maxLookSteps)
	if err != nil {
		return b, err
	}
	if len(due) > MaxBackfill {
		return b, rouse.Refuse("from", from.String(),
			fmt.Sprintf("has more than %d occurrences until %v", MaxBackfill, until), "give a shorter range")
	}
	if due, err = withinMaxOccurrences(ctx, &t, s, due); err != nil {
		return b, err
	}
	b.Count = uint64(len(due))
	b.First = due[:min(len(due), 100)]
	for _, c := range b.First {
		b.FireIDs = append(b.FireIDs, rouse.FireID(key.Namespace, key.Name, t.Generation, c.Due, false))
	}
	reached := t.Due
	o := newRepeatable(ctx, key, "backfill", from, until, r.PerSecond)
	var was *mark
	if o != nil && !r.DryRun {
		if was, err = o.findMark(ctx, ts, key); err != nil {
			return b, err
		}
	}
	if was != nil {
		reached = was.Due
	}
	ahead := len(due) // those that the timer is still at, or before, fire by themselves
	for ahead > 0 && due[ahead-1].Due >= reached {
		ahead--
	}
	b.Waiting = uint64(len(due) - ahead)
	due = due[:ahead]
	if was != nil {
		due = due[min(was.N, uint64(ahead)):]
		b.Waiting += was.More
		o.N, o.More = was.N, was.More
	}
	sample := t.Row()
	most := min(500, max(1, backfillBytes/engine.Weight(&sample))) // in one write
	most = ts.admission.occurrencesAtATime(key.Namespace, sample.Size(), most)
	starts := starting{now: now, perSecond: r.PerSecond}
	if was != nil { // those of the earlier request may still wait
		starts.n = int(was.N)
	}
	for len(due) > 0 {
		part := due[:min(len(due), most)]
		due = due[len(part):]
		if r.DryRun {
			n, err := ts.countExisting(ctx, &t, part)
			if err != nil {
				return b, err
			}
			b.Waiting += n
			continue
		}
		if o != nil {
			o.Due, o.N = reached, o.N+uint64(len(part))
		}
		n, err := ts.writeBackfill(ctx, &t, part, &starts, o)
		if err != nil {
			return b, err
		}
		b.Waiting += n
	}
	return b, nil
}

// withinMaxOccurrences returns those of the due times that are not beyond the MaxOccurrences-th of the timer.
// A timer that goes on has not reached it. The schedule counts from where the timer's generation began; due
// times before that do not count.
func withinMaxOccurrences(ctx context.Context, t *rouse.Timer, s rouse.Schedule,
	due []rouse.Coming) ([]rouse.Coming, error) {
	left := t.Spec.MaxOccurrences
	if left == 0 || t.Due != rouse.Never || len(due) == 0 {
		return due, nil
	}
	if first := due[0].Due; first > t.Anchor {
		n, err := countUntil(ctx, t, s, first-1, left)
		if err != nil {
			return nil, err
		}
		left -= n
	}
	for i := range due {
		switch {
		case due[i].Due <= t.Anchor:
		case left == 0:
			return due[:i], nil
		default:
			left--
		}
	}
	return due, nil
}

// countUntil counts the due times of a timer until a time, up to most of them. It refuses a count that takes
// more than maxLookSteps.
func countUntil(ctx context.Context, t *rouse.Timer, s rouse.Schedule, until rouse.Instant,
	most uint64) (n uint64, err error) {
	if c, is := s.(rouse.Counted); is {
		if n, _, ok := c.Between(t.Anchor, until); ok {
			return min(n, most), nil
		}
	}
	for spent, from := 0, t.Anchor; n < most; n++ {
		next, ok, steps := rouse.Look(s, from)
		spent += steps
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case steps > rouse.MaxScheduleSteps:
			return 0, rouse.TooCostly(&t.Spec, from)
		case !ok || next > until:
			return n, nil
		case spent > maxLookSteps:
			return 0, rouse.Refuse("name", t.Key.Name,
				fmt.Sprintf("has had more occurrences before the range than can be counted for max_occurrences in %d steps",
					maxLookSteps),
				"give a range closer to its first occurrence, or create a timer that is due now for each occurrence")
		}
		from = next
	}
	return n, nil
}

// backfillBytes bounds the rows of one write.
const backfillBytes = 4 << 20

// starting is when the occurrences of a backfill start.
type starting struct {
	now       rouse.Instant
	perSecond float64 // 0: all start now
	n         int     // that start before the next one
}

// nextStart returns when the i-th of those that follow starts.
func (s *starting) nextStart(i int) rouse.Instant {
	if s.perSecond == 0 {
		return s.now
	}
	return s.now.Add(time.Duration(float64(s.n+i) / s.perSecond * float64(time.Second)))
}

// startAfter lets those that follow start after a row that an earlier request has begun, if it still waits.
func (s *starting) startAfter(row *rouse.Row, i int) {
	for s.perSecond != 0 && row.State == rouse.StateFiring && s.nextStart(i) <= row.Visible {
		s.n++
	}
}

// writeBackfill writes the rows of some occurrences, and returns how many existed already. The write is
// atomic and conditional on the timer: no occurrence begins after its timer was deleted or replaced.
func (ts *Timers) writeBackfill(ctx context.Context, t *rouse.Timer, due []rouse.Coming, starts *starting,
	o *repeatable) (waiting uint64, err error) {
	rows := make([]rouse.Row, len(due))
	keys := make([]rouse.Key, len(due))
	for i, c := range due {
		side := t.Backfill(c.Due, starts.now)
		rows[i], keys[i] = side.Row(), side.Key
	}
	admitted := false
	for range maxTries {
		there, err := ts.store.Get(ctx, keys)
		if err != nil {
			return 0, err
		}
		c := rouse.Change{Key: t.Key, If: t.Revision, Keep: true}
		for i := range rows {
			if there[i].Revision != 0 {
				starts.startAfter(&there[i], len(c.Also))
				continue
			}
			rows[i].Visible = starts.nextStart(len(c.Also))
			c.Also = append(c.Also, rows[i])
		}
		begun := c.Also
		if !admitted && len(begun) > 0 {
			if err := ts.admission.admitOccurrences(ctx, t.Key.Namespace, begun); err != nil {
				return 0, err
			}
			admitted = true
		}
		waiting = uint64(len(rows) - len(begun))
		if o != nil {
			marked := *o
			marked.More += waiting
			if err := marked.addMark(ts, &c, t.Bucket); err != nil {
				return 0, err
			}
		}
		items := []*engine.Write{{Change: c}}
		note, err := o.noteWrite(ts)
		if err != nil {
			return 0, err
		}
		if note != nil {
			items = append(items, note)
		}
		out, err := ts.Engine.Write(ctx, items)
		if err != nil {
			return 0, err
		}
		if out[0].Err != nil || out[0].Applied {
			for i := range begun {
				auditRowChange(ctx, begun[i].Key, rouse.NoRow, out[0].Also+uint64(i))
			}
			if o != nil {
				o.More += waiting
			}
			starts.n += len(begun)
			return waiting, out[0].Err
		}
		latest, err := ts.Get(ctx, t.Key)
		if err != nil {
			return 0, err
		}
		if latest.Generation != t.Generation {
			return 0, fmt.Errorf("the timer was replaced during the backfill: %w", rouse.ErrConflict)
		}
		if t.Revision = latest.Revision; o != nil { // the change may have come with marks of others
			if _, err := o.findMark(ctx, ts, t.Key); err != nil {
				return 0, err
			}
		}
	}
	return 0, fmt.Errorf("the timer changes all the time: %w", rouse.ErrConflict)
}

// countExisting counts the occurrences that have a row next to the timer.
func (ts *Timers) countExisting(ctx context.Context, t *rouse.Timer, due []rouse.Coming) (n uint64, err error) {
	keys := make([]rouse.Key, len(due))
	for i, c := range due {
		keys[i] = rouse.Key{Namespace: t.Key.Namespace, Name: t.Key.Name,
			Fire: rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, c.Due, false)}
	}
	rows, err := ts.store.Get(ctx, keys)
	for i := range rows {
		if rows[i].Revision != 0 {
			n++
		}
	}
	return n, err
}
