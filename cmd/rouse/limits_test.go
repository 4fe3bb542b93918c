package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/node"
)

func TestLimitsAreReadAndPrinted(t *testing.T) {
	var l node.Limits
	text := "https://api.example.com/ rate=2.5 burst=20 concurrency=4; stream:mail namespace=acme rate=100"
	if err := l.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := node.Limits{{Target: "https://api.example.com/", Rate: 2.5, Burst: 20, Concurrency: 4}, {Target: "stream:mail", Namespace: "acme", Rate: 100}}
	if !reflect.DeepEqual(l, want) || l.String() != text {
		t.Errorf("%+v, %q", l, l)
	}
	if err := l.UnmarshalText([]byte(" \n a: rate=1;;\n\tb: concurrency=2\n")); err != nil || !reflect.DeepEqual(l, node.Limits{{Target: "a:", Rate: 1}, {Target: "b:", Concurrency: 2}}) {
		t.Errorf("over lines: %+v, %v", l, err)
	}
	for _, wrong := range []string{"a: rate", "a: rate=fast", "a: burst=1.5", "a: b:", "a: speed=1"} {
		if err := l.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %+v", wrong, l)
		}
	}
	var _ []node.Limit = l
}

func TestSharesAreReadAndPrinted(t *testing.T) {
	var l node.Shares
	if err := l.UnmarshalText([]byte(" b=1,acme=4\n")); err != nil || !reflect.DeepEqual(l, node.Shares{"acme": 4, "b": 1}) || l.String() != "acme=4, b=1" {
		t.Errorf("%v, %v", l, err)
	}
	if err := l.UnmarshalText(nil); err != nil || l != nil || l.String() != "" {
		t.Errorf("none: %v, %v", l, err)
	}
	for _, wrong := range []string{"a", "a=", "a=much", "a=1.5", "a=1, a=2"} {
		if err := l.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %v", wrong, l)
		}
	}
}

// TestMoments: times count from now in the spans of rouse clock advance, with a sign or without.
func TestMoments(t *testing.T) {
	for text, want := range map[string]time.Duration{"now": 0, "0": 0, "90m": 90 * time.Minute, "+1h": time.Hour, "-24h": -24 * time.Hour,
		"+2d": 48 * time.Hour, "-1w2d": -9 * 24 * time.Hour, "+1h30m": 90 * time.Minute} {
		var m moment
		if err := m.UnmarshalText([]byte(text)); err != nil || !m.relative || (time.Until(m.at)-want).Abs() > time.Minute {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "+", "-", "++1h", "+-1h", "-+1h", "--1h", "1h+1h", "1", "+1", "tomorrow", "2027-01-31", "+2027-01-31T09:00:00Z"} {
		var m moment
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
		var s stretch
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%s: %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "-1d", "1d-1h", "1x", "1 d", "soon", "106752d", "99999999999w", "1dd", "1d2"} {
		var s stretch
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "span") {
			t.Errorf("%q: %v, %v", text, time.Duration(s), err)
		}
	}
}

func TestCircuitsAreReadAndPrinted(t *testing.T) {
	var l node.Circuits
	text := "https://old.example.com/ off; https://api.example.com/ namespace=acme share=0.8 deliveries=20; * window=1m0s open=5s"
	if err := l.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := node.Circuits{{Target: "https://old.example.com/", Off: true}, {Target: "https://api.example.com/", Namespace: "acme", Share: 0.8, Deliveries: 20},
		{Target: "*", Window: time.Minute, Open: 5 * time.Second}}
	if !reflect.DeepEqual(l, want) || l.String() != text {
		t.Errorf("%+v, %q", l, l)
	}
	for _, wrong := range []string{"* on", "* off=true", "* share=half", "* deliveries=1.5", "* window=30", "* open=soon", "* failures=3"} {
		if err := l.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %+v", wrong, l)
		}
	}
}
