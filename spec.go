package rouse

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Spec is a client's definition of a timer. Zero fields have the defaults that their comments name.
type Spec struct {
	Schedule string   // when: an RFC 3339 instant, "@after 90s", "@every 5m", cron and more: docs/schedules.md
	Also     []string // further schedules: due whenever any of them is
	// times taken out: a date, a range of dates or instants with "/" between, or five cron fields whose
	// minutes are meant
	Except   []string
	Timezone string // IANA name that a cron expression or calendar period is read in; empty is UTC; refused elsewhere
	DST      string // rule for local times that a clock change skips or repeats; empty is "vixie"
	Calendar CalendarRule

	Start          Instant       // no occurrence is due before; intervals begin here; 0 is none
	End            Instant       // no occurrence is due at it or after; 0 is none
	TTL            time.Duration // End, counted from creation; 0 is none
	MaxOccurrences uint64        // the schedule ends after so many occurrences, however they ended; 0 is no limit
	Jitter         time.Duration // each occurrence is sent later than due by a part of it that is the same every time

	Target      string // where: a URL whose scheme names the sink
	Payload     []byte // delivered with each fire
	ContentType string // of the payload; empty with a payload is application/octet-stream
	Labels      map[string]string

	Retry Retry
	Limit string // the named limit of its namespace that its occurrences count for; empty is none
	// of a limit per key: which of its keys they count for, such as a customer. References to the timer are
	// replaced when it is written: {{name}}, {{label:NAME}}, {{payload:/MEMBER}}
	LimitKey string
	Misfire  Misfire
	Within   time.Duration // of MisfireWithin
	Overlap  Overlap
	Deadline time.Duration // an attempt does not start when it would be later than this; 0 is none
	Priority Priority
	Keep     time.Duration // how long the row is kept when the schedule has ended; 0 is not at all, negative is for ever
	Webhook  Webhook

	// PauseAfter pauses the timer after this number of consecutive dead letters, until a client resumes it; 0
	// is never. Skipped and missed occurrences do not count, and do not interrupt the sequence.
	PauseAfter uint32

	// Expect is by when it has to succeed, and the target of notices if it does not.
	Expect Expect

	Notify    Notify // who is told of its failures
	OnSuccess string // a target that gets the answer to each occurrence that fires
	OnFailure string // a target that gets the last answer to each occurrence that becomes a dead letter

	// KeepAnswer is how many bytes of the last answer to an occurrence its record has, at most MaxKeptAnswer;
	// 0 is none.
	KeepAnswer uint32

	// Criticality decides which timers a store serves first when it must choose, from 0 (the default) to
	// MaxCriticality. It has no effect in normal operation: a store that lost its due index finds higher ones
	// first, and can be limited to timers of at least some criticality until the index is back.
	Criticality uint8
}

// Webhook holds the fields for webhook targets only.
type Webhook struct {
	Method     string            // default POST
	Headers    map[string]string // sent with each request
	Structured bool              // CloudEvents structured mode instead of binary mode
	// up to so many fires to one URL in one request (CloudEvents batch); 0 and 1 are single requests
	Batch  uint32
	Accept time.Duration // how long after a 202 the receiver may take to report; default 10 min
	// statuses that are retried though they are permanent failures otherwise: "404", "3xx", "4xx"
	RetryOn []string
}

// Any reports whether a member is set.
func (w *Webhook) Any() bool {
	return w.Method != "" || len(w.Headers) > 0 || w.Structured || w.Batch != 0 || w.Accept != 0 || len(w.RetryOn) > 0
}

// MaxRetryOn is the largest number of entries of a Webhook.RetryOn.
const MaxRetryOn = 16

// Retries reports whether a status that is a permanent failure otherwise is to be retried. 410 is not: it
// ends the timer.
func (w *Webhook) Retries(code int) bool {
	class, status := strconv.Itoa(code/100)+"xx", strconv.Itoa(code)
	return len(w.RetryOn) > 0 && slices.ContainsFunc(w.RetryOn, func(s string) bool { return s == status || s == class })
}

// DefaultAccept is how long a receiver that answered 202 may take if the timer does not set it.
const DefaultAccept = 10 * time.Minute

// Recurring reports whether the schedule can have more than one occurrence.
func (s *Spec) Recurring() bool {
	return len(s.Also) > 0 || s.Schedule != "" && !isOneShot(s.Schedule)
}

// HasPassed reports whether no time of the schedule is left at now, although it had some: the timer would
// fire immediately, or not at all. times are those of the schedule.
func (s *Spec) HasPassed(times Schedule, now Instant) bool {
	switch {
	case s.End != 0 && s.End <= now:
		return true
	case len(s.Calendar.Only) > 0:
		return false // their days may be on a server only
	}
	from := now
	if !s.Recurring() {
		from = 0
	}
	due, ok := times.Next(from)
	if ok {
		return due <= now
	}
	_, ever := times.Next(0)
	return ever || s.End != 0 // an interval from now on has no time before its end
}

// isOneShot distinguishes the forms by their first bytes: "@after …", "aws:at(…)", or an RFC 3339 instant,
// "YYYY-…". No number in a cron expression has four digits.
func isOneShot(s string) bool {
	if strings.HasPrefix(s, "@after ") || strings.HasPrefix(s, "aws:at(") {
		return true
	}
	if len(s) < 5 || s[4] != '-' {
		return false
	}
	for _, c := range []byte(s[:4]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Plain reports whether Schedule and Timezone alone decide when the timer is due.
func (s *Spec) Plain() bool {
	return len(s.Also) == 0 && len(s.Except) == 0 && s.DST == "" && s.Start == 0 && s.End == 0 && s.TTL == 0 &&
		len(s.Calendar.Off) == 0 && len(s.Calendar.Only) == 0
}

// SetWhen copies everything that decides when from another spec, and nothing else.
func (s *Spec) SetWhen(when *Spec) {
	s.Schedule, s.Also, s.Except, s.Timezone, s.DST, s.Calendar = when.Schedule, when.Also, when.Except, when.Timezone,
		when.DST, when.Calendar
	s.Start, s.End, s.TTL, s.MaxOccurrences, s.Jitter = when.Start, when.End, when.TTL, when.MaxOccurrences, when.Jitter
	if !s.Recurring() {
		// they have no meaning for one occurrence
		s.Overlap, s.PauseAfter, s.Expect, s.Notify.After = OverlapDefault, 0, Expect{}, 0
		s.Notify.Events = slices.DeleteFunc(slices.Clone(s.Notify.Events), func(n string) bool { return n == NoticeOverdue.String() })
	}
}
