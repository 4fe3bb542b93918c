package engine

import (
	"errors"

	"github.com/rousehq/rouse"
)

var errDrafts = errors.New("this rouse does not read drafts")

// readTimer decodes a row. Of a draft it makes the timer that it stands for.
func (e *Engine) readTimer(row *rouse.Row) (rouse.Timer, error) {
	spec, ok := rouse.DraftSpec(row)
	if !ok {
		return rouse.DecodeTimer(row)
	}
	t, err := e.made(row, spec)
	if err != nil {
		return rouse.Unreadable(row, err), nil
	}
	return t, nil
}

func (e *Engine) made(row *rouse.Row, json []byte) (t rouse.Timer, err error) {
	if e.opts.Spec == nil {
		return t, errDrafts
	}
	p := Put{Key: row.Key}
	if p.Spec, err = e.opts.Spec(json); err != nil {
		return t, err
	}
	if err := e.check(&p); err != nil {
		return t, err
	}
	s, err := e.compiled.parse(&p.Spec, rouse.ScheduleInput{Key: row.Key, Anchor: row.Due})
	if err == nil {
		err = e.checkEvery(&p.Spec, row.Due, s)
	}
	if err != nil {
		return t, err
	}
	if t, err = rouse.NewTimer(row.Key, p.Spec, row.Due, row.Due, s); err != nil {
		return t, err
	}
	t.Bucket, t.Generation, t.Revision = e.placed(row.Key, p.Spec.Target), row.Generation, row.Revision
	return t, nil
}

// finish writes the timer that was made of a draft. It is not sent before: what it says of when may lie ahead. That no timer could be made
// of it is recorded, as the occurrence that the draft asked for has ended.
func finish(t *rouse.Timer, now rouse.Instant, _ rouse.Schedule) rouse.Step {
	to := *t
	step := rouse.Step{To: &to}
	if t.IsDraft() {
		step.Log = []rouse.Record{{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: rouse.EndDead, Cause: rouse.CauseInvalid,
			Due: t.Created, Reason: t.Reason, Ended: now}}
	}
	return step
}
