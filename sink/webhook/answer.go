package webhook

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// MaxRetryAfter bounds the wait that a receiver can request.
const MaxRetryAfter = 24 * time.Hour

// answer is the response of a receiver.
type answer struct {
	code       int
	retryAfter string
	head       []byte   // first bytes of the body
	body       *wishes  // of a body that contains "rouse"; nil otherwise
	garbled    bool     // the body contains "rouse" and cannot be parsed
	secrets    []string // of the request
	keeps      bool     // a callback or a record of a fire takes all that is read of the body
	kept       rouse.Answer
}

// headBytes is how much of a body is kept for people.
const headBytes = rouse.MaxDetail

// readResponse reads a response, and reports whether its body ended within MaxAnswer. The status counts even
// if the body is endless, slow or broken.
func (a *answer) readResponse(o *Options, resp *http.Response) (ended bool) {
	a.code, a.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	if resp.Body == http.NoBody {
		return true
	}
	keep := headBytes
	maybe := resp.StatusCode/100 == 2 && cloudevent.IsJSON(resp.Header.Get("Content-Type")) &&
		resp.Header.Get("Content-Encoding") == ""
	if maybe || a.keeps {
		keep = o.MaxAnswer
	}
	kept, total, ended := readUpTo(resp.Body, keep, o.MaxAnswer)
	whole := ended && total == len(kept)
	kept = hideSecrets(kept, a.secrets)
	a.head = kept[:min(len(kept), headBytes)]
	if a.keeps {
		a.kept = rouse.Answer{ContentType: resp.Header.Get("Content-Type"), Payload: kept}
	}
	if maybe {
		a.body, a.garbled = readWishes(kept, whole)
	}
	return ended
}

// readUpTo reads up to limit bytes and keeps the first of them. It returns how many it read, and whether that
// was all.
func readUpTo(r io.Reader, keep, limit int) (kept []byte, total int, ended bool) {
	buf := make([]byte, min(512, limit+1))
	for {
		n, err := r.Read(buf[:min(len(buf), limit+1-total)])
		total += n
		kept = append(kept, buf[:min(n, keep-len(kept))]...)
		switch {
		case err == io.EOF:
			return kept, total, true
		case err != nil || total > limit:
			return kept, total, false
		case total >= len(buf) && len(buf) < 16<<10:
			buf = make([]byte, 4*len(buf))
		}
	}
}

// fireOutcome returns the outcome of a fire of the spec.
func (a *answer) fireOutcome(spec *rouse.Spec, now time.Time) rouse.Outcome {
	o := a.plainOutcome(spec, now)
	if a.keeps && spec.UsesAnswers() {
		o.Answer = &a.kept
	}
	return o
}

func (a *answer) plainOutcome(spec *rouse.Spec, now time.Time) rouse.Outcome {
	if a.garbled {
		return rouse.Outcome{Verdict: rouse.Failed, Code: a.code,
			Detail: makeExcerpt(statusText(a.code)+`: the body names "rouse" and cannot be read: `, string(a.head))}
	}
	if a.body != nil {
		if o, asked := a.body.wish.wishOutcome(a.code, now); asked {
			return o
		}
	}
	return statusOutcome(a.code, a.retryAfter, string(a.head), spec, now)
}

// statusOutcome returns the outcome for a status.
func statusOutcome(code int, retryAfter, head string, spec *rouse.Spec, now time.Time) rouse.Outcome {
	o := rouse.Outcome{Code: code}
	var note string
	switch {
	case code == http.StatusAccepted:
		o.Verdict, o.After = rouse.Accepted, spec.Webhook.Accept
		o.After = cmp.Or(o.After, rouse.DefaultAccept)
	case code/100 == 2:
		o.Verdict = rouse.Done
		if head == "" {
			return o // the common case needs no detail
		}
	case code == http.StatusGone:
		o.Verdict = rouse.Gone
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests,
		code/100 != 3 && code/100 != 4, spec.Webhook.Retries(code):
		o.Verdict = rouse.Failed
		o.After, note = parseRetryAfter(retryAfter, now)
	default:
		o.Verdict = rouse.Rejected
	}
	if code/100 == 3 {
		note += ", and redirects are not followed"
	}
	label := statusText(code) + note
	if head != "" {
		label += ": "
	}
	o.Detail = makeExcerpt(label, head)
	return o
}

// statusText returns a code with its usual text; the receiver's reason phrase is not used.
func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}

// parseRetryAfter parses a Retry-After header: seconds, or a date. It returns 0, the timer's own backoff,
// if it is missing or invalid. note describes how it was bounded, if it was.
func parseRetryAfter(value string, now time.Time) (after time.Duration, note string) {
	if value == "" {
		return 0, ""
	}
	if n, err := strconv.ParseUint(value, 10, 64); err == nil {
		return boundWait(time.Duration(min(n, uint64(MaxRetryAfter/time.Second)+1)) * time.Second)
	}
	if t, err := http.ParseTime(value); err == nil && t.After(now) {
		return boundWait(t.Sub(now))
	}
	return 0, ""
}

// boundWait applies MaxRetryAfter.
func boundWait(d time.Duration) (time.Duration, string) {
	if d > MaxRetryAfter {
		return MaxRetryAfter, " (the wait it asks for is cut to " + MaxRetryAfter.String() + ")"
	}
	return d, ""
}
