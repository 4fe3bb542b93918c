package timers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/note"
)

// While the store's clock is ahead, timers fire too early, and their next occurrences are those after that
// time. When the clock is set right they wait for it: nothing is wrong with them, and nothing fires. So the
// highest time that the store's clock has shown is kept in the store: a clock that shows less was ahead
// before. A bulk change with the action replan moves the timers to their due times by the present clock.

// clockMark is the highest time that the store's clock has shown, as the note of it keeps it.
type clockMark struct {
	Highest rouse.Instant `json:"highest"`
}

const (
	clockNote = "clock"
	// clockSlack is how much less the clock may show: it may be slewed, or another server's after a failover.
	clockSlack = 2 * time.Second
	// clockPatience limits each call to the store.
	clockPatience = 5 * time.Second
)

// HighClock knows the highest time that the store's clock has shown. It is safe for concurrent use.
type HighClock struct {
	store   rouse.Store
	latest  func() rouse.Instant // by the store's present clock
	highest atomic.Int64         // as Keep has read it last
}

func (h *HighClock) clockNotes() *note.Notes {
	return &note.Notes{Store: h.store, Namespace: access.Reserved, Prefix: "\x01", Buckets: 1, Patience: clockPatience}
}

// Keep reads the mark of the store's clock, and with keep raises it to the present time if that is
// higher. It returns Back.
func (h *HighClock) Keep(ctx context.Context, keep bool) (from rouse.Instant, err error) {
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	now, err := h.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	notes := h.clockNotes()
	list, err := notes.Get(ctx, clockNote)
	if err != nil {
		return 0, err
	}
	var mark clockMark
	_ = list[0].Read(&mark) // an unreadable note is replaced
	if keep && now > mark.Highest {
		mark.Highest = now
		revision := list[0].Revision
		if revision == 0 {
			revision = rouse.NoRow
		}
		if _, err = notes.Put(ctx, note.Set(clockNote, mark, revision)); err != nil { // refused: another node has raised it
			return 0, err
		}
	}
	h.highest.Store(int64(mark.Highest))
	return h.Back(), nil
}

// Back returns the time that the store's clock has shown before it was set back to an earlier one, as
// Keep has read it last; 0 if it shows no less than before, or timers were set right since.
func (h *HighClock) Back() rouse.Instant {
	if high := rouse.Instant(h.highest.Load()); high > h.latest().Add(clockSlack) {
		return high
	}
	return 0
}

// WasAhead returns that the clock was ahead, which operators should know although timers fire; nil: it was
// not.
func (h *HighClock) WasAhead() error {
	if from := h.Back(); from != 0 {
		return fmt.Errorf("the store's clock was ahead: it showed %v before it was set back; %s", from, cureClock)
	}
	return nil
}

// lowerMark lowers the mark to the present time: all timers are set right.
func (h *HighClock) lowerMark(ctx context.Context) error {
	now, err := h.store.Now(ctx)
	if err != nil {
		return err
	}
	if _, err = h.clockNotes().Put(ctx, note.Set(clockNote, clockMark{now}, rouse.AnyRevision)); err == nil {
		h.highest.Store(int64(now))
	}
	return err
}

// hasRepairedClock reports whether a job that has ended has set all timers of the store right.
func (ts working) hasRepairedClock(ctx context.Context, j *jobRow) bool {
	return j.Job.State == rouse.JobDone && j.Job.Failed == 0 && j.Bulk != nil && j.Bulk.Action == "replan" &&
		j.Bulk.selectsAll() &&
		ts.access.Allows(j.Caller.As(ctx), access.TimersReschedule, "", "", nil)
}

// replanNow moves a timer to its due time by the present clock, and a row whose hold or retry belongs to a
// time when the clock was ahead; errNoMatch: it needs nothing.
func replanNow(ctx context.Context, ts *Timers, row *rouse.Timer) error {
	moved := false
	hold := max(ts.opts.Engine.Hold, clockSlack)
	_, err := ts.editTimer(ctx, access.TimersReschedule, row.Key, nil, func(t *rouse.Timer) (rouse.Step, error) {
		now := ts.Engine.Latest()
		t.Anchor = min(t.Anchor, now) // it counts from a time that the clock should not have shown
		var s rouse.Schedule
		if t.Due > now && t.Due != rouse.Never {
			var err error
			if s, err = (working{ts}).currentSchedule(t); err != nil {
				return rouse.Step{}, err
			}
		}
		if moved = rouse.SetRight(t, now, s, row.Visible.Add(-2*hold)); !moved {
			return rouse.Step{Keep: true}, nil
		}
		return rouse.Step{To: t}, nil
	})
	if err == nil && !moved {
		return errNoMatch
	}
	return err
}
