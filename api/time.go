package api

import (
	"time"

	"github.com/rousehq/rouse"
)

// Time is an instant as JSON has it. The zero Time is left out, and so is one that never comes.
type Time rouse.Instant

// TimeOf returns the JSON form of an instant, which may be rouse.Never.
func TimeOf(i rouse.Instant) Time {
	if i == rouse.Never {
		return 0
	}
	return Time(i)
}

// Instant returns the time in the words of rouse; zero if it is not set.
func (t Time) Instant() rouse.Instant { return rouse.Instant(t) }

// orNever returns a time that is left out when it never comes.
func (t Time) orNever() rouse.Instant {
	if t == 0 {
		return rouse.Never
	}
	return rouse.Instant(t)
}

func (t Time) String() string { return rouse.Instant(t).String() }

// MarshalText writes RFC 3339.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads texts as rouse.ParseInstant does.
func (t *Time) UnmarshalText(text []byte) error {
	i, err := rouse.ParseInstant(string(text))
	*t = Time(i)
	return err
}

// Duration is a span of time as JSON has it: "90s", "1h30m", "250ms".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the form that time.Duration prints.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads texts as rouse.ParseDuration does, without negative ones.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := rouse.ParseDuration(string(text))
	switch {
	case err != nil:
		return err
	case v < 0:
		return rouse.Refuse("", string(text), "is negative", "give a positive duration")
	}
	*d = Duration(v)
	return nil
}

// Keep is how long the row of an ended timer is kept: a Duration, or "forever", which is negative.
type Keep time.Duration

const (
	forever     Keep = -1
	foreverText      = "forever"
)

// MarshalText writes the form that time.Duration prints, or "forever".
func (k Keep) MarshalText() ([]byte, error) {
	if k < 0 {
		return []byte(foreverText), nil
	}
	return Duration(k).MarshalText()
}

// UnmarshalText reads a text of MarshalText.
func (k *Keep) UnmarshalText(text []byte) error {
	if string(text) == foreverText {
		*k = forever
		return nil
	}
	return (*Duration)(k).UnmarshalText(text)
}
