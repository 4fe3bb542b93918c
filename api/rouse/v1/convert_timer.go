package rousev1

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// TimerToProto returns the message of a timer, or of a row next to one.
func TimerToProto(t *rouse.Timer) *Timer {
	p := &Timer{Namespace: t.Key.Namespace, Name: t.Key.Name, Spec: SpecToProto(&t.Spec), Generation: t.Generation,
		Revision: t.Revision, State: t.State().String(), PauseReason: t.Reason, PauseUntilMs: int64(t.Until),
		CreatedMs: int64(t.Created),
		UpdatedMs: int64(t.Updated), AnchorMs: int64(t.Anchor), DueMs: InstantToProto(t.Due),
		SentAtMs:  InstantToProto(t.SentAt(t.Due)),
		VisibleMs: InstantToProto(t.Visible), Skips: t.Skips, Attempts: t.Attempts, Manual: t.Manual, BeganMs: int64(t.Began),
		LastError: t.LastError, Failures: attemptsToProto(t.Failures), Ended: t.Ended, Passed: t.Passed, FireId: t.Key.Fire,
		Asked: t.Asked,
		Fired: t.Fired, Dead: t.Dead, Missed: t.Missed, PausedAtMs: int64(t.PausedAt), BacklogFromMs: int64(t.Backlog.From),
		BacklogToMs:     int64(t.Backlog.To),
		ConsecutiveDead: t.ConsecutiveDead, Redacted: t.Redacted,
		SucceededMs: int64(t.Succeeded), ExpectFromMs: int64(t.ExpectFrom), OverdueMs: int64(t.Overdue),
		Notice: t.Notice.String(), Answer: answerToProto(t.Answer), ResolvedLimitKey: t.LimitKey}
	if st := t.Notices; st != (rouse.NoticeState{}) {
		p.Notices = &NoticeState{Alarmed: st.Alarmed, SinceMs: int64(st.Since), Events: st.Events}
	}
	for _, s := range t.Pauses {
		p.Pauses, p.PassToMs = append(p.Pauses, &Span{FromMs: int64(s.From), ToMs: int64(s.To)}), int64(s.To)
	}
	if t.Paused || t.PauseCause != 0 {
		p.PauseCause = t.PauseCause.String()
	}
	for _, w := range t.Waits {
		p.Waits = append(p.Waits, &Wait{Cause: w.Cause.String(), FromMs: int64(w.From), ToMs: int64(w.To)})
	}
	if len(t.Runs) > 0 {
		p.RunsMs = make([]int64, len(t.Runs))
		for i, r := range t.Runs {
			p.RunsMs[i] = int64(r)
		}
	}
	return p
}

// TimerFromProto reads a timer, or a row next to one. A message does not carry Bucket, which is zero, and
// Token: that of a timer in state accepted is 1, which no fire has.
func TimerFromProto(p *Timer) (rouse.Timer, error) {
	if p == nil {
		return rouse.Timer{}, rouse.Refuse("timer", "", "is missing", "send one")
	}
	spec, err := SpecFromProto(p.Spec)
	if err != nil {
		return rouse.Timer{}, err
	}
	state, err := rouse.ParseState(p.State)
	if err != nil {
		return rouse.Timer{}, err
	}
	if state.Detached() != (p.FireId != "") {
		return rouse.Timer{}, rouse.Refuse("fire_id", p.FireId, "does not go with state "+p.State,
			"rows in state firing or dead have one, timers do not")
	}
	t := rouse.Timer{Key: rouse.Key{Namespace: p.Namespace, Name: p.Name, Fire: p.FireId}, Generation: p.Generation,
		Revision: p.Revision, Spec: spec, Paused: state == rouse.StatePaused, Reason: p.PauseReason,
		Until:   rouse.Instant(p.PauseUntilMs),
		Created: rouse.Instant(p.CreatedMs), Updated: rouse.Instant(p.UpdatedMs), Anchor: rouse.Instant(p.AnchorMs),
		Due: InstantFromProto(p.DueMs), Visible: InstantFromProto(p.VisibleMs), Skips: p.Skips, Attempts: p.Attempts,
		Manual: p.Manual,
		Began:  rouse.Instant(p.BeganMs), LastError: p.LastError, Failures: attemptsFromProto(p.Failures), Ended: p.Ended,
		Passed: p.Passed,
		Live:   state == rouse.StateFiring, Asked: p.Asked, Fired: p.Fired, Dead: p.Dead, Missed: p.Missed,
		PausedAt: rouse.Instant(p.PausedAtMs), Backlog: rouse.Span{From: rouse.Instant(p.BacklogFromMs),
			To: rouse.Instant(p.BacklogToMs)},
		ConsecutiveDead: p.ConsecutiveDead, Redacted: p.Redacted,
		Succeeded: rouse.Instant(p.SucceededMs), ExpectFrom: rouse.Instant(p.ExpectFromMs),
		Overdue: rouse.Instant(p.OverdueMs), Answer: answerFromProto(p.Answer),
		Notices: rouse.NoticeState{Alarmed: p.GetNotices().GetAlarmed(), Since: rouse.Instant(p.GetNotices().GetSinceMs()),
			Events: p.GetNotices().GetEvents()}, LimitKey: p.ResolvedLimitKey}
	if t.Notice, err = rouse.ParseNotice(p.Notice); err != nil {
		return rouse.Timer{}, err
	}
	for _, s := range p.Pauses {
		t.Pauses = append(t.Pauses, rouse.Span{From: rouse.Instant(s.GetFromMs()), To: rouse.Instant(s.GetToMs())})
	}
	if p.PassToMs != 0 && len(t.Pauses) == 0 {
		t.Pauses = rouse.PausedUntil(rouse.Instant(p.PassToMs))
	}
	if t.PauseCause, err = rouse.ParsePauseCause(p.PauseCause); err != nil {
		return rouse.Timer{}, err
	}
	for i, w := range p.Waits {
		cause, ok := rouse.ParseCause(w.GetCause())
		if !ok {
			return rouse.Timer{}, rouse.Refuse(fmt.Sprintf("waits[%d].cause", i), w.GetCause(), "is no cause",
				"send what a list returned")
		}
		t.Waits = append(t.Waits, rouse.Wait{Cause: cause, From: rouse.Instant(w.GetFromMs()),
			To: rouse.Instant(w.GetToMs())})
	}
	if len(p.RunsMs) > 0 {
		t.Runs = make([]rouse.Instant, len(p.RunsMs))
		for i, ms := range p.RunsMs {
			t.Runs[i] = rouse.Instant(ms)
		}
	}
	if state == rouse.StateAccepted {
		t.Token = 1
	}
	if is := t.State(); is != state {
		return rouse.Timer{}, rouse.Refuse("state", p.State,
			"does not go with the other fields, which are those of state "+is.String(), "send what a list returned")
	}
	return t, nil
}

func attemptsToProto(list []rouse.Attempt) []*Attempt {
	if len(list) == 0 {
		return nil
	}
	out := make([]*Attempt, len(list))
	for i, a := range list {
		out[i] = &Attempt{SentMs: int64(a.Sent), TookMs: a.Took.Milliseconds(), Code: int32(a.Code), Detail: a.Detail}
	}
	return out
}

func attemptsFromProto(list []*Attempt) []rouse.Attempt {
	if len(list) == 0 {
		return nil
	}
	out := make([]rouse.Attempt, len(list))
	for i, a := range list {
		out[i] = rouse.Attempt{Sent: rouse.Instant(a.GetSentMs()), Took: time.Duration(a.GetTookMs()) * time.Millisecond,
			Code: int(a.GetCode()), Detail: a.GetDetail()}
	}
	return out
}

// FireToProto writes a fire into a message that may have been used before. Tag and deadline are not the
// fire's: they are left as they are.
func FireToProto(f *rouse.Fire, p *Fire) {
	p.Id, p.Namespace, p.Name, p.Generation = f.ID, f.Namespace, f.Name, f.Generation
	p.DueMs, p.Attempt, p.Token, p.Manual, p.Last = int64(f.Due), f.Attempt, f.Token, f.Manual, f.Last
	p.Traceparent = f.Traceparent
	p.Payload, p.ContentType, p.Labels = f.Spec.Payload, f.Spec.ContentType, f.Spec.Labels
}
