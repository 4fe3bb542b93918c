// Package audit logs the calls of clients: one event for each call that changes something or reveals much,
// and for each that was refused.
//
//	door ─► Log.Begin ─► operation ─► Touched ─► Call.End ─► queue ─► writer ─┬─► files, standard output
//	         reserves a place                     waits until it is written     └─► rows of the store ─► Search
//
// A call that changes something begins only if there is a place for its event in the queue, and its answer
// waits until the event is written. So each acknowledged change has its event, also after a crash; while
// events cannot be written, nothing is changed (Options.Drop is the other rule: calls go on, and events are
// dropped and counted).
//
// Events have names and revisions, never payloads, headers, secrets or texts of errors. A nil *Log and a nil
// *Call are a log that is off: their methods do nothing, and allocate nothing.
package audit

import (
	"encoding/json"
	"time"

	"github.com/rousehq/rouse"
)

// Event is the record of one call.
type Event struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"` // when the call ended, by the store's clock
	Node      string    `json:"node,omitempty"`
	Door      string    `json:"door"`                 // grpc, http, admin or dapr; job: of a part of a job
	Remote    string    `json:"remote,omitempty"`     // address of the caller
	Request   string    `json:"request_id,omitempty"` // that the caller sent
	Principal string    `json:"principal,omitempty"`  // such as key:ID; empty: none was authenticated
	Name      string    `json:"principal_name,omitempty"`
	Source    string    `json:"principal_source,omitempty"` // key, certificate or token
	Verb      string    `json:"verb"`
	Method    string    `json:"method"` // /rouse.v1.Timers/Delete, or "POST /v1/session" of HTTP alone, or "job delete"
	Namespace string    `json:"namespace,omitempty"`
	Names     []string  `json:"names,omitempty"` // the first names that were changed, or those of the request
	Changed   uint64    `json:"changed,omitempty"`
	Failed    uint64    `json:"failed,omitempty"` // of a batch
	Hash      string    `json:"hash,omitempty"`   // of all names that were changed, if they are more than one: see Hash
	// revision before the change; "none": it did not exist; empty: not known
	Before   string        `json:"before,omitempty"`
	After    string        `json:"after,omitempty"`  // "none": it exists no more
	Outcome  string        `json:"outcome"`          // "ok", or the code of the error
	Reason   string        `json:"reason,omitempty"` // of a refusal; or Again
	Duration time.Duration `json:"duration_ns"`
}

// OK is the outcome of a call that was not refused and did not fail.
const OK = "ok"

// Again is the reason in the event of a call that was carried out before.
const Again = "repeated"

// stranger is the outcome of a call whose caller could not be authenticated.
const stranger = "unauthenticated"

// None is the revision of something that does not exist.
const None = "none"

// Several is the namespace of an event about more than one.
const Several = "-"

// Bounds of an event. With them an event has at most about 8 KiB.
const (
	MaxNames = 10
	maxName  = 256 // bytes of each text that a caller chose
)

// Line returns the event as a line of JSON.
func (e *Event) Line() []byte {
	b, err := json.Marshal(e)
	if err != nil { // there is nothing in it that cannot be encoded
		panic(err)
	}
	return append(b, '\n')
}

// Read reads an event from a line.
func Read(line []byte) (e Event, err error) {
	err = json.Unmarshal(line, &e)
	return e, err
}

// Instant returns the time of the event.
func (e *Event) Instant() rouse.Instant { return rouse.Reached(e.Time) }
