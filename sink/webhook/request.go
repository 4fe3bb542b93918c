package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// headers collects the headers of a request. The values share one array, because there are about two dozen.
type headers struct {
	h      http.Header
	values []string
}

func newHeaders(n int) headers {
	return headers{make(http.Header, n), make([]string, 0, n)}
}

func (h *headers) set(canonical, value string) {
	h.values = append(h.values, value)
	h.h[canonical] = h.values[len(h.values)-1 : len(h.values) : len(h.values)]
}

// single returns the request for one fire.
func (s *Sink) single(ctx context.Context, f *rouse.Fire, now time.Time) (*http.Request, error) {
	h := newHeaders(24 + len(f.Spec.Webhook.Headers))
	s.common(&h, f.Spec)
	name, due := cloudevent.Percent(f.Name), f.Due.String()
	attempt := strconv.FormatUint(uint64(f.Attempt), 10)
	token := strconv.FormatUint(f.Token, 10)
	generation := strconv.FormatUint(f.Generation, 10)

	body := f.Spec.Payload
	if f.Spec.Webhook.Structured {
		h.set("Content-Type", "application/cloudevents+json")
		body = cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f)
	} else {
		if kind := cloudevent.ContentType(f.Spec); kind != "" {
			h.set("Content-Type", kind)
		}
		h.set("Ce-Specversion", "1.0")
		h.set("Ce-Id", f.ID)
		h.set("Ce-Source", cloudevent.Percent(cloudevent.Source(f)))
		h.set("Ce-Type", cloudevent.Type)
		h.set("Ce-Time", due)
		h.set("Ce-Subject", name)
		h.set("Ce-Attempt", attempt)
		h.set("Ce-Token", token)
		h.set("Ce-Generation", generation)
	}
	h.set("Rouse-Fire-Id", f.ID)
	h.set("Rouse-Namespace", f.Namespace)
	h.set("Rouse-Timer", name)
	h.set("Rouse-Due", due)
	h.set("Rouse-Attempt", attempt)
	h.set("Rouse-Token", token)
	h.set("Rouse-Generation", generation)
	h.set("Rouse-Manual", strconv.FormatBool(f.Manual))
	h.set("Rouse-Last", strconv.FormatBool(f.Last))
	return s.request(ctx, f, h, f.ID, body, now)
}

// batch returns the request for fires that are the events of body, a JSON array.
func (s *Sink) batch(ctx context.Context, fires []rouse.Fire, body []byte, now time.Time) (*http.Request, error) {
	f := &fires[0]
	h := newHeaders(8 + len(f.Spec.Webhook.Headers))
	s.common(&h, f.Spec)
	h.set("Content-Type", "application/cloudevents-batch+json")
	h.set("Rouse-Namespace", f.Namespace)
	return s.request(ctx, f, h, batchID(fires), body, now)
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

// common sets the headers of every request of a spec.
func (s *Sink) common(h *headers, spec *rouse.Spec) {
	h.set("User-Agent", s.opts.UserAgent)
	for k, v := range spec.Webhook.Headers {
		h.set(http.CanonicalHeaderKey(k), v)
	}
}

// request signs and addresses a request.
func (s *Sink) request(ctx context.Context, f *rouse.Fire, h headers, id string, body []byte, now time.Time) (*http.Request, error) {
	h.set(HeaderID, id)
	h.set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	if secrets := s.opts.Secrets(f.Namespace); len(secrets) > 0 {
		signature, err := signatures(secrets, id, now.Unix(), body)
		if err != nil {
			return nil, err
		}
		h.set(HeaderSignature, signature)
	}
	req, err := http.NewRequestWithContext(ctx, method(f.Spec), f.Spec.Target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h.h
	return req, nil
}
