package server

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Headers of answers to requests to pools.
const (
	callIDHeader     = "Rouse-Call-Id"
	callStatusHeader = "Rouse-Call-Status"
)

// httpCallWait is the default wait of a request over HTTP.
const httpCallWait = 30 * time.Second

// The parts of the descriptions that only requests to pools have.
const (
	calledPool = `
parameters:
  - {name: pool, in: path, required: true, schema: {type: string, minLength: 1, maxLength: 64}, description:
      Name of a pool of this node.}
  - {name: key, in: path, required: true, schema: {type: string, minLength: 1, maxLength: 255}, description:
      'Any UTF-8 of up to 255 bytes, escaped.'}
  - {name: id, in: query, schema: {$ref: '#/components/schemas/Name'}, description:
      'Names the request, so that it can be fetched, and sent again without being done again. Made up if it is left out.'}
  - {name: wait, in: query, schema: {type: string}, description:
      'How long to wait for the answer, up to 10m; 0s is not at all. Default 30s.'}
  - {name: deadline, in: query, schema: {type: string}, description:
      'The request expires if no worker has taken it so long after it was sent. 5m if it is left out, or wait if that is less
      and nothing is kept.'}
  - {name: keep, in: query, schema: {type: string}, description:
      'How long what became of it can be fetched, up to 168h. 10m if it is left out and there is an id or no wait, else not at
      all.'}
  - {name: attempts, in: query, description: 'How often it is given to a worker, at most. Default 3.', schema: {type: integer, format: int64}}
  - {name: timeout, in: query, schema: {type: string}, description:
      'How long an attempt may take, unless its worker extends it. Default 30s.'}
requestBody: {description: 'The request, up to 256 KiB, of any type.', content: {application/json: {schema: {}},
  application/octet-stream: {schema: {type: string, format: binary}}}}
responses:
  "202": {$ref: '#/components/responses/Pending'}`
	fetchedCall = `
parameters:
  - {name: wait, in: query, schema: {type: string}, description:
      'How long to wait for its end if it is pending, up to 10m. Default 0s.'}
responses:
  "202": {$ref: '#/components/responses/Pending'}`
)

// callPool sends the body to a pool and responds with the answer of a worker. The HTTP status reports whether
// there is an answer, not its content.
func callPool(f *httpHandler, c *call) error {
	in := poolRequest{namespace: c.vars[0], pool: c.vars[1], key: c.vars[2], contentType: c.r.Header.Get("Content-Type"),
		id:   c.params.textParam("id"),
		wait: httpCallWait, kept: c.params.textParam("keep") != ""}
	for name, to := range map[string]*time.Duration{"wait": &in.wait, "deadline": &in.deadline, "keep": &in.keep,
		"timeout": &in.timeout} {
		if err := c.params.durationParam(name, to); err != nil {
			return err
		}
	}
	var err error
	if in.attempts, err = c.params.countParam("attempts"); err != nil {
		return err
	}
	if in.payload, err = c.readBody(rouse.MaxPayload); err != nil {
		return err
	}
	if err := c.extendDeadlines(in.wait); err != nil {
		return err
	}
	out, err := f.callWorker(c.r.Context(), in)
	if err != nil {
		return err
	}
	return c.replyCalled(out)
}

func fetchCall(f *httpHandler, c *call) error {
	var wait time.Duration
	if err := c.params.durationParam("wait", &wait); err != nil {
		return err
	}
	if err := c.extendDeadlines(wait); err != nil {
		return err
	}
	out, err := f.fetchOutcome(c.r.Context(), c.pathNamespace(), c.pathName(), wait)
	if err != nil {
		return err
	}
	return c.replyCalled(out)
}

// extendDeadlines extends the deadlines of a request by its wait.
func (c *call) extendDeadlines(wait time.Duration) error {
	if wait < 0 || wait > maxCallWait {
		return refuseMalformed("wait", wait.String(), "is out of bounds", "give up to "+maxCallWait.String())
	}
	control, until := http.NewResponseController(c.w), time.Now().Add(wait+writeTimeout)
	if err := control.SetReadDeadline(until); err != nil { // when it passes, the client is considered gone
		return err
	}
	return control.SetWriteDeadline(until)
}

// durationParam reads a parameter, if present.
func (p params) durationParam(name string, to *time.Duration) error {
	text := p.textParam(name)
	if text == "" {
		return nil
	}
	var d api.Duration
	if inv, ok := errors.AsType[*rouse.Invalid](d.UnmarshalText([]byte(text))); ok {
		return refuseMalformed(name, printableText(text), inv.Problems[0].Wrong, inv.Problems[0].Cure)
	}
	*to = time.Duration(d)
	return nil
}

// callWord is the status of a request as it appears in headers and problem codes.
func callWord(s rousev1.CallStatus) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "CALL_STATUS_"))
}

// replyCalled responds with the outcome of a request: its answer, that it has not ended, or a problem whose
// code is the reason.
func (c *call) replyCalled(out called) error {
	h := c.w.Header()
	h.Set(callIDHeader, headerText(out.id))
	h.Set(callStatusHeader, callWord(out.status))
	switch out.status {
	case rousev1.CallStatus_CALL_STATUS_OK:
		var a rouse.Answer
		if out.answer != nil {
			a = *out.answer
		}
		if a.ContentType == "" || headerText(a.ContentType) != a.ContentType {
			a.ContentType = "application/octet-stream"
		}
		h.Set("Content-Type", a.ContentType)
		h.Set("Content-Disposition", "attachment") // a worker's page is not shown under the address of the server
		c.w.WriteHeader(http.StatusOK)
		if c.r.Method != http.MethodHead {
			_, _ = c.w.Write(a.Payload) // ignore the error: the client is gone
		}
		return nil
	case rousev1.CallStatus_CALL_STATUS_PENDING:
		return c.replyJSON(http.StatusAccepted, api.Called{ID: out.id, Status: callWord(out.status)})
	}
	return &failure{code: callWord(out.status), detail: out.detail}
}

// headerText returns text in a form that a header may contain.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
