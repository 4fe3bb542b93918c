package rousev1

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// The fields of specs are translated in forms.gen.go, which "make generate" makes. Here are the few whose
// message differs in more than its type.

// SpecToProto returns the message of a spec. Fields that have their default are left out, so a plain timer is
// a small message.
func SpecToProto(s *rouse.Spec) *Spec { return newSpec(s) }

// SpecFromProto reads a spec. Fields without a meaning are refused with a *rouse.Invalid that names each of
// them; Spec.Check checks whether the values are within their bounds.
func SpecFromProto(p *Spec) (s rouse.Spec, err error) {
	if p == nil {
		return s, rouse.Refuse("spec", "", "is missing", "say when and where the timer fires")
	}
	var faults rouse.Invalid
	p.to(&s, &faults)
	return s, faults.Err()
}

// WhenToProto returns the message of the part of a spec that decides when it is due.
func WhenToProto(s *rouse.Spec) *When { return newWhen(s) }

// WhenFromProto reads a spec of which only the part that decides when it is due is set. It refuses the same
// fields as SpecFromProto.
func WhenFromProto(p *When) (s rouse.Spec, err error) {
	if p == nil {
		return s, rouse.Refuse("when", "", "is missing", "say when the timer fires")
	}
	var faults rouse.Invalid
	p.to(&s, &faults)
	return s, faults.Err()
}

const (
	// noJitter stands for "none" in a spec, where 0 is the default. In a message none is a jitter of 0s, and
	// the default is a jitter that is not set.
	noJitter time.Duration = -1

	// forever stands for "for ever" in Spec.Keep.
	forever time.Duration = -1
)

func (p *Spec) setOwnFields(s *rouse.Spec) {
	if s.Misfire != rouse.MisfireLatest {
		p.Misfire = s.MisfireText()
	}
	if p.Keep = DurationToProto(s.Keep); s.Keep < 0 {
		p.Keep = &durationpb.Duration{Seconds: -1}
	}
}

func (p *Spec) applyOwnFields(s *rouse.Spec, f *rouse.Invalid) {
	if p.Misfire != "" {
		var err error
		s.Misfire, s.Within, err = rouse.ParseMisfire(p.Misfire)
		f.Add(err)
	}
	if k := p.Keep; k != nil && (k.Seconds < 0 || k.Nanos < 0) {
		s.Keep = forever
	} else {
		s.Keep = readDuration(f, "keep", k)
	}
}

func (p *Retry) setOwnFields(r *rouse.Retry) {
	if p.Jitter = DurationToProto(r.Jitter); r.Jitter < 0 {
		p.Jitter = &durationpb.Duration{}
	}
}

func (p *Retry) applyOwnFields(r *rouse.Retry, f *rouse.Invalid) {
	if r.Jitter = readDuration(f, "retry.jitter", p.Jitter); p.Jitter != nil && r.Jitter == 0 {
		r.Jitter = noJitter
	}
}
