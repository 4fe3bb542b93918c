package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var cloudSchedulerNotes = []string{
	"Cloud Scheduler delays an occurrence that comes due while an earlier one is in progress; so do these timers: overlap is wait, and of several that wait the latest one fires.",
	"Its documents let the next start of a job end the retries of the last one, or be left out for them; here they go on, and the next one waits.",
	"Cloud Scheduler sends its own headers, X-CloudScheduler-…; rouse sends those of CloudEvents, and signs each request.",
}

// cloudJob is the output of "gcloud scheduler jobs describe --format json", and an element of that of list;
// the API's answer to a list has them in jobs.
type cloudJob struct {
	Jobs []json.RawMessage

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
		OauthToken *googleToken
		OidcToken  *googleToken
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

	Description, UserUpdateTime, ScheduleTime, LastAttemptTime, Status, SatisfiesPzs, NextPageToken ignored
}

type googleToken struct {
	ServiceAccountEmail string
	Scope, Audience     ignored
}

// googleSpan is a duration such as "3.5s".
type googleSpan struct {
	time.Duration
	wrong error
}

func (d *googleSpan) UnmarshalText(text []byte) error {
	d.Duration, d.wrong = rouse.ParseDuration(string(text))
	return nil
}

func readCloudScheduler(in []byte, o *Options) ([]Entry, error) {
	jobs, err := readObjects[json.RawMessage](in, "what gcloud scheduler jobs list --format json prints")
	if err != nil {
		return nil, err
	}
	o.noteZone("Cloud Scheduler reads a schedule in UTC, unless timeZone names a zone")
	return readEntries(jobs, func(in json.RawMessage, number int) (Entry, []json.RawMessage) {
		var j cloudJob
		e := readEntry(in, number, &j, func(number int) Entry { return j.newCloudEntry(number, o) })
		return e, j.Jobs
	}), nil
}

func (j *cloudJob) newCloudEntry(number int, o *Options) Entry {
	e := Entry{Line: number, Name: j.Name[strings.LastIndex(j.Name, "/")+1:]}
	e.Paused = j.State == "PAUSED" || j.State == "DISABLED"
	s := &e.Spec
	s.Schedule, s.Timezone, s.Overlap = j.Schedule, j.TimeZone, rouse.OverlapWait
	if j.State == "UPDATE_FAILED" {
		e.noteDifference(
			"its state is %s: its last update failed there; this timer has what the file has, and is not paused.", j.State)
	}
	j.setRetry(&e)
	for _, span := range []struct {
		field string
		googleSpan
	}{
		{"attemptDeadline", j.AttemptDeadline},
		{"maxRetryDuration", j.RetryConfig.MaxRetryDuration},
		{"minBackoffDuration", j.RetryConfig.MinBackoffDuration},
		{"maxBackoffDuration", j.RetryConfig.MaxBackoffDuration},
	} {
		if span.wrong != nil {
			e.Err = rouse.Under(span.field, span.wrong)
		}
	}
	switch {
	case strings.HasPrefix(s.Schedule, "every "):
		e.Err = rouse.Refuse("schedule", s.Schedule, "is in App Engine's words", "write it as a cron expression")
	case s.Schedule == "":
		e.Err = rouse.Refuse("schedule", "", "is missing", "give it a cron expression")
	}
	switch {
	case j.HTTPTarget != nil:
		j.copyHTTPTarget(&e, o)
	case j.PubsubTarget != nil:
		s.Payload = j.PubsubTarget.Data
		e.noteDifference("it publishes to %s, with the attributes %v.", j.PubsubTarget.TopicName, j.PubsubTarget.Attributes)
	case j.AppEngineHTTPTarget != nil:
		s.Payload = j.AppEngineHTTPTarget.Body
		e.noteDifference("it calls App Engine at %s.", j.AppEngineHTTPTarget.RelativeURI)
	}
	return e
}

// setRetry sets the policy of retries. Cloud Scheduler retries until both limits of a job are reached, rouse
// until the first of its own is: so Attempts covers the time, and GiveUp also the slowest retries of the
// count.
func (j *cloudJob) setRetry(e *Entry) {
	c, r := &j.RetryConfig, &e.Spec.Retry
	e.setTimeout(cmp.Or(j.AttemptDeadline.Duration, 3*time.Minute))
	count, limit := uint32(min(max(0, c.RetryCount), rouse.MaxAttempts-1)), c.MaxRetryDuration.Duration
	r.Attempts = count + 1
	if count == 0 && limit <= 0 {
		return
	}
	r.Interval = cmp.Or(c.MinBackoffDuration.Duration, 5*time.Second)
	r.Max = cmp.Or(c.MaxBackoffDuration.Duration, time.Hour)
	full := r.Effective()
	worst, _ := full.Worst()
	retries, waited := uint32(0), full.Wait(1)
	for waited <= limit && retries < rouse.MaxAttempts-1 {
		retries++
		waited += full.Wait(retries + 1)
	}
	if retries > count {
		r.Attempts, r.GiveUp = retries+1, max(limit, worst-full.Timeout)
	}
	if count > 0 && limit > 0 {
		e.noteDifference(
			"it is retried until both retryCount and maxRetryDuration are reached; here %d attempts are made at most.",
			r.Attempts)
	}
	if d := cmp.Or(c.MaxDoublings, new(5)); int(r.Attempts)-1 > *d {
		e.noteDifference(
			"its interval of retries doubles %d times and then grows linearly; here it doubles up to its maximum.", *d)
	}
}

// copyHTTPTarget takes the request of an HTTP target.
func (j *cloudJob) copyHTTPTarget(e *Entry, o *Options) {
	t, s := j.HTTPTarget, &e.Spec
	if o.Target == "" {
		s.Target = t.URI
	}
	s.Payload, s.Webhook.Method = t.Body, t.HTTPMethod
	if s.Webhook.Method == "POST" {
		s.Webhook.Method = ""
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		value := t.Headers[name]
		switch strings.ToLower(name) {
		case "content-type":
			if len(s.Payload) > 0 {
				s.ContentType = value
			}
		case "user-agent", "content-length", "host":
			e.noteDifference("its header %s is left out: rouse sends its own.", name)
		default:
			if s.Webhook.Headers == nil {
				s.Webhook.Headers = map[string]string{}
			}
			s.Webhook.Headers[name] = value
		}
	}
	for kind, token := range map[string]*googleToken{"OAuth": t.OauthToken, "OIDC": t.OidcToken} {
		if token != nil {
			e.noteDifference(
				"its requests have a token of %s of %s; rouse signs its requests instead, or sends a header with a secret: docs/secrets.md.", kind, token.ServiceAccountEmail)
		}
	}
	if t.HTTPMethod == "HEAD" || t.HTTPMethod == "OPTIONS" {
		e.Err = rouse.Refuse("httpMethod", t.HTTPMethod, "is no method of a callback",
			fmt.Sprintf("make %s answer POST or GET", t.URI))
	}
}
