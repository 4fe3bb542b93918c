package cli

import (
	"strings"
	"testing"
	"time"
)

// TestMoments: times count from now in the spans of rouse clock advance, with a sign or without.
func TestMoments(t *testing.T) {
	for text, want := range map[string]time.Duration{"now": 0, "0": 0, "90m": 90 * time.Minute, "+1h": time.Hour, "-24h": -24 * time.Hour,
		"+2d": 48 * time.Hour, "-1w2d": -9 * 24 * time.Hour, "+1h30m": 90 * time.Minute} {
		var m Moment
		if err := m.UnmarshalText([]byte(text)); err != nil || !m.relative || (time.Until(m.At)-want).Abs() > time.Minute {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "+", "-", "++1h", "+-1h", "-+1h", "--1h", "1h+1h", "1", "+1", "tomorrow", "2027-01-31", "+2027-01-31T09:00:00Z"} {
		var m Moment
		if err := m.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, m)
		}
	}
}

func TestStretches(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "2w3d": 17 * day, "1w2d12h": 9*day + 12*time.Hour, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"1.5d": 36 * time.Hour, "250ms": 250 * time.Millisecond, "1d250ms": day + 250*time.Millisecond, "106751d": 106751 * day,
	} {
		var s Stretch
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%s: %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "-1d", "1d-1h", "1x", "1 d", "soon", "106752d", "99999999999w", "1dd", "1d2"} {
		var s Stretch
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "span") {
			t.Errorf("%q: %v, %v", text, time.Duration(s), err)
		}
	}
}
