// Package rousev1 is the API of rouse in protobuf. The code that is not generated translates between the
// words and errors of package rouse and their messages, both ways. A result shares slices, maps and texts
// with its source.
package rousev1

import (
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

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

// DurationFromProto reads the duration of a field; none is 0. One that is negative, malformed or longer than
// a time.Duration is refused.
func DurationFromProto(field string, p *durationpb.Duration) (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	switch s, n := p.Seconds, p.Nanos; {
	case s < 0 || n < 0:
		return 0, rouse.Refuse(field, durationText(p), "is negative", "give a positive duration")
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

// withField returns err, an *Invalid with one problem, with another field.
func withField(field string, err error) error {
	var inv *rouse.Invalid
	if errors.As(err, &inv) && len(inv.Problems) == 1 {
		p := inv.Problems[0]
		return rouse.Refuse(field, p.Value, p.Wrong, p.Cure)
	}
	return err
}

// readDuration reads the duration of a field.
func readDuration(f *rouse.Invalid, field string, p *durationpb.Duration) time.Duration {
	d, err := DurationFromProto(field, p)
	f.Add(err)
	return d
}
