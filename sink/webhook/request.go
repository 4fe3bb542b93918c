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
	method string
	head   []byte // request line and headers
	body   []byte
	err    error // a header that must not be sent
}

var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest begins a request of a spec. Nothing uses the request any more when it is given back to the pool.
func (s *Sink) newRequest(spec *rouse.Spec) *request {
	r := requests.Get().(*request)
	*r = request{place: placeOf(spec.Target), method: method(spec), head: r.head[:0]}
	r.head = append(append(append(append(r.head, r.method...), ' '), r.path...), " HTTP/1.1\r\n"...)
	if !rouse.IsHeaderValue(spec.Target) || strings.Contains(spec.Target, " ") {
		r.err = errors.New("not sent: the target has characters that cannot be sent")
	}
	r.set("Host", r.authority)
	agent := s.opts.UserAgent
	for k, v := range spec.Webhook.Headers {
		switch k = http.CanonicalHeaderKey(k); {
		case !httpguts.ValidHeaderFieldName(k):
			r.err = fmt.Errorf("not sent: %q is no name of a header", k)
		case k == "User-Agent":
			agent = v
		default:
			r.set(k, v)
		}
	}
	r.set("User-Agent", agent)
	return r
}

// free gives a request back to the pool.
func (r *request) free() {
	if cap(r.head) <= 2*inOne {
		requests.Put(r)
	}
}

// set adds a header. No header is set twice: Check refuses those of a spec that are set here.
func (r *request) set(canonical, value string) {
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

// single returns the request for one fire.
func (s *Sink) single(f *rouse.Fire, now time.Time) *request {
	r := s.newRequest(f.Spec)
	name, due := cloudevent.Percent(f.Name), f.Due.String()
	body := f.Spec.Payload
	if f.Spec.Webhook.Structured {
		r.set("Content-Type", "application/cloudevents+json")
		body = cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f)
	} else {
		if kind := cloudevent.ContentType(f.Spec); kind != "" {
			r.set("Content-Type", kind)
		}
		r.set("Ce-Specversion", "1.0")
		r.set("Ce-Id", f.ID)
		r.set("Ce-Source", cloudevent.Percent(cloudevent.Source(f)))
		r.set("Ce-Type", cloudevent.Type)
		r.set("Ce-Time", due)
		r.set("Ce-Subject", name)
		r.setUint("Ce-Attempt", uint64(f.Attempt))
		r.setUint("Ce-Token", f.Token)
		r.setUint("Ce-Generation", f.Generation)
	}
	r.set("Rouse-Fire-Id", f.ID)
	r.set("Rouse-Namespace", f.Namespace)
	r.set("Rouse-Timer", name)
	r.set("Rouse-Due", due)
	r.setUint("Rouse-Attempt", uint64(f.Attempt))
	r.setUint("Rouse-Token", f.Token)
	r.setUint("Rouse-Generation", f.Generation)
	r.set("Rouse-Manual", strconv.FormatBool(f.Manual))
	r.set("Rouse-Last", strconv.FormatBool(f.Last))
	return s.finish(r, f, f.ID, body, now)
}

// batch returns the request for fires that are the events of body, a JSON array.
func (s *Sink) batch(fires []rouse.Fire, body []byte, now time.Time) *request {
	f := &fires[0]
	r := s.newRequest(f.Spec)
	r.set("Content-Type", "application/cloudevents-batch+json")
	r.set("Rouse-Namespace", f.Namespace)
	return s.finish(r, f, batchID(fires), body, now)
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

// finish signs a request, and completes its headers.
func (s *Sink) finish(r *request, f *rouse.Fire, id string, body []byte, now time.Time) *request {
	r.set(HeaderID, id)
	r.setUint(HeaderTimestamp, uint64(now.Unix()))
	if secrets := s.opts.Secrets(f.Namespace); len(secrets) > 0 {
		signature, err := signatures(secrets, id, now.Unix(), body)
		if err != nil {
			r.err = err
		}
		r.set(HeaderSignature, signature)
	}
	if len(body) > 0 || r.method != http.MethodGet && r.method != http.MethodDelete {
		r.setUint("Content-Length", uint64(len(body)))
	}
	r.head, r.body = append(r.head, "\r\n"...), body
	return r
}
