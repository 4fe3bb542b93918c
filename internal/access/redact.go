package access

import (
	"context"
	"maps"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
)

// Redact removes from a timer the parts that only principals with the verb Reveal may see: the payload, the
// headers, and the answers of targets.
func (c *Control) Redact(ctx context.Context, t *rouse.Timer) {
	if c == nil || c.Allows(ctx, Reveal, t.Key.Namespace, t.Spec.Target, t.Spec.Labels) {
		audit.Revealed(ctx)
		return
	}
	t.Redacted = true
	t.Spec.Payload, t.Answer, t.LastError = nil, nil, ""
	t.LimitKey = "" // it may be of the payload
	if t.Spec.Webhook.Headers != nil {
		t.Spec.Webhook.Headers = maps.Clone(t.Spec.Webhook.Headers)
		for name := range t.Spec.Webhook.Headers {
			t.Spec.Webhook.Headers[name] = ""
		}
	}
	t.Failures = withoutDetails(t.Failures)
}

// RedactRecords does so with the records of timers with a target and labels; with an empty target those of a
// namespace.
func (c *Control) RedactRecords(ctx context.Context, namespace, target string, labels map[string]string,
	records []rouse.Record) {
	if c == nil || c.Allows(ctx, Reveal, namespace, target, labels) {
		audit.Revealed(ctx)
		return
	}
	for i := range records {
		redactRecord(&records[i])
	}
}

// RedactRecord does so with one record, of a timer with a target and labels.
func (c *Control) RedactRecord(ctx context.Context, r *rouse.Record, target string, labels map[string]string) {
	if c != nil && !c.Allows(ctx, Reveal, r.Namespace, target, labels) {
		redactRecord(r)
	}
}

func redactRecord(r *rouse.Record) {
	r.Reason, r.Answer = "", nil
	r.Failures = withoutDetails(r.Failures)
}

func withoutDetails(attempts []rouse.Attempt) []rouse.Attempt {
	var out []rouse.Attempt
	for _, a := range attempts {
		a.Detail = ""
		out = append(out, a)
	}
	return out
}
