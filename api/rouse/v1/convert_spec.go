package rousev1

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// SpecToProto returns the message of a spec. Fields that have their default are left out, so a plain timer is a small message.
func SpecToProto(s *rouse.Spec) *Spec {
	p := &Spec{Schedule: s.Schedule, Also: s.Also, Except: s.Except, Timezone: s.Timezone, Dst: s.DST, Calendar: ruleToProto(&s.Calendar),
		StartMs: int64(s.Start), EndMs: int64(s.End), Ttl: DurationToProto(s.TTL), MaxOccurrences: s.MaxOccurrences,
		Jitter: DurationToProto(s.Jitter), Target: s.Target, Payload: s.Payload, ContentType: s.ContentType, Labels: s.Labels,
		Retry: retryToProto(&s.Retry), Overlap: s.Overlap.String(), Deadline: DurationToProto(s.Deadline), Keep: DurationToProto(s.Keep),
		Webhook: webhookToProto(&s.Webhook), Criticality: uint32(s.Criticality), PauseAfter: s.PauseAfter}
	if s.Misfire != rouse.MisfireLatest {
		p.Misfire = s.MisfireText()
	}
	if s.Priority != rouse.PriorityNormal {
		p.Priority = s.Priority.String()
	}
	if s.Keep < 0 {
		p.Keep = &durationpb.Duration{Seconds: -1}
	}
	return p
}

// SpecFromProto reads a spec. What has no meaning is refused with a *rouse.Invalid that names every such field; whether the
// values are within their bounds is for Spec.Check to say.
func SpecFromProto(p *Spec) (rouse.Spec, error) {
	if p == nil {
		return rouse.Spec{}, rouse.Refuse("spec", "", "is missing", "say when and where the timer fires")
	}
	s := rouse.Spec{Schedule: p.Schedule, Also: p.Also, Except: p.Except, Timezone: p.Timezone, DST: p.Dst, Start: rouse.Instant(p.StartMs),
		End: rouse.Instant(p.EndMs), MaxOccurrences: p.MaxOccurrences, Target: p.Target, Payload: p.Payload, ContentType: p.ContentType,
		Labels: p.Labels, PauseAfter: p.PauseAfter}
	var faults faults
	var err error
	s.TTL = faults.span("ttl", p.Ttl)
	s.Jitter = faults.span("jitter", p.Jitter)
	if c := p.Calendar; c != nil {
		s.Calendar = rouse.CalendarRule{Off: c.Off, Only: c.Only}
		s.Calendar.Shift, err = rouse.ParseShift(c.Shift)
		faults.add(err)
	}
	if p.Misfire != "" {
		s.Misfire, s.Within, err = rouse.ParseMisfire(p.Misfire)
		faults.add(err)
	}
	s.Overlap, err = rouse.ParseOverlap(p.Overlap)
	faults.add(err)
	s.Priority, err = rouse.ParsePriority(p.Priority)
	faults.add(err)
	s.Deadline = faults.span("deadline", p.Deadline)
	if k := p.Keep; k != nil && (k.Seconds < 0 || k.Nanos < 0) {
		s.Keep = forever
	} else {
		s.Keep = faults.span("keep", k)
	}
	s.Criticality, err = rouse.ParseCriticality(uint64(p.Criticality))
	faults.add(err)
	if r := p.Retry; r != nil {
		s.Retry.Attempts = r.Attempts
		s.Retry.Interval = faults.span("retry.interval", r.Interval)
		s.Retry.Factor = r.Factor
		s.Retry.Max = faults.span("retry.max_interval", r.MaxInterval)
		s.Retry.Jitter = faults.span("retry.jitter", r.Jitter)
		s.Retry.Timeout = faults.span("retry.timeout", r.Timeout)
		s.Retry.GiveUp = faults.span("retry.give_up", r.GiveUp)
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

// WhenToProto returns the message of the part of a spec that decides when it is due.
func WhenToProto(s *rouse.Spec) *When {
	return &When{Schedule: s.Schedule, Also: s.Also, Except: s.Except, Timezone: s.Timezone, Dst: s.DST, Calendar: ruleToProto(&s.Calendar),
		StartMs: int64(s.Start), EndMs: int64(s.End), Ttl: DurationToProto(s.TTL), MaxOccurrences: s.MaxOccurrences,
		Jitter: DurationToProto(s.Jitter)}
}

// WhenFromProto reads a spec of which only the part that decides when it is due is set. It refuses what
// SpecFromProto refuses.
func WhenFromProto(p *When) (rouse.Spec, error) {
	if p == nil {
		return rouse.Spec{}, rouse.Refuse("when", "", "is missing", "say when the timer fires")
	}
	return SpecFromProto(&Spec{Schedule: p.Schedule, Also: p.Also, Except: p.Except, Timezone: p.Timezone, Dst: p.Dst, Calendar: p.Calendar,
		StartMs: p.StartMs, EndMs: p.EndMs, Ttl: p.Ttl, MaxOccurrences: p.MaxOccurrences, Jitter: p.Jitter})
}

const (
	// noJitter stands for "none" in a spec, where 0 is the default. In a message none is a jitter of 0s, and the default is a
	// jitter that is not set.
	noJitter time.Duration = -1

	// forever stands for "for ever" in Spec.Keep.
	forever time.Duration = -1
)

func ruleToProto(c *rouse.CalendarRule) *CalendarRule {
	if len(c.Off) == 0 && len(c.Only) == 0 && c.Shift == rouse.ShiftSkip {
		return nil
	}
	p := &CalendarRule{Off: c.Off, Only: c.Only}
	if c.Shift != rouse.ShiftSkip {
		p.Shift = c.Shift.String()
	}
	return p
}

func retryToProto(r *rouse.Retry) *Retry {
	if *r == (rouse.Retry{}) {
		return nil
	}
	p := &Retry{Attempts: r.Attempts, Interval: DurationToProto(r.Interval), Factor: r.Factor, MaxInterval: DurationToProto(r.Max),
		Jitter: DurationToProto(r.Jitter), Timeout: DurationToProto(r.Timeout), GiveUp: DurationToProto(r.GiveUp)}
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
