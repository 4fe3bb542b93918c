package brokertest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Event parses a fire from a JSON event. A missing namespace is taken from its source.
func Event(body []byte) (f rouse.Fire, err error) {
	var e struct {
		ID, Source, Subject, Time, Token, Generation string
		Attempt                                      uint32
		Manual, Last                                 bool
		Traceparent                                  string
		ContentType                                  string `json:"datacontenttype"`
		Data                                         json.RawMessage
		Base64                                       []byte `json:"data_base64"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return f, err
	}
	payload := e.Base64
	if e.Data != nil {
		payload = e.Data
	}
	return Facts(map[string]string{"rouse-fire-id": e.ID, "rouse-namespace": strings.Split(e.Source+"///", "/")[2],
		"rouse-timer": e.Subject, "rouse-due": e.Time,
		"rouse-attempt": strconv.FormatUint(uint64(e.Attempt), 10), "rouse-token": e.Token, "rouse-generation": e.Generation,
		"rouse-manual": strconv.FormatBool(e.Manual), "rouse-last": strconv.FormatBool(e.Last), "traceparent": e.Traceparent},
		e.ContentType, payload)
}

// Facts parses a fire from the rouse-… headers of a message.
func Facts(h map[string]string, contentType string, payload []byte) (f rouse.Fire, err error) {
	due, err := time.Parse(time.RFC3339Nano, h["rouse-due"])
	if err != nil {
		return f, err
	}
	number := func(name string, bits int) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(h[name], 10, bits)
		}
		return n
	}
	truth := func(name string) (b bool) {
		if err == nil {
			b, err = strconv.ParseBool(h[name])
		}
		return b
	}
	f = rouse.Fire{ID: h["rouse-fire-id"], Namespace: h["rouse-namespace"], Name: h["rouse-timer"], Due: rouse.At(due),
		Attempt: uint32(number("rouse-attempt", 32)),
		Token:   number("rouse-token", 64), Generation: number("rouse-generation", 64), Manual: truth("rouse-manual"),
		Last: truth("rouse-last"), Traceparent: h["traceparent"],
		Spec: &rouse.Spec{Payload: payload, ContentType: contentType}}
	return f, err
}
