package timers

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// ReportCheck takes a report of the work of a check, and returns by when it has to succeed next; 0 if it has
// not to. A request with an Idempotency-Key is carried out once.
func (ts *Timers) ReportCheck(ctx context.Context, key rouse.Key, r rouse.CheckReport) (by rouse.Instant, err error) {
	if err := cmp.Or(forTimers(key), r.Check()); err != nil {
		return 0, err
	}
	o := newRepeatable(ctx, key, "report on a check", r.Status, r.Log)
	out, err := ts.editRow(ctx, access.ChecksReport, key, 0, o, func(t *rouse.Timer) (rouse.Step, error) {
		s, err := ts.schedules.Settling(t)
		if err != nil {
			return rouse.Step{}, err
		}
		step, err := t.TakeReport(r, ts.Engine.Latest(), s)
		by = 0
		if step.To != nil {
			by, _ = step.To.ExpectedBy(s)
		}
		if o != nil {
			o.Due = by
		}
		return step, err
	})
	if out.before != nil { // the timer may have ended with the report
		return out.before.Due, nil
	}
	return by, err
}
