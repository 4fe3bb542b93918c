package tool

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// callback is one fire as it was received.
type callback struct {
	Received  string          `json:"received"`
	Timer     string          `json:"timer"`
	Namespace string          `json:"namespace,omitzero"`
	FireID    string          `json:"fire_id"`
	Due       string          `json:"due"`
	LagMS     *int64          `json:"lag_ms,omitzero"`
	Attempt   uint32          `json:"attempt,omitzero"`
	Token     uint64          `json:"token,omitzero"`
	Signature string          `json:"signature"`
	Answered  int             `json:"answered"`
	Method    string          `json:"method"`
	Path      string          `json:"path"`
	Type      string          `json:"content_type,omitzero"`
	Payload   json.RawMessage `json:"payload,omitzero"`        // if it is JSON
	Base64    string          `json:"payload_base64,omitzero"` // if it is not

	data []byte
}

// parseCallbacks returns the fires of a request: one in its headers or body, or a batch in its body.
func parseCallbacks(req *http.Request, body []byte) []callback {
	h := req.Header
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	var events []event
	switch kind {
	case "application/cloudevents+json":
		var e event
		if json.Unmarshal(body, &e) == nil {
			events = []event{e}
		}
	case "application/cloudevents-batch+json":
		if json.Unmarshal(body, &events) != nil {
			events = nil
		}
	}
	base := callback{Method: req.Method, Path: req.URL.RequestURI(), Namespace: h.Get("Rouse-Namespace")}
	if len(events) == 0 {
		base.Timer, base.FireID, base.Due, base.Type = unescapeName(h.Get("Rouse-Timer")), h.Get("Rouse-Fire-Id"),
			h.Get("Rouse-Due"), h.Get("Content-Type")
		base.Attempt, base.Token = parseUint32(h.Get("Rouse-Attempt")), parseUint64(h.Get("Rouse-Token"))
		if base.FireID == "" {
			base.FireID = h.Get("Webhook-Id")
		}
		base.setCallbackPayload(body)
		return []callback{base}
	}
	list := make([]callback, len(events))
	for i, e := range events {
		cb := base
		cb.Timer, cb.FireID, cb.Due, cb.Type, cb.Attempt, cb.Token = e.Subject, e.ID, e.Time, e.Type, e.Attempt,
			parseUint64(e.Token)
		switch {
		case e.Data != nil:
			cb.setCallbackPayload(e.Data)
		case e.Base64 != nil:
			cb.setCallbackPayload(e.Base64)
		}
		list[i] = cb
	}
	return list
}

// event is a CloudEvent in JSON.
type event struct {
	ID      string          `json:"id"`
	Subject string          `json:"subject"`
	Time    string          `json:"time"`
	Attempt uint32          `json:"attempt"`
	Token   string          `json:"token"`
	Type    string          `json:"datacontenttype"`
	Data    json.RawMessage `json:"data"`
	Base64  []byte          `json:"data_base64"`
}

// setCallbackPayload sets the payload.
func (c *callback) setCallbackPayload(data []byte) {
	c.data = data
	switch {
	case len(data) == 0:
	case json.Valid(data) && utf8.Valid(data):
		c.Payload = data
	default:
		c.Base64 = base64.StdEncoding.EncodeToString(data)
	}
}

// computeLag computes how late the callback came.
func (c *callback) computeLag(now time.Time) {
	if due, err := rouse.ParseInstant(c.Due); err == nil {
		ms := now.Sub(due.Time()).Milliseconds()
		c.LagMS = &ms
	}
}

// printCallback shows a callback. It is called with r.mu.
func (r *callbackReceiver) printCallback(c *callback) error {
	a := r.a
	if a.Flags.JSON {
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "%s\n", line)
		return err
	}
	late := "-"
	if c.LagMS != nil {
		late = strconv.FormatInt(*c.LagMS, 10) + "ms"
	}
	signature := a.Style.Yellow("signature " + c.Signature)
	switch {
	case c.Signature == "ok":
		signature = a.Style.Green("signature ok")
	case strings.HasPrefix(c.Signature, "refused"):
		signature = a.Style.Red("signature " + cli.CleanText(c.Signature))
	}
	_, err := fmt.Fprintf(a.Out, "%s %s  due %s  lag %s  attempt %d  fire %s  %s  answered %d\n",
		cli.CleanText(c.Received),
		a.Style.Bold(cli.CleanText(c.Timer)),
		cli.CleanText(c.Due), late, c.Attempt, cli.CleanText(c.FireID), signature, c.Answered)
	if err == nil && len(c.data) > 0 {
		text := strings.ToValidUTF8(string(c.data[:min(len(c.data), 2000)]), "\uFFFD")
		_, err = fmt.Fprintf(a.Out, "    %s\n", cli.CleanText(rouse.Shorten(text, 1000)))
	}
	return err
}

// unescapeName decodes the percent-encoding of names in headers.
func unescapeName(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

func parseUint32(s string) uint32 {
	n, _ := strconv.ParseUint(s, 10, 32)
	return uint32(n)
}

func parseUint64(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}
