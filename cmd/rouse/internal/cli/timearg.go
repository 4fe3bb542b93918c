package cli

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

// Moment is a time given by a user: RFC 3339, "now", or relative to now, such as 90m, +2d or -24h.
type Moment struct {
	At       time.Time
	Set      bool
	relative bool // relative to now
}

// clocks holds the known state of the server's clock, which can be moved on a development server: relative
// times count from it. All commands of a process have the same server.
var clocks struct {
	asked atomic.Bool  // a relative moment was given
	ahead atomic.Int64 // of this machine's clock, a time.Duration
}

// UnmarshalText reads a moment.
func (m *Moment) UnmarshalText(text []byte) error {
	s := string(text)
	m.Set = true
	if d, ok := fromNow(s); ok {
		m.At, m.relative = time.Now().Add(d), true
		clocks.asked.Store(true)
		return nil
	}
	at, err := rouse.ParseInstant(s)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		return rouse.Refuse("time", s, inv.Problems[0].Wrong,
			inv.Problems[0].Cure+", or a span from now such as 36h, 2d or -36h")
	}
	m.At = at.Time()
	// before it was rounded up
	if exact, err := time.Parse(time.RFC3339Nano, strings.Replace(s, ",", ".", 1)); err == nil {
		m.At = exact
	}
	return nil
}

// fromNow parses a relative time.
func fromNow(s string) (time.Duration, bool) {
	span, sign := s, time.Duration(1)
	switch {
	case s == "now" || s == "0":
		return 0, true
	case strings.HasPrefix(s, "+"):
		span = s[1:]
	case strings.HasPrefix(s, "-"):
		span, sign = s[1:], -1
	}
	d, err := parseStretch(span)
	return sign * d, err == nil
}

// MomentOrDefault returns the moment, or a default if none was given.
func (m Moment) MomentOrDefault(other time.Time) time.Time {
	switch {
	case m.relative:
		return m.At.Add(time.Duration(clocks.ahead.Load()))
	case m.Set:
		return m.At
	}
	return other
}

// ToInstant returns the moment, 0 if none was given.
func (m Moment) ToInstant() rouse.Instant {
	if !m.Set {
		return 0
	}
	return rouse.At(m.MomentOrDefault(time.Time{}))
}

// Stretch is a duration as rouse.ParseDuration parses it, plus days (d) and weeks (w) of 24-hour days:
// "30d", "1w2d12h". Only the command line accepts it: for moving a clock, and for times relative to now.
type Stretch time.Duration

// UnmarshalText parses a stretch, which is not negative.
func (s *Stretch) UnmarshalText(text []byte) error {
	d, err := parseStretch(string(text))
	if err != nil {
		return rouse.Refuse("span", string(text), "is no span of time: "+err.Error(),
			"give one such as 90s, 12h, 30d or 2w3d")
	}
	*s = Stretch(d)
	return nil
}

func parseStretch(text string) (total time.Duration, err error) {
	const day = 24 * time.Hour
	units := map[string]time.Duration{"d": day, "w": 7 * day}
	if text == "" {
		return 0, errors.New("it is empty")
	}
	for text != "" {
		digits := strings.IndexFunc(text, unicode.IsLetter)
		if digits < 0 {
			return 0, errors.New("it ends without a unit")
		}
		end := strings.IndexFunc(text[digits:], func(r rune) bool { return !unicode.IsLetter(r) })
		if end < 0 {
			end = len(text) - digits
		}
		part, name := text[:digits+end], text[digits:digits+end]
		scale := time.Duration(1)
		if unit, ok := units[name]; ok {
			part, scale = text[:digits]+"h", unit/time.Hour
		}
		d, err := rouse.ParseDuration(part)
		if err != nil || d < 0 {
			return 0, errors.New("units are w, d, h, m, s and ms, and nothing is negative")
		}
		if d > (1<<63-1-total)/scale {
			return 0, errors.New("it is longer than 292 years")
		}
		total, text = total+d*scale, text[digits+end:]
	}
	return total, nil
}
