package timers

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
)

var errDrafts = errors.New("this rouse does not read drafts")

// Read decodes a row. It turns a draft into its timer.
func (ts *Timers) Read(row *rouse.Row) (rouse.Timer, error) {
	spec, ok := rouse.DraftSpec(row)
	if !ok {
		return rouse.DecodeTimer(row)
	}
	t, err := ts.timerFromDraft(row, spec)
	if err != nil {
		return rouse.Unreadable(row, err), nil
	}
	return t, nil
}

// A draft waits for changes that this node may not know yet, such as a namespace that was created a moment
// before, and for answers of the store: draftPatience is how long a missing namespace may be a new one,
// draftWait the timeout of a try, during which nothing else is evaluated.
const (
	draftPatience = 10 * time.Second
	draftWait     = time.Second
)

// TakeUp reads a draft that is about to be written as a timer, by the quotas and limits of its namespace. SQL
// does not know them: a draft that a door would refuse becomes a paused timer with the reason, as an invalid
// draft does. An error means that the draft has to be tried again. Rates do not count: the row has been
// written already.
func (ts *Timers) TakeUp(row *rouse.Row) (rouse.Timer, error) {
	t, err := ts.Read(row)
	if err != nil || t.IsDraft() {
		return t, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), draftWait)
	defer cancel()
	made := t.Row()
	err = cmp.Or(ts.admission.takesUp(ctx, row.Key.Namespace, ts.Engine.Now().Sub(row.Due), made.Size()),
		ts.checkDraftLimit(ctx, &t))
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, new(*rouse.Invalid)) && ts.Engine.Latest().Sub(row.Due) < draftPatience:
		return t, err
	case errors.Is(err, rouse.ErrQuota), errors.As(err, new(*rouse.Invalid)):
		return rouse.Unreadable(row, err), nil
	}
	return t, err
}

// checkDraftLimit refuses a draft that names a limit which its namespace does not have, or that does not go
// with it: its fires would be bounded by nothing. Secrets are not asked for: fires wait for those.
func (ts *Timers) checkDraftLimit(ctx context.Context, t *rouse.Timer) error {
	if t.Spec.Limit == "" || ts.opts.Check == nil {
		return nil
	}
	return ts.opts.Check(ctx, t.Key.Namespace, &rouse.Spec{Limit: t.Spec.Limit, LimitKey: t.Spec.LimitKey})
}

func (ts *Timers) timerFromDraft(row *rouse.Row, json []byte) (t rouse.Timer, err error) {
	if ts.opts.Spec == nil {
		return t, errDrafts
	}
	p := Put{Key: row.Key}
	if p.Spec, err = ts.opts.Spec(json); err != nil {
		return t, err
	}
	if err := cmp.Or(ts.checkPutFields(&p), ts.admission.checkTimeout(row.Key.Namespace, &p.Spec)); err != nil {
		return t, err
	}
	s, err := ts.schedules.Parse(&p.Spec, rouse.ScheduleInput{Key: row.Key, Anchor: row.Due})
	if err == nil {
		err = ts.checkEvery(p.Key.Namespace, &p.Spec, row.Due, s)
	}
	if err != nil {
		return t, err
	}
	if t, err = rouse.NewTimer(row.Key, p.Spec, row.Due, row.Due, s); err != nil {
		return t, err
	}
	t.Generation, t.Revision = row.Generation, row.Revision
	return t, ts.placeTimer(&t)
}
