package timers

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
)

// nextShown is how many of the next times a validated put shows, if it is the only one.
const nextShown = 5

// validatePuts finishes puts that are only to be checked: their quotas have to allow them, and the names have
// to be as they want them. The results are the timers that would be stored, without a revision. Like writes,
// they count towards the rate of creates.
func validatePuts(ctx context.Context, ts *Timers, puts []Put, items []*engine.Write, at []int,
	results []PutResult) error {
	items, at, err := ts.admission.admitPuts(ctx, puts, items, at, results)
	if err != nil || len(items) == 0 {
		return err
	}
	keys := make([]rouse.Key, len(at))
	for j, i := range at {
		keys[j] = puts[i].Key
	}
	rows, err := ts.store.Get(ctx, keys)
	if err != nil {
		return err
	}
	earlier := map[rouse.Key]bool{} // names that puts before would have taken
	for j, i := range at {
		p, res := &puts[i], &results[i]
		ts.admission.returnBytes(p.Key.Namespace, &rows[j], items[j].Change.To)
		exists := rows[j].Revision != 0 || earlier[p.Key]
		if p.IfRevision != 0 && p.IfRevision != rows[j].Revision || p.IfRevision == 0 && p.Mode == CreateOnly && exists {
			*res = PutResult{Err: putRefusal(p, engine.Written{Result: rouse.Result{Existed: exists,
				Revision: rows[j].Revision}})}
			continue
		}
		res.Replaced = exists
		earlier[p.Key] = true
		if len(puts) > 1 {
			continue
		}
		if res.Next, err = nextOf(ctx, ts, &res.Timer); err != nil {
			*res = PutResult{Err: err}
		}
	}
	return nil
}

// validateReplace returns the result that a put onto an existing timer would have.
func validateReplace(ctx context.Context, ts *Timers, p *Put, row *rouse.Row, alone bool) PutResult {
	res, err := PutResult{}, ts.mayReplace(ctx, access.TimersCreate, row)
	if err == nil {
		err = ts.admission.admitReplace(p.Key.Namespace)
	}
	if err == nil && p.IfRevision != 0 && row.Revision != p.IfRevision {
		err = conflictError(p.Key, row.Revision)
	}
	if err == nil {
		var t rouse.Timer
		if t, err = ts.Read(row); err == nil {
			res, err = newReplacement(ctx, ts, p, nil).wouldBe(ctx, &t, alone)
		}
	}
	if err == nil {
		is := res.Timer.Row()
		if err = ts.admission.admitGrowth(p.Key.Namespace, row, &is); err == nil {
			ts.admission.returnBytes(p.Key.Namespace, row, &is)
		}
	}
	if err != nil {
		return PutResult{Err: err}
	}
	return res
}

// wouldBe is the result of a rewriting that is not made.
func (w rewriting) wouldBe(ctx context.Context, t *rouse.Timer, alone bool) (res PutResult, err error) {
	r, err := w.rewrittenTimer(t)
	if err != nil {
		return res, err
	}
	res = PutResult{Timer: *t, Replaced: true, Unchanged: r.Unchanged, Notes: r.Notes}
	if r.To != nil {
		res.Timer = *r.To
		res.Timer.Revision = 0
	}
	if alone {
		res.Next, err = nextOf(ctx, w.Timers, &res.Timer)
	}
	w.access.Redact(ctx, &res.Timer)
	return res, err
}

// nextOf returns the next times of a timer that is not stored.
func nextOf(ctx context.Context, ts *Timers, t *rouse.Timer) ([]rouse.Instant, error) {
	s, err := ts.schedules.Parse(&t.Spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
	if err != nil {
		return nil, err
	}
	count := nextShown
	if most := t.Spec.MaxOccurrences; most != 0 {
		count = min(count, int(most))
	}
	if t.Due >= rouse.UnknownDue {
		return nil, nil
	}
	next := []rouse.Instant{t.Due}
	if !t.Spec.Recurring() {
		return next, nil
	}
	list, err := comingOccurrences(ctx, t, s, t.Due, rouse.Never, count-1, maxLookSteps)
	for i := range list {
		next = append(next, list[i].Due)
	}
	return next, err
}
