package api

import (
	"mime"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
)

// Spec is what a client says about a timer. Members that are left out have their defaults.
type Spec struct {
	Schedule      string            `json:"schedule"`
	Timezone      string            `json:"timezone,omitzero"`
	Target        string            `json:"target"`
	Payload       jsontext.Value    `json:"payload,omitzero"`
	PayloadBase64 []byte            `json:"payload_base64,omitzero"`
	ContentType   string            `json:"content_type,omitzero"` // of the payload; default application/json, or application/octet-stream for base64
	Labels        map[string]string `json:"labels,omitzero"`
	Retry         *Retry            `json:"retry,omitzero"`
	Misfire       string            `json:"misfire,omitzero"` // latest, all or skip
	Webhook       *Webhook          `json:"webhook,omitzero"`
}

// Retry says how often an occurrence is attempted, and when again. A zero Duration stands for the default, but a jitter of
// "0s" is none.
type Retry struct {
	Attempts    uint32    `json:"attempts,omitzero"`
	Interval    Duration  `json:"interval,omitzero"`
	MaxInterval Duration  `json:"max_interval,omitzero"`
	Jitter      *Duration `json:"jitter,omitzero"`
	Timeout     Duration  `json:"timeout,omitzero"`
}

// Webhook holds what concerns webhook targets only.
type Webhook struct {
	Method     string            `json:"method,omitzero"`
	Headers    map[string]string `json:"headers,omitzero"`
	Structured bool              `json:"structured,omitzero"`
	Batch      uint32            `json:"batch,omitzero"`
	Accept     Duration          `json:"accept,omitzero"`
}

// noJitter stands for "none" among the words, where 0 is the default.
const noJitter time.Duration = -1

// SpecOf returns the JSON form of a spec. A payload whose content type is JSON, and which is JSON, is shown as it is, but for
// white space between its tokens; any other in base64.
func SpecOf(s *rouse.Spec) Spec {
	o := Spec{Schedule: s.Schedule, Timezone: s.Timezone, Target: s.Target, ContentType: s.ContentType, Labels: s.Labels}
	switch {
	case len(s.Payload) == 0:
	case isJSON(s.ContentType) && !TooDeep(s.Payload, MaxDepth-2) && jsontext.Value(s.Payload).IsValid():
		o.Payload = s.Payload
	default:
		o.PayloadBase64 = s.Payload
	}
	if s.Misfire != rouse.MisfireLatest {
		o.Misfire = s.Misfire.String()
	}
	if r := s.Retry; r != (rouse.Retry{}) {
		o.Retry = &Retry{Attempts: r.Attempts, Interval: Duration(r.Interval), MaxInterval: Duration(r.Max), Timeout: Duration(r.Timeout)}
		if r.Jitter != 0 {
			jitter := Duration(max(0, r.Jitter))
			o.Retry.Jitter = &jitter
		}
	}
	if w := s.Webhook; w.Method != "" || len(w.Headers) > 0 || w.Structured || w.Batch != 0 || w.Accept != 0 {
		o.Webhook = &Webhook{Method: w.Method, Headers: w.Headers, Structured: w.Structured, Batch: w.Batch, Accept: Duration(w.Accept)}
	}
	return o
}

// Words returns the spec in the words of rouse. It refuses, with a *rouse.Invalid, what has no meaning; whether values are
// within their bounds is for rouse.Spec.Check to say.
func (o *Spec) Words() (rouse.Spec, error) {
	s := rouse.Spec{Schedule: o.Schedule, Timezone: o.Timezone, Target: o.Target, ContentType: o.ContentType, Labels: o.Labels}
	var problems []rouse.Problem
	if o.Payload != nil && o.PayloadBase64 != nil {
		problems = append(problems, rouse.Problem{Field: "payload_base64", Wrong: "is given beside payload", Cure: "give one of them"})
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
	misfire, err := rouse.ParseMisfire(o.Misfire)
	if inv, ok := err.(*rouse.Invalid); ok {
		problems = append(problems, inv.Problems...)
	}
	s.Misfire = misfire
	if r := o.Retry; r != nil {
		s.Retry = rouse.Retry{Attempts: r.Attempts, Interval: time.Duration(r.Interval), Max: time.Duration(r.MaxInterval), Timeout: time.Duration(r.Timeout)}
		if r.Jitter != nil {
			if s.Retry.Jitter = time.Duration(*r.Jitter); s.Retry.Jitter == 0 {
				s.Retry.Jitter = noJitter
			}
		}
	}
	if w := o.Webhook; w != nil {
		s.Webhook = rouse.Webhook{Method: w.Method, Headers: w.Headers, Structured: w.Structured, Batch: w.Batch, Accept: time.Duration(w.Accept)}
	}
	if len(problems) > 0 {
		return rouse.Spec{}, &rouse.Invalid{Problems: problems}
	}
	return s, nil
}

// isJSON says whether a content type is application/json or one built on it.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
