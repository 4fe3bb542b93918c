package foreign

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var cloudSchedulerNotes = []string{
	"Cloud Scheduler skips an occurrence that comes due while an earlier one is retried; so do these timers: overlap is skip.",
	"Cloud Scheduler sends its own headers, X-CloudScheduler-…; rouse sends those of CloudEvents, and signs each request.",
}

// cloudJob is what "gcloud scheduler jobs describe --format json" prints, and list an array of.
type cloudJob struct {
	Name            string
	Schedule        string
	TimeZone        string
	State           string
	AttemptDeadline googleSpan
	HTTPTarget      *struct {
		URI        string
		HTTPMethod string
		Headers    map[string]string
		Body       []byte
		OauthToken *struct{ ServiceAccountEmail string }
		OidcToken  *struct{ ServiceAccountEmail string }
	}
	PubsubTarget *struct {
		TopicName  string
		Data       []byte
		Attributes map[string]string
	}
	AppEngineHTTPTarget *struct {
		RelativeURI string
		Body        []byte
	}
	RetryConfig struct {
		RetryCount         int
		MaxRetryDuration   googleSpan
		MinBackoffDuration googleSpan
		MaxBackoffDuration googleSpan
		MaxDoublings       *int
	}
}

// googleSpan is a duration such as "3.5s".
type googleSpan struct{ time.Duration }

func (d *googleSpan) UnmarshalText(text []byte) (err error) {
	d.Duration, err = rouse.ParseDuration(string(text))
	return err
}

func readCloudScheduler(in []byte, o *Options) ([]Entry, error) {
	jobs, err := objects[cloudJob](in, "what gcloud scheduler jobs list --format json prints")
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(jobs))
	for i := range jobs {
		entries[i] = jobs[i].entry(i+1, o)
	}
	return entries, nil
}

func (j *cloudJob) entry(number int, o *Options) Entry {
	e := Entry{Line: number, Name: path.Base(j.Name), Paused: j.State == "PAUSED" || j.State == "DISABLED"}
	s := &e.Spec
	s.Schedule, s.Timezone, s.Overlap = j.Schedule, cmp.Or(j.TimeZone, o.Timezone), rouse.OverlapSkip
	r := &j.RetryConfig
	s.Retry = rouse.Retry{Attempts: uint32(max(0, r.RetryCount)) + 1, GiveUp: r.MaxRetryDuration.Duration, Interval: r.MinBackoffDuration.Duration,
		Max: r.MaxBackoffDuration.Duration, Timeout: j.AttemptDeadline.Duration}
	if r.RetryCount == 0 {
		s.Retry = rouse.Retry{Attempts: 1, Timeout: s.Retry.Timeout}
	}
	if r.MaxDoublings != nil && r.RetryCount > *r.MaxDoublings {
		e.note("its interval of retries doubles %d times and then grows linearly; here it doubles up to its maximum.", *r.MaxDoublings)
	}
	if strings.HasPrefix(s.Schedule, "every ") {
		e.Err = rouse.Refuse("schedule", s.Schedule, "is in App Engine's words", "write it as a cron expression")
	}
	switch {
	case j.HTTPTarget != nil:
		j.http(&e, o)
	case j.PubsubTarget != nil:
		s.Payload = j.PubsubTarget.Data
		e.note("it publishes to %s, with the attributes %v.", j.PubsubTarget.TopicName, j.PubsubTarget.Attributes)
	case j.AppEngineHTTPTarget != nil:
		s.Payload = j.AppEngineHTTPTarget.Body
		e.note("it calls App Engine at %s.", j.AppEngineHTTPTarget.RelativeURI)
	}
	return e
}

// http takes the request of an HTTP target.
func (j *cloudJob) http(e *Entry, o *Options) {
	t, s := j.HTTPTarget, &e.Spec
	if o.Target == "" {
		s.Target = t.URI
	}
	s.Payload, s.Webhook.Method = t.Body, t.HTTPMethod
	if s.Webhook.Method == "POST" {
		s.Webhook.Method = ""
	}
	for name, value := range t.Headers {
		switch strings.ToLower(name) {
		case "content-type":
			if len(s.Payload) > 0 {
				s.ContentType = value
			}
		case "user-agent":
			e.note("its header %s is left out: rouse sends its own.", name)
		default:
			if s.Webhook.Headers == nil {
				s.Webhook.Headers = map[string]string{}
			}
			s.Webhook.Headers[name] = value
		}
	}
	for kind, token := range map[string]*struct{ ServiceAccountEmail string }{"OAuth": t.OauthToken, "OIDC": t.OidcToken} {
		if token != nil {
			e.note("its requests have a token of %s of %s; rouse signs its requests instead, or sends a header with a secret: docs/secrets.md.", kind, token.ServiceAccountEmail)
		}
	}
	if t.HTTPMethod == "HEAD" || t.HTTPMethod == "OPTIONS" {
		e.Err = rouse.Refuse("httpMethod", t.HTTPMethod, "is no method of a callback", fmt.Sprintf("make %s answer POST or GET", t.URI))
	}
}
