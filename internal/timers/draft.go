package timers

import (
	"errors"

	"github.com/rousehq/rouse"
)

var errDrafts = errors.New("this rouse does not read drafts")

// Read decodes a row. It turns a draft into its timer.
func (ts *Timers) Read(row *rouse.Row) (rouse.Timer, error) {
	spec, ok := rouse.DraftSpec(row)
	if !ok {
		return rouse.DecodeTimer(row)
	}
	t, err := ts.made(row, spec)
	if err != nil {
		return rouse.Unreadable(row, err), nil
	}
	return t, nil
}

func (ts *Timers) made(row *rouse.Row, json []byte) (t rouse.Timer, err error) {
	if ts.opts.Spec == nil {
		return t, errDrafts
	}
	p := Put{Key: row.Key}
	if p.Spec, err = ts.opts.Spec(json); err != nil {
		return t, err
	}
	if err := ts.check(&p); err != nil {
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
	t.Bucket, t.Generation, t.Revision = ts.placed(row.Key, p.Spec.Target), row.Generation, row.Revision
	return t, nil
}
