// Package rousev1 is the API of rouse in protobuf. What is not generated of it translates between the words and errors of
// package rouse and their messages, both ways. What is translated shares its slices, maps and texts with what it was made from.
package rousev1

import (
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// SpecToProto returns the message of a spec. Fields that have their default are left out, so a plain timer is a small message.
func SpecToProto(s *rouse.Spec) *Spec {
	p := &Spec{Schedule: s.Schedule, Timezone: s.Timezone, Target: s.Target, Payload: s.Payload, ContentType: s.ContentType,
		Labels: s.Labels, Retry: retryToProto(&s.Retry), Webhook: webhookToProto(&s.Webhook)}
	if s.Misfire != rouse.MisfireLatest {
		p.Misfire = s.Misfire.String()
	}
	return p
}

// SpecFromProto reads a spec. What has no meaning is refused with a *rouse.Invalid that names every such field; whether the
// values are within their bounds is for Spec.Check to say.
func SpecFromProto(p *Spec) (rouse.Spec, error) {
	if p == nil {
		return rouse.Spec{}, rouse.Refuse("spec", "", "is missing", "say when and where the timer fires")
	}
	s := rouse.Spec{Schedule: p.Schedule, Timezone: p.Timezone, Target: p.Target, Payload: p.Payload, ContentType: p.ContentType,
		Labels: p.Labels}
	var faults faults
	if p.Misfire != "" {
		var err error
		s.Misfire, err = rouse.ParseMisfire(p.Misfire)
		faults.add(err)
	}
	if r := p.Retry; r != nil {
		s.Retry.Attempts = r.Attempts
		s.Retry.Interval = faults.span("retry.interval", r.Interval)
		s.Retry.Max = faults.span("retry.max_interval", r.MaxInterval)
		s.Retry.Jitter = faults.span("retry.jitter", r.Jitter)
		s.Retry.Timeout = faults.span("retry.timeout", r.Timeout)
		if r.Jitter != nil && s.Retry.Jitter == 0 {
			s.Retry.Jitter = noJitter
		}
	}
	if w := p.Webhook; w != nil {
		s.Webhook = rouse.Webhook{Method: w.Method, Headers: w.Headers, Structured: w.Structured, Batch: w.Batch,
			Accept: faults.span("webhook.accept", w.Accept)}
	}
	return s, faults.err()
}

// noJitter stands for "none" in a spec, where 0 is the default. In a message none is a jitter of 0s, and the default is a
// jitter that is not set.
const noJitter time.Duration = -1

func retryToProto(r *rouse.Retry) *Retry {
	if *r == (rouse.Retry{}) {
		return nil
	}
	p := &Retry{Attempts: r.Attempts, Interval: DurationToProto(r.Interval), MaxInterval: DurationToProto(r.Max),
		Jitter: DurationToProto(r.Jitter), Timeout: DurationToProto(r.Timeout)}
	if r.Jitter < 0 {
		p.Jitter = &durationpb.Duration{}
	}
	return p
}

func webhookToProto(w *rouse.Webhook) *Webhook {
	if w.Method == "" && len(w.Headers) == 0 && !w.Structured && w.Batch == 0 && w.Accept == 0 {
		return nil
	}
	return &Webhook{Method: w.Method, Headers: w.Headers, Structured: w.Structured, Batch: w.Batch, Accept: DurationToProto(w.Accept)}
}

// TimerToProto returns the message of a timer or dead letter.
func TimerToProto(t *rouse.Timer) *Timer {
	p := &Timer{Namespace: t.Key.Namespace, Name: t.Key.Name, Spec: SpecToProto(&t.Spec), Generation: t.Generation,
		Revision: t.Revision, State: t.State().String(), PauseReason: t.Reason, CreatedMs: int64(t.Created),
		UpdatedMs: int64(t.Updated), DueMs: InstantToProto(t.Due), VisibleMs: InstantToProto(t.Visible), Attempts: t.Attempts,
		LastError: t.LastError, Ended: t.Ended, FireId: t.Key.Fire}
	if len(t.Runs) > 0 {
		p.RunsMs = make([]int64, len(t.Runs))
		for i, r := range t.Runs {
			p.RunsMs[i] = int64(r)
		}
	}
	return p
}

// TimerFromProto reads a timer. A message does not carry Bucket, Anchor and Token: the first two are zero, and the token
// of a timer in state accepted is 1, which no fire has. Manual is known where the message leaves no doubt.
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
	if (state == rouse.StateDead) != (p.FireId != "") {
		return rouse.Timer{}, rouse.Refuse("fire_id", p.FireId, "does not go with state "+p.State, "dead letters have one, others do not")
	}
	t := rouse.Timer{Key: rouse.Key{Namespace: p.Namespace, Name: p.Name, Fire: p.FireId}, Generation: p.Generation,
		Revision: p.Revision, Spec: spec, Paused: state == rouse.StatePaused, Reason: p.PauseReason,
		Created: rouse.Instant(p.CreatedMs), Updated: rouse.Instant(p.UpdatedMs), Due: InstantFromProto(p.DueMs),
		Visible: InstantFromProto(p.VisibleMs), Attempts: p.Attempts, LastError: p.LastError, Ended: p.Ended}
	if len(p.RunsMs) > 0 {
		t.Runs = make([]rouse.Instant, len(p.RunsMs))
		for i, ms := range p.RunsMs {
			t.Runs[i] = rouse.Instant(ms)
		}
		t.Manual = state == rouse.StateDead || t.Attempts != 0 && t.Due == rouse.Never
	}
	if state == rouse.StateAccepted {
		t.Token = 1
	}
	return t, nil
}

// RecordToProto returns the message of a record.
func RecordToProto(r *rouse.Record) *Record {
	return &Record{Namespace: r.Namespace, Name: r.Name, Generation: r.Generation, FireId: r.FireID(), Ending: r.Ending.String(),
		Manual: r.Manual, DueMs: int64(r.Due), LastDueMs: int64(r.LastDue), Count: r.Count, Attempts: r.Attempts,
		Code: int32(r.Code), Reason: r.Reason, SentMs: int64(r.Sent), EndedMs: int64(r.Ended)}
}

// RecordFromProto reads a record. Its fire id is not read: it follows from the rest.
func RecordFromProto(p *Record) (rouse.Record, error) {
	if p == nil {
		return rouse.Record{}, rouse.Refuse("record", "", "is missing", "send one")
	}
	ending, ok := endings[p.Ending]
	if !ok {
		return rouse.Record{}, rouse.Refuse("ending", p.Ending, "is no ending", "give one of fired, dead, skipped, missed")
	}
	return rouse.Record{Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, Ending: ending, Manual: p.Manual,
		Due: rouse.Instant(p.DueMs), LastDue: rouse.Instant(p.LastDueMs), Count: p.Count, Attempts: p.Attempts,
		Code: int(p.Code), Reason: p.Reason, Sent: rouse.Instant(p.SentMs), Ended: rouse.Instant(p.EndedMs)}, nil
}

var endings = func() map[string]rouse.Ending {
	m := map[string]rouse.Ending{}
	for e := rouse.EndFired; e <= rouse.EndMissed; e++ {
		m[e.String()] = e
	}
	return m
}()

// FilterToProto returns the message of what a query filters by; its place and limit are not part of it.
func FilterToProto(q *rouse.Query) *Filter {
	f := &Filter{Namespace: q.Namespace, NamePrefix: q.Prefix, Name: q.Name, Labels: q.Labels,
		DueFromMs: int64(q.DueFrom), DueUntilMs: int64(q.DueUntil)}
	for _, s := range q.States {
		f.States = append(f.States, s.String())
	}
	return f
}

// FilterFromProto reads a filter; none at all is the filter that all timers pass.
func FilterFromProto(f *Filter) (rouse.Query, error) {
	if f == nil {
		return rouse.Query{}, nil
	}
	q := rouse.Query{Namespace: f.Namespace, Prefix: f.NamePrefix, Name: f.Name, Labels: f.Labels,
		DueFrom: rouse.Instant(f.DueFromMs), DueUntil: rouse.Instant(f.DueUntilMs)}
	var faults faults
	for i, name := range f.States {
		s, err := rouse.ParseState(name)
		if err != nil {
			faults.add(at("filter.states["+strconv.Itoa(i)+"]", err))
			continue
		}
		q.States = append(q.States, s)
	}
	for _, bound := range [...]struct {
		field string
		ms    int64
	}{{"filter.due_from_ms", f.DueFromMs}, {"filter.due_until_ms", f.DueUntilMs}} {
		if bound.ms < 0 {
			faults.add(rouse.Refuse(bound.field, strconv.FormatInt(bound.ms, 10), "is negative", "give milliseconds since 1970-01-01T00:00:00Z"))
		}
	}
	return q, faults.err()
}

// FireToProto writes a fire into a message that may have been used before. Tag and deadline are not the fire's: they are left
// as they are.
func FireToProto(f *rouse.Fire, p *Fire) {
	p.Id, p.Namespace, p.Name, p.Generation = f.ID, f.Namespace, f.Name, f.Generation
	p.DueMs, p.Attempt, p.Token, p.Manual, p.Last = int64(f.Due), f.Attempt, f.Token, f.Manual, f.Last
	p.Payload, p.ContentType, p.Labels = f.Spec.Payload, f.Spec.ContentType, f.Spec.Labels
}

// InstantToProto returns the milliseconds of a time that may be rouse.Never, which is 0 in a message.
func InstantToProto(i rouse.Instant) int64 {
	if i == rouse.Never {
		return 0
	}
	return int64(i)
}

// InstantFromProto reads milliseconds that InstantToProto wrote.
func InstantFromProto(ms int64) rouse.Instant {
	if ms == 0 {
		return rouse.Never
	}
	return rouse.Instant(ms)
}

// DurationToProto returns the message of a duration; 0, which stands for a default, is none.
func DurationToProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return &durationpb.Duration{Seconds: int64(d / time.Second), Nanos: int32(d % time.Second)}
}

// DurationFromProto reads the duration of a field; none is 0. One that is negative, malformed or longer than a
// time.Duration is refused.
func DurationFromProto(field string, p *durationpb.Duration) (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	switch s, n := p.Seconds, p.Nanos; {
	case s < 0 || n < 0:
		return 0, rouse.Refuse(field, durationText(p), "is negative", "use a positive duration")
	case n >= 1e9:
		return 0, rouse.Refuse(field, durationText(p), "is malformed", "use fewer than 1,000,000,000 nanoseconds")
	case s >= math.MaxInt64/int64(time.Second):
		return 0, rouse.Refuse(field, durationText(p), "is too long", "use less than 292 years")
	default:
		return time.Duration(s)*time.Second + time.Duration(n), nil
	}
}

func durationText(p *durationpb.Duration) string {
	s := strconv.FormatInt(p.Seconds, 10) + "s"
	if p.Nanos != 0 {
		s += strconv.FormatInt(int64(p.Nanos), 10) + "ns"
	}
	return s
}

// faults gathers what is wrong with a message, so that a client hears of all of it at once.
type faults struct{ ps []rouse.Problem }

func (f *faults) add(err error) {
	if inv, ok := err.(*rouse.Invalid); ok && inv != nil {
		f.ps = append(f.ps, inv.Problems...)
	}
}

// at returns err, an *Invalid with one problem, with another field.
func at(field string, err error) error {
	var inv *rouse.Invalid
	if errors.As(err, &inv) && len(inv.Problems) == 1 {
		p := inv.Problems[0]
		return rouse.Refuse(field, p.Value, p.Wrong, p.Cure)
	}
	return err
}

func (f *faults) span(field string, p *durationpb.Duration) time.Duration {
	d, err := DurationFromProto(field, p)
	f.add(err)
	return d
}

func (f *faults) err() error {
	if len(f.ps) == 0 {
		return nil
	}
	return &rouse.Invalid{Problems: f.ps}
}
