package rouse

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits on the contents of one timer, in bytes unless named otherwise.
const (
	MaxNamespace   = 64
	MaxName        = 256
	MaxSchedule    = 512
	MaxTarget      = 2048
	MaxPayload     = 256 << 10
	MaxJob         = 2 << 20 // of a payload whose target begins with "dapr:": the limit of Dapr's own scheduler
	MaxContentType = 128
	MaxLabels      = 32 // labels
	MaxLabelKey    = 64
	MaxLabelValue  = 256
	MaxHeaders     = 32 // headers
	MaxHeaderName  = 64
	MaxHeaderValue = 1024
	MaxAttempts    = 1000 // attempts
	MaxPauseAfter  = 1000 // occurrences that end as dead letters in a row
	MaxAlso        = 16   // further schedules
	MaxExcept      = 64   // exceptions
	MaxOccurrences = 1_000_000
	MaxBatch       = 5000 // timers in one call
	MaxCriticality = 9    // the highest Spec.Criticality
)

// Check refuses, with an *Invalid that names every problem, a spec whose sizes and values are out of bounds.
// It does not check whether the schedule and the target can be parsed.
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
	text("schedule", replaceTabs(s.Schedule), MaxSchedule, true)
	text("timezone", s.Timezone, 64, false)
	text("target", s.Target, MaxTarget, true)
	if segment := dotSegment(s.Target); segment != "" {
		add("target", s.Target, fmt.Sprintf("has the segment %q in its path, which receivers resolve to another path",
			Shorten(segment, 32)),
			"write the path that is meant, without segments . and .., also escaped ones")
	}
	text("content_type", s.ContentType, MaxContentType, false)
	most := MaxPayload
	if strings.HasPrefix(s.Target, "dapr:") {
		most = MaxJob
	}
	if len(s.Payload) > most {
		add("payload", "", fmt.Sprintf("has %d bytes", len(s.Payload)),
			fmt.Sprintf("use at most %d; keep what is larger elsewhere and send its address", most))
	}
	if s.ContentType != "" && !strings.Contains(s.ContentType, "/") {
		add("content_type", s.ContentType, "is no media type", "give one such as application/json")
	}
	checkLabels(s.Labels, add)
	s.checkWhen(add, text)
	s.checkPolicies(add)
	s.checkLimit(add, text)
	s.checkReported(add)
	s.Retry.checkRetry(add)
	s.Webhook.checkWebhook(add)
	if len(ps) > 0 {
		return &Invalid{ps}
	}
	return nil
}

// plainPath takes the escapes out of a path, as far as they matter to dotSegment.
var plainPath = strings.NewReplacer(`\`, "/", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%2e", ".", "%2E", ".",
	"%3b", ";", "%3B", ";")

// checkLabels refuses labels that are too many or out of bounds.
func checkLabels(labels map[string]string, add func(field, value, wrong, cure string)) {
	if len(labels) == 0 {
		return
	}
	if len(labels) > MaxLabels {
		add("labels", "", fmt.Sprintf("are %d", len(labels)), fmt.Sprintf("use at most %d", MaxLabels))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if labelFault(k) {
			add("labels", k, "is no label name",
				fmt.Sprintf("use 1 to %d bytes of printable UTF-8 without '=', ',', '!' and space", MaxLabelKey))
		}
		if wrong := textFault(labels[k], MaxLabelValue); wrong != "" {
			add("labels."+k, labels[k], wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", MaxLabelValue))
		}
	}
}

// dotSegment returns a segment of the path of a URL that means the same folder or the one above it, escaped
// once or more, or with a parameter; "" if there is none. A receiver or a proxy resolves it, so that the fire
// would be sent to a path outside of the prefixes that scopes of keys compare.
func dotSegment(target string) string {
	_, rest, _ := strings.Cut(target, ":")
	rest, isURL := strings.CutPrefix(rest, "//")
	begin := strings.IndexAny(rest, `/\?#`)
	if !isURL || begin < 0 {
		return ""
	}
	path := rest[begin:]
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if !strings.ContainsAny(path, ".%") {
		return ""
	}
	for strings.Contains(path, "%25") {
		path = strings.ReplaceAll(path, "%25", "%")
	}
	for segment := range strings.SplitSeq(plainPath.Replace(path), "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return segment
		}
	}
	return ""
}

// replaceTabs returns a schedule with spaces in place of the tabs between its fields, which lines of a
// crontab may have.
func replaceTabs(schedule string) string { return strings.ReplaceAll(schedule, "\t", " ") }

// spanChecker returns a check that a duration which is set lies within bounds.
func spanChecker(add func(field, value, wrong, cure string)) func(field string, d, least, most time.Duration) {
	return func(field string, d, least, most time.Duration) {
		switch {
		case d < 0:
			add(field, d.String(), "is negative", "give a positive duration")
		case d != 0 && (d < least || d > most):
			add(field, d.String(), "is out of bounds", fmt.Sprintf("use %v to %v", least, most))
		}
	}
}

const year = 366 * 24 * time.Hour

// checkWhen checks the fields that decide when a timer is due, but does not parse schedules.
func (s *Spec) checkWhen(add func(field, value, wrong, cure string),
	text func(field, value string, limit int, required bool)) {
	span := spanChecker(add)
	if len(s.Also) > MaxAlso {
		add("also", "", fmt.Sprintf("are %d", len(s.Also)), fmt.Sprintf("use at most %d", MaxAlso))
	}
	for i, a := range s.Also[:min(len(s.Also), MaxAlso)] {
		text(fmt.Sprintf("also[%d]", i), replaceTabs(a), MaxSchedule, true)
	}
	if len(s.Except) > MaxExcept {
		add("except", "", fmt.Sprintf("are %d", len(s.Except)), fmt.Sprintf("use at most %d", MaxExcept))
	}
	for i, a := range s.Except[:min(len(s.Except), MaxExcept)] {
		text(fmt.Sprintf("except[%d]", i), replaceTabs(a), MaxSchedule, true)
	}
	text("dst", s.DST, 64, false)
	for _, at := range [...]struct {
		field string
		at    Instant
	}{{"start", s.Start}, {"end", s.End}} {
		if at.at != 0 && (at.at < MinInstant || at.at > MaxInstant) {
			add(at.field, at.at.String(), outside, outsideCure)
		}
	}
	switch {
	case s.End != 0 && s.TTL != 0:
		add("ttl", s.TTL.String(), "and end are both given", "give one of them")
	case s.End != 0 && s.Start != 0 && s.End <= s.Start:
		add("end", s.End.String(), "is not after start, "+s.Start.String(), "give a later end")
	}
	span("ttl", s.TTL, time.Millisecond, 200*year)
	if s.MaxOccurrences > MaxOccurrences {
		add("max_occurrences", fmt.Sprint(s.MaxOccurrences), "is too many",
			fmt.Sprintf("use at most %d, or end", MaxOccurrences))
	}
	span("jitter", s.Jitter, time.Millisecond, 31*24*time.Hour)
	names := 0
	for _, list := range [...]struct {
		field string
		names []string
	}{{"calendar.off", s.Calendar.Off}, {"calendar.only", s.Calendar.Only}} {
		for i, name := range list.names {
			if names++; names > MaxCalendars {
				add(list.field, "", "names too many calendars", fmt.Sprintf("use at most %d in all", MaxCalendars))
				break
			}
			if err := CheckCalendarName(fmt.Sprintf("%s[%d]", list.field, i), name); err != nil {
				ps := err.(*Invalid).Problems[0]
				add(ps.Field, ps.Value, ps.Wrong, ps.Cure)
			}
		}
	}
	if names == 0 && s.Calendar.Shift != ShiftSkip {
		add("calendar.shift", s.Calendar.Shift.String(), "has no calendar to use",
			`name one in calendar.off, such as "weekends"`)
	}
}

// checkPolicies validates the misfire, overlap and similar policies.
func (s *Spec) checkPolicies(add func(field, value, wrong, cure string)) {
	span := spanChecker(add)
	if s.Misfire == MisfireWithin {
		if s.Within < time.Second || s.Within > MaxWithin {
			add("misfire", s.MisfireText(), "is out of bounds", fmt.Sprintf("use within 1s to %v", MaxWithin))
		}
	} else if s.Within != 0 {
		add("misfire", s.Misfire.String(), "has no duration",
			`write "within `+s.Within.String()+`", or leave the duration out`)
	}
	span("deadline", s.Deadline, 100*time.Millisecond, year)
	if s.Overlap != OverlapDefault && !s.Recurring() {
		add("overlap", s.Overlap.String(), "does not go with a schedule of one occurrence", "leave it out")
	}
	s.checkPauseAfter(add)
	s.checkExpect(add)
	s.checkNotify(add)
	if s.KeepAnswer > MaxKeptAnswer {
		add("keep_answer", fmt.Sprint(s.KeepAnswer), "is too large", fmt.Sprintf("use at most %d bytes", MaxKeptAnswer))
	}
	if _, err := ParseCriticality(uint64(s.Criticality)); err != nil {
		add("criticality", fmt.Sprint(s.Criticality), criticalityFault, criticalityCure)
	}
	if s.Keep > 0 {
		span("keep", s.Keep, time.Millisecond, 20*year)
	}
}

// checkReported refuses fields that have no meaning for checks.
func (s *Spec) checkReported(add func(field, value, wrong, cure string)) {
	for _, to := range s.NoticeTargets() {
		if to.Target == CheckTarget {
			add(to.Field, to.Target, "is never sent anything", "give another target, such as a URL")
		}
	}
	if !s.IsCheck() {
		return
	}
	switch {
	case s.Schedule != "" && !s.Recurring():
		add("schedule", s.Schedule, "has one occurrence, and a check is expected to report again and again",
			"give a recurring one, such as @every 24h")
	case !s.Expect.Any():
		add("expect", "", "is missing: a check is never overdue without it",
			"give grace, how late a report may be, or every, how long after the last success the next one has to come")
	}
	for _, f := range [...]struct {
		field string
		set   bool
	}{{"payload", len(s.Payload) > 0}, {"content_type", s.ContentType != ""}, {"end", s.End != 0}, {"ttl", s.TTL != 0},
		{"max_occurrences", s.MaxOccurrences != 0}, {"jitter", s.Jitter != 0}, {"retry", s.Retry != Retry{}},
		{"limit", s.Limit != ""}, {"misfire", s.Misfire != MisfireLatest}, {"overlap", s.Overlap != OverlapDefault},
		{"deadline", s.Deadline != 0}, {"priority", s.Priority != 0}, {"keep", s.Keep != 0}, {"webhook", s.Webhook.Any()},
		{"pause_after", s.PauseAfter != 0}, {"notify.late", s.Notify.Late != 0}, {"notify.after", s.Notify.After > 1}} {
		if f.set {
			add(f.field, "", "has no meaning for a check, which is never sent", "leave it out")
		}
	}
}

func (s *Spec) checkPauseAfter(add func(field, value, wrong, cure string)) {
	switch n := fmt.Sprint(s.PauseAfter); {
	case s.PauseAfter > MaxPauseAfter:
		add("pause_after", n, "is too many", fmt.Sprintf("use at most %d", MaxPauseAfter))
	case s.PauseAfter != 0 && !s.Recurring():
		add("pause_after", n, "does not go with a schedule of one occurrence", "leave it out")
	case s.PauseAfter != 0 && s.Overlap == OverlapAllow:
		add("pause_after", n, "does not go with overlap: allow, whose occurrences end in no order",
			"use overlap wait or skip, or leave it out")
	}
}

var criticalityFault, criticalityCure = "is out of bounds",
	fmt.Sprintf("use 0, for ordinary timers, to %d", MaxCriticality)

// ParseCriticality reads a Spec.Criticality, and refuses one that is too high.
func ParseCriticality(n uint64) (uint8, error) {
	if n > MaxCriticality {
		return 0, Refuse("criticality", fmt.Sprint(n), criticalityFault, criticalityCure)
	}
	return uint8(n), nil
}

func (r *Retry) checkRetry(add func(field, value, wrong, cure string)) {
	if r.Attempts > MaxAttempts {
		add("retry.attempts", fmt.Sprint(r.Attempts), "is too many", fmt.Sprintf("use at most %d", MaxAttempts))
	}
	span := spanChecker(add)
	span("retry.interval", r.Interval, time.Millisecond, 24*time.Hour)
	span("retry.max_interval", r.Max, time.Millisecond, 7*24*time.Hour)
	if r.Jitter >= 0 {
		span("retry.jitter", r.Jitter, time.Millisecond, 24*time.Hour)
	}
	span("retry.timeout", r.Timeout, 100*time.Millisecond, time.Hour)
	span("retry.give_up", r.GiveUp, time.Millisecond, 31*24*time.Hour)
	if r.Factor != 0 && !(r.Factor >= 1 && r.Factor <= 100) {
		add("retry.factor", fmt.Sprint(r.Factor), "is out of bounds", "use 1 to 100")
	}
	if e := r.Effective(); e.Max < e.Interval {
		add("retry.max_interval", e.Max.String(), "is less than retry.interval, "+e.Interval.String(),
			"make it at least as long")
	}
}

func (w *Webhook) checkWebhook(add func(field, value, wrong, cure string)) {
	switch w.Method {
	case "", "POST", "PUT", "PATCH", "GET", "DELETE":
	default:
		add("webhook.method", w.Method, "is not offered", "use POST, PUT, PATCH, GET or DELETE")
	}
	if len(w.Headers) > MaxHeaders {
		add("webhook.headers", "", fmt.Sprintf("are %d", len(w.Headers)), fmt.Sprintf("use at most %d", MaxHeaders))
	} else if len(w.Headers) > 0 {
		w.checkHeaders(add)
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
	if len(w.RetryOn) > MaxRetryOn {
		add("webhook.retry_on", "", fmt.Sprintf("are %d", len(w.RetryOn)),
			fmt.Sprintf("use at most %d, such as 4xx", MaxRetryOn))
		return
	}
	for i, status := range w.RetryOn {
		field := fmt.Sprintf("webhook.retry_on[%d]", i)
		n, _ := strconv.Atoi(status)
		switch {
		case status == "3xx", status == "4xx":
		case status == "":
			add(field, "", `"" is no status`, retryOnCure)
		case strconv.Itoa(n) != status || n < 300 || n > 499 || n == 410:
			add(field, status, "is no permanent failure of a callback", retryOnCure)
		case n == 408 || n == 425 || n == 429:
			add(field, status, "is no permanent failure of a callback: it is retried anyway", "leave it out")
		}
	}
}

// retryOnCure is the cure of an entry of Webhook.RetryOn.
const retryOnCure = "use 3xx, 4xx, or a status from 300 to 499 other than 410, which ends the timer"
