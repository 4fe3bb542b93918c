package webhook

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/rousehq/rouse"
)

// wishes are the requests that the body of a 2xx can have.
type wishes struct {
	wish
	Results []result `json:"results"`
}

// wish requests another attempt.
type wish struct {
	RetryAfter string `json:"retry_after"` // such as "30s"
	RetryAt    string `json:"retry_at"`    // RFC 3339
}

// result is the answer to one fire of a batch.
type result struct {
	wish
	ID     string `json:"id"`
	Status int    `json:"status"` // 0: the status of the response
	Detail string `json:"detail"`
}

// readWishes parses a body that contains "rouse"; others are ignored.
func readWishes(body []byte, whole bool) (w *wishes, garbled bool) {
	if !bytes.Contains(body, []byte(`"rouse"`)) {
		return nil, false
	}
	var doc struct {
		Rouse *wishes `json:"rouse"`
	}
	if !whole || json.Unmarshal(body, &doc) != nil {
		return nil, true
	}
	return doc.Rouse, false
}

// wishOutcome returns the failure for a wish; asked is false without a wish. A wish that cannot be parsed
// counts as one without a time.
func (w wish) wishOutcome(code int, now time.Time) (o rouse.Outcome, asked bool) {
	o = rouse.Outcome{Verdict: rouse.Failed, Code: code}
	label := statusText(code) + ": asks for another attempt"
	var at rouse.Instant
	var d time.Duration
	var err error
	switch {
	case w.RetryAfter != "":
		label += " after "
		d, err = rouse.ParseDuration(w.RetryAfter)
	case w.RetryAt != "":
		label += " at "
		at, err = rouse.ParseInstant(w.RetryAt)
		d = at.Time().Sub(now)
	default:
		return rouse.Outcome{}, false
	}
	text := w.RetryAfter + w.RetryAt
	if w.RetryAfter != "" {
		text = w.RetryAfter
	}
	if err != nil {
		o.Detail = makeExcerpt(label, text+", which cannot be read")
		return o, true
	}
	var note string
	o.After, note = boundWait(max(d, rouse.AtOnce))
	o.Detail = makeExcerpt(label, text+note)
	return o, true
}

// reportBatch reports each fire of a batch: by its own result, or else by the status of the response.
func (a *answer) reportBatch(fires []rouse.Fire, now time.Time, settle func(i int, o rouse.Outcome)) {
	byID := map[string]*result{}
	if a.body != nil {
		for i := range a.body.Results {
			byID[a.body.Results[i].ID] = &a.body.Results[i]
		}
	}
	for i := range fires {
		r := byID[fires[i].ID]
		if r == nil {
			settle(i, a.fireOutcome(fires[i].Spec, now))
			continue
		}
		code := a.code
		if r.Status != 0 {
			code = r.Status
		}
		settle(i, r.resultOutcome(code, fires[i].Spec, now))
	}
}

func (r *result) resultOutcome(code int, spec *rouse.Spec, now time.Time) rouse.Outcome {
	if code < 100 || code > 999 {
		return rouse.Outcome{Verdict: rouse.Failed,
			Detail: makeExcerpt("the result in the answer to the batch has no valid status: ", r.Detail)}
	}
	o, asked := r.wish.wishOutcome(code, now)
	if !asked {
		return statusOutcome(code, "", r.Detail, spec, now)
	}
	switch plain := statusOutcome(code, "", r.Detail, spec, now); plain.Verdict {
	case rouse.Rejected, rouse.Gone:
		return plain // a wish does not override a final status
	case rouse.Failed:
		plain.After = o.After
		return plain
	}
	return o
}
