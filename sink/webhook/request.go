package webhook

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// request is an HTTP/1.1 request as it is sent.
type request struct {
	place
	method    string
	namespace string
	head      []byte // request line and headers
	body      []byte
	used      []string          // secrets in the headers
	signed    [2][]byte         // space for the signed parts: the identity, and the message before the body
	aws       *rouse.Credential // signs the request; nil: none does
	err       error             // why the request must not be sent
}

var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest begins a request of a spec. Nothing uses the request any more when it is given back to the pool.
func (s *Sink) newRequest(namespace string, spec *rouse.Spec) *request {
	r := requests.Get().(*request)
	*r = request{place: placeOf(spec.Target), method: methodOf(spec), namespace: namespace, head: r.head[:0],
		signed: r.signed}
	r.head = append(append(append(append(r.head, r.method...), ' '), r.path...), " HTTP/1.1\r\n"...)
	if !rouse.IsHeaderValue(spec.Target) || strings.Contains(spec.Target, " ") {
		r.err = errors.New("not sent: the target has characters that cannot be sent")
	}
	r.setHeader("Host", r.authority)
	agent := s.opts.UserAgent
	for k, v := range spec.Webhook.Headers {
		k = http.CanonicalHeaderKey(k)
		if rouse.HasSecrets(v) {
			if v = s.expandSecrets(r, namespace, k, v); r.err != nil {
				break
			}
		}
		switch {
		case s.dropsHeader(k):
			if k == "Authorization" {
				r.aws = nil
			}
		case r.aws != nil && k == "Authorization": // the signature
		case !httpguts.ValidHeaderFieldName(k):
			r.err = fmt.Errorf("not sent: %q is no name of a header", k)
		case k == "User-Agent":
			agent = v
		default:
			r.setHeader(k, v)
		}
	}
	r.setHeader("User-Agent", agent)
	return r
}

// recycleRequest gives a request back to the pool.
func (r *request) recycleRequest() {
	if cap(r.head) <= 2*inOne {
		requests.Put(r)
	}
}

// setHeader adds a header. No header is set twice: Check refuses those of a spec that are set here.
func (r *request) setHeader(canonical, value string) {
	if !rouse.IsHeaderValue(value) {
		r.err = fmt.Errorf("not sent: the header %s has a value that cannot be sent", canonical)
		return
	}
	r.head = append(append(append(append(r.head, canonical...), ": "...), value...), "\r\n"...)
}

func (r *request) setUint(canonical string, value uint64) {
	r.head = append(append(r.head, canonical...), ": "...)
	r.head = append(strconv.AppendUint(r.head, value, 10), "\r\n"...)
}

// newSingleRequest returns the request for one fire.
func (s *Sink) newSingleRequest(f *rouse.Fire, now time.Time) *request {
	r := s.newRequest(f.Namespace, f.Spec)
	name, due := cloudevent.Percent(f.Name), f.Due.String()
	body := f.Spec.Payload
	if f.Spec.Webhook.Structured {
		r.setHeader("Content-Type", "application/cloudevents+json")
		body = cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f)
	} else {
		if kind := cloudevent.ContentType(f.Spec); kind != "" {
			r.setHeader("Content-Type", kind)
		}
		r.setHeader("Ce-Specversion", "1.0")
		r.setHeader("Ce-Id", f.ID)
		r.setHeader("Ce-Source", cloudevent.Percent(cloudevent.Source(f)))
		r.setHeader("Ce-Type", cloudevent.Type)
		r.setHeader("Ce-Time", due)
		r.setHeader("Ce-Subject", name)
		r.setUint("Ce-Attempt", uint64(f.Attempt))
		r.setUint("Ce-Token", f.Token)
		r.setUint("Ce-Generation", f.Generation)
	}
	r.setHeader("Rouse-Fire-Id", f.ID)
	r.setHeader("Rouse-Namespace", f.Namespace)
	r.setHeader("Rouse-Timer", name)
	r.setHeader("Rouse-Due", due)
	r.setUint("Rouse-Attempt", uint64(f.Attempt))
	r.setUint("Rouse-Token", f.Token)
	r.setUint("Rouse-Generation", f.Generation)
	r.setHeader("Rouse-Manual", strconv.FormatBool(f.Manual))
	r.setHeader("Rouse-Last", strconv.FormatBool(f.Last))
	if f.Traceparent != "" && !hasHeader(f.Spec, "Traceparent") {
		r.setHeader("Traceparent", f.Traceparent)
	}
	r.signed[0] = appendIdentity(r.signed[0][:0], f, name, due)
	return s.finishRequest(r, f, f.ID, body, r.signed[0], now)
}

// hasHeader reports whether a spec sets a header itself.
func hasHeader(spec *rouse.Spec, canonical string) bool {
	for k := range spec.Webhook.Headers {
		if http.CanonicalHeaderKey(k) == canonical {
			return true
		}
	}
	return false
}

// newBatchRequest returns the request for fires that are the events of body, a JSON array.
func (s *Sink) newBatchRequest(fires []rouse.Fire, body []byte, now time.Time) *request {
	f := &fires[0]
	r := s.newRequest(f.Namespace, f.Spec)
	r.setHeader("Content-Type", "application/cloudevents-batch+json")
	r.setHeader("Rouse-Namespace", f.Namespace)
	return s.finishRequest(r, f, batchID(fires), body, nil, now)
}

// batchID returns an id that is the same whenever the same fires are sent together.
func batchID(fires []rouse.Fire) string {
	sum := sha256.New()
	for i := range fires {
		sum.Write([]byte(fires[i].ID))
		sum.Write([]byte{'\n'})
	}
	return "batch-" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil)[:16])
}

// finishRequest signs a request, and completes its headers. A batch has no identity.
func (s *Sink) finishRequest(r *request, f *rouse.Fire, id string, body, identity []byte, now time.Time) *request {
	r.setHeader(HeaderID, id)
	r.setUint(HeaderTimestamp, uint64(now.Unix()))
	if signing, err := s.opts.Signing(f.Namespace); err != nil {
		r.err = &waiting{err.Error()}
	} else if signing != nil && len(signing.keys) > 0 {
		r.signed[1] = appendMessage(r.signed[1][:0], id, now.Unix())
		r.head = signing.appendSignatures(r.head, r.signed[1], body, identity)
	}
	if len(body) > 0 || r.method != http.MethodGet && r.method != http.MethodDelete {
		r.setUint("Content-Length", uint64(len(body)))
	}
	if r.aws != nil && r.err == nil {
		r.signAWS(r.aws, body, now)
	}
	r.head, r.body = append(r.head, "\r\n"...), body
	return r
}
