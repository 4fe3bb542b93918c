package api

import (
	"mime"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
)

// When is the part of a spec that decides when it is due.
type When struct {
	// an RFC 3339 time, "@after 90s", "@every 5m", a cron expression and more; docs/schedules.md
	Schedule string `json:"schedule" schema:"maxLength=512"`
	// further schedules: due whenever any of them is
	Also []string `json:"also,omitempty" schema:"maxItems=16,items.maxLength=512"`
	// times taken out: dates, ranges with "/", cron expressions
	Except []string `json:"except,omitempty" schema:"maxItems=64,items.maxLength=512"`
	// IANA name that a cron expression is read in; default UTC
	Timezone string `json:"timezone,omitzero" schema:"maxLength=64"`
	// what becomes of local times that a clock change skips or repeats
	DST      string        `json:"dst,omitzero" schema:"maxLength=64"`
	Calendar *CalendarRule `json:"calendar,omitzero"`
	Start    Time          `json:"start,omitzero"` // no occurrence is due before
	// no occurrence is due at it or after
	End Time     `json:"end,omitzero"`
	TTL Duration `json:"ttl,omitzero"` // end, counted from creation
	// the schedule ends after so many
	MaxOccurrences uint64 `json:"max_occurrences,omitzero" schema:"maximum=1000000"`
	// each occurrence is sent later by a part of it, the same every time
	Jitter Duration `json:"jitter,omitzero"`
}

// CalendarRule is which days count.
type CalendarRule struct {
	Off  []string `json:"off,omitempty"`  // names of calendars whose days do not count
	Only []string `json:"only,omitempty"` // names of calendars: only their days count
	// what becomes of an occurrence on another day
	Shift string `json:"shift,omitzero" schema:"enum=skip|next|previous,default=skip"`
}

// Spec is what a client defines about a timer. Members that are left out have their defaults.
type Spec struct {
	When
	// a URL; its scheme selects how fires are delivered
	Target        string         `json:"target" schema:"maxLength=2048"`
	Payload       jsontext.Value `json:"payload,omitzero"`        // any JSON value; it is delivered byte for byte
	PayloadBase64 []byte         `json:"payload_base64,omitzero"` // any bytes in place of payload
	// of the payload; default application/json, or application/octet-stream for base64
	ContentType string            `json:"content_type,omitzero" schema:"maxLength=128"`
	Labels      map[string]string `json:"labels,omitzero" schema:"maxProperties=32,values.maxLength=256"`
	Retry       *Retry            `json:"retry,omitzero"`
	// latest (the default), all, skip or "within 1h"
	Misfire string `json:"misfire,omitzero" schema:"default=latest"`
	// what becomes of an occurrence that comes due while an earlier one is in progress; default wait
	Overlap  string   `json:"overlap,omitzero" schema:"enum=wait|skip|allow"`
	Deadline Duration `json:"deadline,omitzero"` // an attempt does not start when it would be later than this
	// low, normal (the default) or high
	Priority string `json:"priority,omitzero" schema:"enum=low|normal|high,default=normal"`
	// how long the row is kept when the schedule has ended: a duration, or "forever"; default not at all
	Keep    Keep     `json:"keep,omitzero" schema:"examples=24h|forever"`
	Webhook *Webhook `json:"webhook,omitzero"`
	// the named limit of the namespace that its occurrences count for
	Limit string `json:"limit,omitzero" schema:"maxLength=64"`
	// of a limit per key: the key that they count for, such as a customer; {{name}}, {{label:NAME}} and
	// {{payload:/MEMBER}} in it are taken from the timer
	LimitKey string `json:"limit_key,omitzero" schema:"maxLength=128"`
	// a store that must choose which timers to serve, because its due index is gone, serves those of higher
	// criticality first
	Criticality uint32 `json:"criticality,omitzero" schema:"maximum=9"`
	// pause the timer when so many occurrences in a row have ended as dead letters; 0 is never. For schedules
	// of several occurrences whose overlap is not allow
	PauseAfter uint32 `json:"pause_after,omitzero" schema:"maximum=1000"`
	// by when the timer has to succeed, and who is told if it does not; for schedules of several occurrences
	Expect *Expect `json:"expect,omitzero"`
	Notify *Notify `json:"notify,omitzero"` // who is told of its failures
	// a target that gets the answer to each occurrence that fires
	OnSuccess string `json:"on_success,omitzero" schema:"maxLength=2048"`
	// a target that gets the last answer to each occurrence that becomes a dead letter
	OnFailure string `json:"on_failure,omitzero" schema:"maxLength=2048"`
	// how many bytes of the last answer to an occurrence its record has; 0 is none
	KeepAnswer uint32 `json:"keep_answer,omitzero" schema:"maximum=16384"`
}

// Notify is the target of notices about a timer, and the events that it is told of.
type Notify struct {
	Target string `json:"target,omitzero" schema:"maxLength=2048"`
	// the events; none: all that can happen, late only with the member late
	Events []string `json:"events,omitempty" schema:"maxItems=6,items.enum=overdue|recovered|dead|missed|late|paused"`
	// of late: an occurrence began later than this after it was due
	Late Duration `json:"late,omitzero"`
	// of dead: from this number of dead letters in a row on
	After uint32 `json:"after,omitzero" schema:"maximum=1000"`
	// at most one notice in so long a time, with the number of events
	Every Duration `json:"every,omitzero"`
	// of the payload; left out, it has all members
	Format string `json:"format,omitzero" schema:"enum=slack|discord|teams"`
}

// Expect is by when a recurring timer has to succeed: an occurrence of it has to end as fired.
type Expect struct {
	// how long after the last success the next one has to come; without it each occurrence has to succeed
	Every Duration `json:"every,omitzero"`
	Grace Duration `json:"grace,omitzero"` // how much later than that a success may come
	// a target that is told when the timer is overdue, and when it has recovered; left out: that of notify
	Notify string `json:"notify,omitzero" schema:"maxLength=2048"`
}

// Retry sets how often an occurrence is attempted, and when again. A zero Duration stands for the default,
// but a jitter of "0s" is none.
type Retry struct {
	Attempts    uint32    `json:"attempts,omitzero" schema:"maximum=1000"` // in all; default 8
	Interval    Duration  `json:"interval,omitzero"`
	Factor      float64   `json:"factor,omitzero" schema:"minimum=1,maximum=100,default=2"` // by which the interval grows
	MaxInterval Duration  `json:"max_interval,omitzero"`
	Jitter      *Duration `json:"jitter,omitzero"`
	Timeout     Duration  `json:"timeout,omitzero"`
	GiveUp      Duration  `json:"give_up,omitzero"` // no attempt starts later than this after the first one
}

// Webhook holds what concerns webhook targets only.
type Webhook struct {
	Method     string            `json:"method,omitzero" schema:"enum=POST|PUT|PATCH|GET|DELETE,default=POST"`
	Headers    map[string]string `json:"headers,omitzero" schema:"maxProperties=32,values.maxLength=1024"`
	Structured bool              `json:"structured,omitzero"`                  // CloudEvents structured mode
	Batch      uint32            `json:"batch,omitzero" schema:"maximum=1000"` // up to so many fires in one request
	Accept     Duration          `json:"accept,omitzero"`
	// permanent failures that are retried: statuses such as 404, or 3xx, 4xx
	RetryOn []string `json:"retry_on,omitempty" schema:"maxItems=16"`
}

const (
	// noJitter stands for "none" among the words, where 0 is the default.
	noJitter time.Duration = -1

	// payloadDepth is how deep a payload lies in the body of an import, {"timers": [{"payload": …}]}: one
	// that is shown as JSON can be sent again.
	payloadDepth = 3
)

// The members of specs are translated in forms.gen.go, which "make generate" makes. Here are the few whose
// JSON differs in more than its type.

// Parse returns a spec of which only the part that decides when it is due is set. It refuses members without
// a meaning with a *rouse.Invalid.
func (o *When) Parse() (rouse.Spec, error) {
	var s rouse.Spec
	var faults rouse.Invalid
	o.to(&s, &faults)
	return s, faults.Err()
}

// SpecOf returns the JSON form of a spec. A payload whose content type is JSON, and which is JSON, is shown
// as it is, but for white space between its tokens; any other in base64.
func SpecOf(s *rouse.Spec) Spec { return newSpec(s) }

// Parse returns the spec in the words of rouse. It refuses members without a meaning with a *rouse.Invalid,
// and then returns the rest; rouse.Spec.Check checks whether values are within their bounds.
func (o *Spec) Parse() (rouse.Spec, error) {
	var s rouse.Spec
	var faults rouse.Invalid
	o.to(&s, &faults)
	return s, faults.Err()
}

func (o *Spec) setOwnFields(s *rouse.Spec) {
	o.ContentType = s.ContentType
	o.Payload, o.PayloadBase64 = PayloadOf(s.ContentType, s.Payload)
	if s.Misfire != rouse.MisfireLatest {
		o.Misfire = s.MisfireText()
	}
}

// PayloadOf returns the form in which a payload is shown: as JSON if it is, in base64 if not.
func PayloadOf(contentType string, payload []byte) (shown jsontext.Value, base64 []byte) {
	switch {
	case len(payload) == 0:
		return nil, nil
	case isJSON(contentType) && !TooDeep(payload, MaxDepth-payloadDepth) && jsontext.Value(payload).IsValid():
		return payload, nil
	}
	return nil, payload
}

func (o *Spec) applyOwnFields(s *rouse.Spec, f *rouse.Invalid) {
	s.ContentType = o.ContentType
	if o.Payload != nil && o.PayloadBase64 != nil {
		f.Add(rouse.Refuse("payload_base64", "", "is given in addition to payload", "give one of them"))
	}
	switch {
	case o.Payload != nil:
		s.Payload = o.Payload
		if s.ContentType == "" {
			s.ContentType = "application/json"
		}
	case o.PayloadBase64 != nil:
		s.Payload = o.PayloadBase64
	}
	var err error
	s.Misfire, s.Within, err = rouse.ParseMisfire(o.Misfire)
	f.Add(err)
}

func (o *Retry) setOwnFields(r *rouse.Retry) {
	if r.Jitter != 0 {
		jitter := Duration(max(0, r.Jitter))
		o.Jitter = &jitter
	}
}

func (o *Retry) applyOwnFields(r *rouse.Retry, _ *rouse.Invalid) {
	if o.Jitter != nil {
		if r.Jitter = time.Duration(*o.Jitter); r.Jitter == 0 {
			r.Jitter = noJitter
		}
	}
}

// isJSON reports whether a content type is application/json or one built on it.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
