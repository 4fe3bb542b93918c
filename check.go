package rouse

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits on what one timer may hold, in bytes unless named otherwise.
const (
	MaxNamespace   = 64
	MaxName        = 256
	MaxSchedule    = 512
	MaxTarget      = 2048
	MaxPayload     = 256 << 10
	MaxContentType = 128
	MaxLabels      = 32 // labels
	MaxLabelKey    = 64
	MaxLabelValue  = 256
	MaxHeaders     = 32 // headers
	MaxHeaderName  = 64
	MaxHeaderValue = 1024
	MaxAttempts    = 1000 // attempts
	MaxBatch       = 5000 // timers in one call
)

// CheckNamespace refuses what cannot be a namespace: 1 to 64 characters of a-z, 0-9, '-', '_' and '.', starting with a
// letter or digit.
func CheckNamespace(ns string) error {
	ok := ns != "" && len(ns) <= MaxNamespace
	for i, c := range []byte(ns) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || i > 0 && (c == '-' || c == '_' || c == '.'))
	}
	if !ok {
		return Refuse("namespace", ns, "is no namespace", "use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	return nil
}

// CheckName refuses what cannot be a timer's name: 1 to 256 bytes of printable UTF-8, without a space at either end.
func CheckName(name string) error {
	if wrong := textFault(name, MaxName); name == "" || wrong != "" || strings.TrimSpace(name) != name {
		if wrong == "" {
			wrong = "is empty, or begins or ends with a space"
		}
		return Refuse("name", name, wrong, fmt.Sprintf("use 1 to %d bytes of printable UTF-8", MaxName))
	}
	return nil
}

// textFault says what is wrong with a text that should be printable UTF-8 of at most limit bytes, or nothing.
func textFault(s string, limit int) string {
	if len(s) > limit {
		return fmt.Sprintf("has %d bytes, more than %d", len(s), limit)
	}
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\uFFFD' || unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Sprintf("contains the control character %U", r)
		}
	}
	return ""
}

// Check refuses, with an *Invalid that names every problem, a spec whose sizes and values are out of bounds. Whether its
// schedule and target can be understood is for others to say.
func (s *Spec) Check() error {
	var ps []Problem
	add := func(field, value, wrong, cure string) {
		ps = append(ps, Problem{field, Shorten(value, 128), wrong, cure})
	}
	text := func(field, value string, limit int, required bool) {
		switch wrong := textFault(value, limit); {
		case wrong != "":
			add(field, value, wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", limit))
		case required && value == "":
			add(field, "", "is missing", "every timer needs one")
		}
	}
	text("schedule", s.Schedule, MaxSchedule, true)
	text("timezone", s.Timezone, 64, false)
	text("target", s.Target, MaxTarget, true)
	text("content_type", s.ContentType, MaxContentType, false)
	if len(s.Payload) > MaxPayload {
		add("payload", "", fmt.Sprintf("has %d bytes", len(s.Payload)), fmt.Sprintf("use at most %d; keep what is larger elsewhere and send its address", MaxPayload))
	}
	if s.ContentType != "" && !strings.Contains(s.ContentType, "/") {
		add("content_type", s.ContentType, "is no media type", "give one such as application/json")
	}
	if len(s.Labels) > MaxLabels {
		add("labels", "", fmt.Sprintf("are %d", len(s.Labels)), fmt.Sprintf("use at most %d", MaxLabels))
	} else if len(s.Labels) > 0 {
		for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
			if wrong := textFault(k, MaxLabelKey); k == "" || wrong != "" || strings.ContainsAny(k, "=,! ") {
				add("labels", k, "is no label name", fmt.Sprintf("use 1 to %d bytes of printable UTF-8 without '=', ',', '!' and space", MaxLabelKey))
			}
			text("labels."+k, s.Labels[k], MaxLabelValue, false)
		}
	}
	s.Retry.check(add)
	s.Webhook.check(add, text)
	if len(ps) > 0 {
		return &Invalid{ps}
	}
	return nil
}

func (r *Retry) check(add func(field, value, wrong, cure string)) {
	if r.Attempts > MaxAttempts {
		add("retry.attempts", fmt.Sprint(r.Attempts), "is too many", fmt.Sprintf("use at most %d", MaxAttempts))
	}
	span := func(field string, d, least, most time.Duration) {
		if d != 0 && (d < least || d > most) {
			add(field, d.String(), "is out of bounds", fmt.Sprintf("use %v to %v", least, most))
		}
	}
	span("retry.interval", r.Interval, time.Millisecond, 24*time.Hour)
	span("retry.max_interval", r.Max, time.Millisecond, 7*24*time.Hour)
	if r.Jitter >= 0 {
		span("retry.jitter", r.Jitter, time.Millisecond, 24*time.Hour)
	}
	span("retry.timeout", r.Timeout, 100*time.Millisecond, time.Hour)
	if e := r.Effective(); e.Max < e.Interval {
		add("retry.max_interval", e.Max.String(), "is less than retry.interval, "+e.Interval.String(), "make it at least as long")
	}
}

func (w *Webhook) check(add func(field, value, wrong, cure string), text func(field, value string, limit int, required bool)) {
	switch w.Method {
	case "", "POST", "PUT", "PATCH", "GET", "DELETE":
	default:
		add("webhook.method", w.Method, "is not offered", "use POST, PUT, PATCH, GET or DELETE")
	}
	if len(w.Headers) > MaxHeaders {
		add("webhook.headers", "", fmt.Sprintf("are %d", len(w.Headers)), fmt.Sprintf("use at most %d", MaxHeaders))
	} else if len(w.Headers) > 0 {
		for _, k := range slices.Sorted(maps.Keys(w.Headers)) {
			text("webhook.headers."+k, w.Headers[k], MaxHeaderValue, false)
		}
	}
	if w.Batch > 1000 {
		add("webhook.batch", fmt.Sprint(w.Batch), "is too many", "use at most 1000")
	}
	if w.Batch > 1 && (w.Method == "GET" || w.Method == "DELETE") {
		add("webhook.batch", fmt.Sprint(w.Batch), "needs a request with a body", "use POST, PUT or PATCH")
	}
	if w.Accept != 0 && (w.Accept < time.Second || w.Accept > 7*24*time.Hour) {
		add("webhook.accept", w.Accept.String(), "is out of bounds", "use 1s to 168h0m0s")
	}
}
