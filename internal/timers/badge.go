package timers

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// BadgeState is the state of a timer in one word, for a badge.
type BadgeState string

// The states. The first that fits is the state of a timer.
const (
	BadgePaused  BadgeState = "paused"
	BadgeLate    BadgeState = "late"    // it has not succeeded in time (Spec.Expect)
	BadgeFailing BadgeState = "failing" // its last occurrence ended as a dead letter or was missed
	BadgeOK      BadgeState = "ok"      // its last occurrence has fired
	BadgeNew     BadgeState = "new"     // none has ended that is on record
)

// badgeRecords is how many records are read for the last occurrence that was neither skipped nor a notice.
const badgeRecords = 20

// Badge returns the state of a timer.
func (ts *Timers) Badge(ctx context.Context, key rouse.Key) (BadgeState, error) {
	t, err := ts.getAllowed(ctx, access.TimersRead, key)
	switch {
	case err != nil:
		return "", err
	case t.Paused:
		return BadgePaused, nil
	case t.Overdue != 0:
		return BadgeLate, nil
	case t.Notices.Alarmed:
		return BadgeFailing, nil
	}
	page, err := ts.store.Records(ctx, rouse.RecordQuery{Namespace: key.Namespace, Name: key.Name, Limit: badgeRecords})
	if err != nil {
		return "", err
	}
	for i := range page.Records {
		switch r := &page.Records[i]; {
		case r.Ending == rouse.EndSkipped || r.Cause == rouse.CauseNotice:
		case r.Ending == rouse.EndFired:
			return BadgeOK, nil
		default:
			return BadgeFailing, nil
		}
	}
	if t.Fired > 0 {
		return BadgeOK, nil
	}
	return BadgeNew, nil
}
