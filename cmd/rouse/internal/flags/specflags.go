package flags

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// SpecFlags define a timer. Most set a member of the API's spec, which has the flag's name unless the tag
// "member" has another one; "-" is none. "rouse get" shows the member under the flag's name, or the tag
// "show": a label, and how the value is shown.
type SpecFlags struct {
	Schedule string `short:"s" help:"When: an RFC 3339 instant, '@after 90s', '@every 5m', or a cron expression." placeholder:"EXPR"`

	WhenFlags `embed:""`

	Target      string            `short:"t" help:"Where: http://…, https://…, stream:CHANNEL, or amqp:, nats: and redis: with CONNECTION/PLACE." placeholder:"URL"`
	Payload     *string           `short:"p" help:"What: JSON, or any text with --content-type." placeholder:"JSON" xor:"payload" member:"-"`
	PayloadFile string            `help:"What: the content of a file; - is stdin." placeholder:"FILE" xor:"payload" member:"-" show:"-"`
	ContentType string            `help:"Media type of the payload; default application/json for JSON." placeholder:"TYPE" show:"-"`
	Label       map[string]string `short:"l" help:"Label, to find the timer by; can be repeated." placeholder:"KEY=VALUE" mapsep:"none" member:"labels" show:"labels"`

	Misfire  string        `help:"What becomes of occurrences that could not start in time: latest (the default), all, skip or 'within 1h'." placeholder:"POLICY"`
	Overlap  string        `help:"What becomes of an occurrence that comes due while one is in progress: wait (the default), skip or allow." placeholder:"POLICY"`
	Deadline time.Duration `help:"Give up an occurrence if its next attempt would be later than this." placeholder:"DURATION"`
	Priority string        `help:"Before or after others that wait for the same target: low, normal (the default) or high." placeholder:"PRIORITY"`
	Keep     keepFor       `help:"How long to keep the timer after its schedule has ended, or forever; default not at all." placeholder:"DURATION"`

	PauseAfter  uint32 `help:"Pause the timer after this number of consecutive dead letters; default never." placeholder:"N" show:"pause after,%s dead letters in a row"`
	Limit       string `help:"Named limit of the namespace that its occurrences count for: rouse limit." placeholder:"NAME"`
	LimitKey    string `help:"Key that they count for, of a limit per key; with {{name}}, {{label:NAME}} or {{payload:/MEMBER}} of the timer." placeholder:"KEY"`
	Criticality uint32 `help:"Timers of higher criticality are served first if the store cannot serve all: 0 (the default) to 9." placeholder:"N"`

	ExpectEvery  time.Duration `help:"Expect the timer to succeed again so long after its last success." placeholder:"DURATION" member:"expect.every" show:"expected every"`
	ExpectGrace  time.Duration `help:"How much later a success may be; without --expect-every each occurrence is expected to succeed." placeholder:"DURATION" member:"expect.grace" show:"grace"`
	ExpectNotify string        `help:"Target that is told when the timer is overdue, and when it has recovered; default that of --notify." placeholder:"URL" member:"expect.notify" show:"notify"`

	Notify string `help:"Target that is told when the timer fails: of dead letters, missed occurrences and the like." placeholder:"URL" member:"notify.target" show:"notices"`

	NotifyFlags `embed:"" prefix:"notify-"`

	OnSuccess  string `help:"Target that gets the answer to each occurrence that fires." placeholder:"URL" show:"on success"`
	OnFailure  string `help:"Target that gets the last answer to each occurrence that becomes a dead letter." placeholder:"URL" show:"on failure"`
	KeepAnswer uint32 `help:"How many bytes of the last answer to an occurrence its record has, at most 16384; default none." placeholder:"BYTES" show:"keep answer,%s bytes"`

	RetryAttempts uint32        `help:"Maximum number of attempts of an occurrence; default 8." placeholder:"N" member:"retry.attempts" show:"retry"`
	RetryInterval time.Duration `help:"Wait before the first retry; default 1s." placeholder:"DURATION" member:"retry.interval" show:"-"`
	RetryFactor   float64       `help:"Factor between a wait and the next; default 2, 1 for a constant wait." placeholder:"FACTOR" member:"retry.factor" show:"-"`
	RetryMax      time.Duration `help:"Longest wait between attempts; default 10m." placeholder:"DURATION" member:"retry.max_interval" show:"-"`
	RetryJitter   *jitterFor    `help:"Random part of a backoff; default 500ms, 0s for none." placeholder:"DURATION" member:"retry.jitter" show:"-"`
	RetryTimeout  time.Duration `help:"Timeout of an attempt; default 30s." placeholder:"DURATION" member:"retry.timeout" show:"-"`
	RetryGiveUp   time.Duration `help:"No attempt starts later than this after the first one; default no limit." placeholder:"DURATION" member:"retry.give_up" show:"-"`

	Method     string        `help:"HTTP method of callbacks; default POST." placeholder:"METHOD" member:"webhook.method"`
	Header     []string      `short:"H" help:"HTTP header of callbacks; can be repeated." placeholder:"NAME:VALUE" sep:"none" member:"-" show:"-"`
	Structured bool          `help:"Send callbacks as CloudEvents in structured mode." member:"webhook.structured"`
	Batch      uint32        `help:"Send up to this number of fires for one URL in one callback." placeholder:"N" member:"webhook.batch"`
	Accept     time.Duration `help:"How long a receiver that responds with 202 may take to report; default 10m." placeholder:"DURATION" member:"webhook.accept"`
	RetryOn    []string      `help:"Permanent failures of callbacks that are retried: statuses such as 404, or 3xx, 4xx." placeholder:"STATUS" member:"webhook.retry_on"`
}

// keepFor is how long an ended timer is kept: a duration, or "forever".
type keepFor time.Duration

// UnmarshalText reads it as the API does.
func (k *keepFor) UnmarshalText(text []byte) error {
	return rouse.Under("keep", (*api.Keep)(k).UnmarshalText(text))
}

// jitterFor is the jitter of retries; 0 means none.
type jitterFor time.Duration

// UnmarshalText reads it as the API does.
func (j *jitterFor) UnmarshalText(text []byte) error {
	return rouse.Under("retry-jitter", (*api.Duration)(j).UnmarshalText(text))
}

// coalesced replaces the schedule while the spec of a coalesced timer, which has none, is validated.
const coalesced = "@after 0s"

// BuildSpec returns the spec of the flags. The server validates its schedule and target.
func (f *SpecFlags) BuildSpec(in io.Reader, coalesce bool) (rouse.Spec, error) {
	var faults rouse.Invalid
	s, err := f.readMembers(in, &faults)
	if err != nil {
		return s, err
	}
	if coalesce {
		s.Schedule = coalesced
	}
	faults.Add(s.Check())
	if coalesce {
		s.Schedule = ""
	}
	return s, faults.Err()
}

// BuildPatch returns the patch that gives a timer the members of the flags.
func (f *SpecFlags) BuildPatch(in io.Reader) (api.Patch, error) {
	var faults rouse.Invalid
	s, err := f.readMembers(in, &faults)
	if err == nil {
		err = faults.Err()
	}
	if err != nil {
		return nil, err
	}
	p, err := api.PatchTo(&s)
	for _, name := range []string{"schedule", "target"} { // which a spec has always
		if string(p[name]) == `""` {
			delete(p, name)
		}
	}
	return p, err
}

// readMembers returns the spec that has the members of the flags, and nothing else, and adds their faults.
func (f *SpecFlags) readMembers(in io.Reader, faults *rouse.Invalid) (rouse.Spec, error) {
	for i, status := range f.RetryOn { // lists are written with spaces, too
		f.RetryOn[i] = strings.TrimSpace(status)
	}
	var o api.Spec
	setMembers(f, &o)
	s, err := o.Parse()
	faults.Add(err)
	faults.Add(f.parseHeaders(&s))
	if err := f.readPayload(in, &s); err != nil {
		if _, ok := errors.AsType[*rouse.Invalid](err); !ok {
			return s, err
		}
		faults.Add(err)
	}
	return s, nil
}

func (f *SpecFlags) parseHeaders(s *rouse.Spec) error {
	for _, h := range f.Header {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return rouse.Refuse("header", h, "is no header", "write NAME:VALUE")
		}
		if s.Webhook.Headers == nil {
			s.Webhook.Headers = map[string]string{}
		}
		s.Webhook.Headers[name] = strings.TrimSpace(value)
	}
	return nil
}

// readPayload reads the payload. JSON is recognised by its flag or file name, never guessed from its bytes.
func (f *SpecFlags) readPayload(in io.Reader, s *rouse.Spec) error {
	switch {
	case f.Payload != nil:
		s.Payload = []byte(*f.Payload)
		if f.ContentType != "" {
			return nil
		}
		if !json.Valid(s.Payload) {
			return rouse.Refuse("payload", *f.Payload, "is no JSON",
				`quote a text as '"text"', or say what it is with --content-type text/plain`)
		}
		s.ContentType = "application/json"
	case f.PayloadFile != "":
		body, err := cli.ReadUpTo(in, "payload-file", f.PayloadFile, rouse.MaxPayload)
		if err != nil {
			return err
		}
		s.Payload = body
		if f.ContentType == "" && filepath.Ext(f.PayloadFile) == ".json" {
			s.ContentType = "application/json"
		}
		if s.ContentType == "application/json" && !json.Valid(bytes.TrimSpace(body)) {
			return rouse.Refuse("payload-file", f.PayloadFile, "holds no JSON", "fix it, or give its type with --content-type")
		}
	}
	return nil
}
