package stream

import (
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub"
)

// applySettles handles a subscriber's outcomes. It applies all valid ones before it returns an error: losing
// an outcome would cause another attempt.
func (s *Sink) applySettles(sub *subscriber, m *rousev1.Settle) error {
	var faults []rouse.Problem
	for i, tag := range m.Done {
		if it := fireByTag(sub, tag, "settle.done", i, &faults); it != nil {
			s.hub.Report(it, rouse.Outcome{Verdict: rouse.Done})
		}
	}
	for i, a := range m.Answers {
		if it := fireByTag(sub, a.GetTag(), "settle.answers", i, &faults); it != nil {
			s.hub.Report(it, answerOutcome(a))
		}
	}
	for i, f := range m.Failures {
		if it := fireByTag(sub, f.GetTag(), "settle.failures", i, &faults); it != nil {
			o, err := failureOutcome(f)
			if err != nil {
				faults = appendFault(faults, fmt.Sprintf("settle.failures[%d]", i), err)
			}
			s.hub.Report(it, o)
		}
	}
	now := s.hub.Now()
	for i, e := range m.Extensions {
		it := fireByTag(sub, e.GetTag(), "settle.extensions", i, &faults)
		by, err := rousev1.DurationFromProto("by", e.GetBy())
		if err == nil && by == 0 {
			err = rouse.Refuse("by", "", "is missing", "give how much longer the fire may take, from now")
		}
		switch {
		case err != nil:
			faults = appendFault(faults, fmt.Sprintf("settle.extensions[%d]", i), err)
		case it != nil: // never shortened: an extension may arrive after a longer one
			s.hub.Extend(it, max(it.Until(), min(now+min(by, hub.Never-now), it.Of.latest)))
		}
	}
	if len(faults) > 0 {
		return &rouse.Invalid{Problems: faults}
	}
	return nil
}

// fireByTag returns the fire of a tag. If the fire has ended, that is no error: its deadline and the outcome
// crossed.
func fireByTag(sub *subscriber, tag uint64, list string, i int, faults *[]rouse.Problem) *item {
	it, known := sub.Of.slots.findTag(tag)
	if list != "settle.extensions" {
		delete(sub.Of.owes, tag)
	}
	if it == nil && !known && len(*faults) < maxFaults {
		*faults = append(*faults, rouse.Problem{Field: fmt.Sprintf("%s[%d]", list, i), Value: fmt.Sprint(tag),
			Wrong: "is no tag of this stream", Cure: "use the tags of fires that came by the same stream"})
	}
	return it
}

// maxFaults bounds the reported faults of a message.
const maxFaults = 16

func appendFault(faults []rouse.Problem, path string, err error) []rouse.Problem {
	if inv, ok := rouse.Under(path, err).(*rouse.Invalid); ok && len(faults) < maxFaults {
		faults = append(faults, inv.Problems...)
	}
	return faults
}

// answerOutcome returns the outcome for an answer. An answer that is too large is rejected, as it would be
// again.
func answerOutcome(a *rousev1.Answer) rouse.Outcome {
	if n := len(a.Payload); n > rouse.MaxPayload {
		return rouse.Outcome{Verdict: rouse.Rejected, Detail: fmt.Sprintf("the answer has %d bytes; use at most %d", n,
			rouse.MaxPayload)}
	}
	if n := len(a.ContentType); n > maxContentType {
		return rouse.Outcome{Verdict: rouse.Rejected,
			Detail: fmt.Sprintf("the answer's content type has %d bytes; use at most %d", n, maxContentType)}
	}
	return rouse.Outcome{Verdict: rouse.Done, Answer: &rouse.Answer{ContentType: a.ContentType, Payload: a.Payload}}
}

// maxContentType bounds the content type of an answer, in bytes.
const maxContentType = 256

// failureOutcome returns the outcome for a failure. Without retry_after the timer's own backoff applies; 0s
// means immediately.
func failureOutcome(f *rousev1.Failure) (rouse.Outcome, error) {
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: printableDetail(f.Detail)}
	if o.Detail == "" {
		o.Detail = "the subscriber reported a failure"
	}
	if f.Permanent {
		o.Verdict = rouse.Rejected
		return o, nil
	}
	after, err := rousev1.DurationFromProto("retry_after", f.RetryAfter)
	if err != nil {
		return o, err
	}
	if f.RetryAfter != nil {
		o.After = min(max(after, rouse.AtOnce), maxRetryAfter)
	}
	return o, nil
}

// maxRetryAfter bounds a subscriber's retry_after, as a timer's own backoff is bounded.
const maxRetryAfter = 7 * 24 * time.Hour

// printableDetail returns text in a form that fits a record: shortened, on one line.
func printableDetail(s string) string {
	return rouse.Shorten(strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r < ' ', r == 0x7f, r == '\uFFFD':
			return ' '
		}
		return r
	}, rouse.Shorten(s, 2*rouse.MaxDetail))), rouse.MaxDetail)
}
