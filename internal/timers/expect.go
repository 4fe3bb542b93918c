package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// The expectation of a timer (rouse.Expect) is a row next to it, which needs attention when the timer may be
// overdue, or when it is known that an occurrence next to the timer has fired. The timer is the truth: it has
// the time of its last success, and whether it is overdue. So a success moves nothing but the timer itself;
// the row finds it at its time, and is moved then.

// expecting has the methods of Timers for expectations.
type expecting struct{ *Timers }

const (
	// overdueLook is how often an overdue timer is looked at, in case it was deleted or replaced. Its success
	// needs no look.
	overdueLook = time.Minute
	// pausedLook bounds how often a timer that is not expected to succeed is looked at.
	pausedLook = time.Hour
	// leastLook is the least time between two looks at a timer.
	leastLook = time.Second
)

// notifyBy returns who is told of a timer.
func (ts *Timers) notifyBy(t *rouse.Timer) *rouse.Notify {
	return t.Spec.NotifyBy(ts.Engine.NotifyRules(t.Key.Namespace))
}

// checkNoticeTargets refuses notices and callbacks that cannot be delivered, or that the caller may not have
// delivered.
func (ts *Timers) checkNoticeTargets(ctx context.Context, namespace string, s *rouse.Spec) error {
	for _, to := range s.NoticeTargets() {
		if err := ts.checkNoticeTarget(ctx, namespace, to, s.Labels); err != nil {
			return err
		}
	}
	return nil
}

func (ts *Timers) checkNoticeTarget(ctx context.Context, namespace string, to rouse.NoticeTarget,
	labels map[string]string) error {
	return rouse.Under(to.Field, cmp.Or(ts.sink.Check(&rouse.Spec{Schedule: "@after 1s", Target: to.Target}),
		ts.access.Require(ctx, access.TimersCreate, namespace, to.Target, labels)))
}

// CheckNotifyRules refuses rules of a namespace whose notices cannot be delivered, or that the caller may not
// have delivered.
func (ts *Timers) CheckNotifyRules(ctx context.Context, namespace string, rules []rouse.NotifyRule) error {
	for i := range rules {
		to := rouse.NoticeTarget{Field: fmt.Sprintf("rules[%d]", i), Target: rules[i].Target}
		if err := ts.checkNoticeTarget(ctx, namespace, to, rules[i].Labels); err != nil {
			return err
		}
	}
	return nil
}

// expectationRow returns the row of the expectation of a timer that is being written; false if it has none.
func (ts expecting) expectationRow(t *rouse.Timer, s rouse.Schedule) (rouse.Timer, bool) {
	if !t.Spec.Expect.Any() || t.Key.Fire != "" {
		return rouse.Timer{}, false
	}
	return t.Expectation(ts.nextCheckTime(t, s, ts.Engine.Latest())), true
}

// tellExpected explains by when a timer has to succeed.
func (ts explaining) tellExpected(x *Explanation, t *rouse.Timer) {
	last := "it never has"
	if t.Succeeded != 0 {
		last = "it did last at " + x.formatTime(t.Succeeded)
	}
	told := ""
	if to := t.Spec.TargetOf(rouse.NoticeOverdue, ts.notifyBy(t)); to != "" {
		told = ", and " + to + " was told"
	}
	if t.Overdue != 0 {
		cure := "look at why it fails or does not fire; the next success ends this, also one of rouse run"
		if t.Spec.IsCheck() {
			cure = cureReport
		}
		x.addReason("overdue", t.Overdue, "It is overdue: it was expected to succeed until %s%s; %s.",
			x.formatTime(t.Overdue),
			told, last).setPeriod(t.Overdue, 0).setCure(cure)
		return
	}
	s, err := ts.schedules.Of(t)
	if err != nil {
		return
	}
	if by, ok := t.ExpectedBy(s); ok {
		x.addReason("expected", by, "It is expected to succeed until %s; %s.", x.formatTime(by),
			last).setPeriod(max(t.Succeeded, t.ExpectFrom), by)
	}
}

// nextCheckTime returns when a timer is to be looked at next.
func (ts expecting) nextCheckTime(t *rouse.Timer, s rouse.Schedule, now rouse.Instant) rouse.Instant {
	if t.Overdue != 0 {
		return now.Add(overdueLook)
	}
	by, ok := t.ExpectedBy(s)
	if !ok { // it may be resumed, or its calendar may change
		e := &t.Spec.Expect
		return now.Add(min(max(e.Grace, time.Minute), pausedLook))
	}
	return max(by, now.Add(leastLook))
}

// decideExpectations decides about expectations that need attention.
func (ts expecting) decideExpectations(ctx context.Context, rows []rouse.Row) ([]rouse.Step, error) {
	ctx = access.AsSystem(ctx)
	keys := make([]rouse.Key, len(rows))
	for i := range rows {
		keys[i] = rouse.Key{Namespace: rows[i].Key.Namespace, Name: rows[i].Key.Name}
	}
	timers, err := ts.store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	steps := make([]rouse.Step, len(rows))
	for i := range rows {
		was, err := ts.Read(&rows[i])
		if err != nil || timers[i].Revision == 0 {
			continue // the timer is gone
		}
		next, err := ts.updateExpectation(ctx, &timers[i], was.Succeeded)
		switch {
		case errors.Is(err, rouse.ErrNotFound):
			continue
		case errors.Is(err, rouse.ErrUnavailable), ctx.Err() != nil:
			return nil, cmp.Or(err, ctx.Err())
		case err != nil: // the timer cannot be read now, or its schedule
			next = was
			next.Visible = ts.Engine.Latest().Add(overdueLook)
		}
		next.Bucket = rows[i].Bucket
		steps[i] = rouse.Step{To: &next}
	}
	return steps, nil
}

// updateExpectation brings the timer of a row up to date with a success next to it and with the time, and
// returns its expectation; rouse.ErrNotFound if it has none.
func (ts expecting) updateExpectation(ctx context.Context, row *rouse.Row,
	succeeded rouse.Instant) (none rouse.Timer, err error) {
	t, err := ts.Read(row)
	if err != nil {
		return none, err
	}
	if t.Spec.Expect.Any() {
		t, err = ts.updateOverdue(ctx, t, succeeded)
	}
	if err != nil {
		return none, err
	}
	if !t.Spec.Expect.Any() || t.Over() {
		return none, notFoundError(row.Key)
	}
	s, err := ts.schedules.Settling(&t)
	if err != nil {
		return none, err
	}
	next := t.Expectation(ts.nextCheckTime(&t, s, ts.Engine.Latest()))
	next.Succeeded = max(t.Succeeded, succeeded)
	return next, nil
}

// updateOverdue changes a timer if it has to be, and returns it as it is then.
func (ts expecting) updateOverdue(ctx context.Context, t rouse.Timer, succeeded rouse.Instant) (rouse.Timer, error) {
	change := func(t *rouse.Timer) (rouse.Step, error) {
		s, err := ts.schedules.Settling(t)
		if err != nil {
			return rouse.Step{}, err
		}
		now := ts.Engine.Now() // not before it is overdue
		if succeeded > t.Succeeded {
			if t.Overdue != 0 || succeeded.Sub(t.Succeeded) >= max(t.Spec.Expect.Every/4, time.Minute) { // else the row has it
				return t.Recover(succeeded), nil
			}
			t.Succeeded = succeeded
		}
		if by, ok := t.ExpectedBy(s); ok && by <= now && t.Overdue == 0 {
			step := t.LateAt(by)
			if t.Spec.IsCheck() {
				step.Log = []rouse.Record{t.MissReport(now)}
			}
			return step, nil
		}
		return rouse.Step{Keep: true}, nil
	}
	look := t
	if step, err := change(&look); err != nil || step.Keep {
		return look, err
	}
	return ts.editTimer(ctx, access.TimersCreate, t.Key, nil, change)
}
