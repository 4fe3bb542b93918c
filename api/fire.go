package api

import "github.com/go-json-experiment/json/jsontext"

// Poll asks for fires of a stream target.
type Poll struct {
	// of the target stream:CHANNEL; default that of stream:
	Channel    string            `json:"channel,omitzero" schema:"maxLength=128"`
	NamePrefix string            `json:"name_prefix,omitzero" schema:"maxLength=256"`
	Labels     map[string]string `json:"labels,omitzero" schema:"maxProperties=32,values.maxLength=256"`
	Max        uint32            `json:"max,omitzero" schema:"minimum=1,maximum=256,default=16"` // fires in the answer
	// for the first fire; up to 30s, the default
	Wait *Duration `json:"wait,omitzero" schema:"default=30s"`
}

// Polled is the answer to Poll.
type Polled struct {
	Fires []Fire `json:"fires"` // none if the wait is over, or the server stops
}

// Fire is a fire that a poll has taken. Its receiver reports on it before the deadline.
type Fire struct {
	// the same for every attempt of an occurrence, for ever
	FireID        string            `json:"fire_id" schema:"FireID"`
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name" schema:"Name"`
	Generation    uint64            `json:"generation"`
	Due           Time              `json:"due"`
	Attempt       uint32            `json:"attempt"` // 1 is the first
	Token         uint64            `json:"token"`   // fencing token, for reports: grows from attempt to attempt
	Manual        bool              `json:"manual,omitzero"`
	Last          bool              `json:"last,omitzero"` // no attempt follows this one
	Deadline      Time              `json:"deadline"`      // when the attempt fails without a report
	Payload       jsontext.Value    `json:"payload,omitzero"`
	PayloadBase64 []byte            `json:"payload_base64,omitzero"` // a payload that is not JSON
	ContentType   string            `json:"content_type,omitzero"`
	Labels        map[string]string `json:"labels,omitzero"`
	Traceparent   string            `json:"traceparent,omitzero"` // of the span of the attempt
}
