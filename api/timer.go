package api

import (
	"net/url"
	"strings"

	"github.com/rousehq/rouse"
)

// Timer is a timer, or a dead letter if FireID is set.
type Timer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Spec
	Generation  uint64 `json:"generation"`
	Revision    uint64 `json:"revision"`
	State       string `json:"state"` // scheduled, retrying, accepted, paused or dead
	PauseReason string `json:"pause_reason,omitzero"`
	Created     Time   `json:"created,omitzero"`
	Updated     Time   `json:"updated,omitzero"`
	Due         Time   `json:"due,omitzero"`     // of the occurrence that is next or in progress; left out when the schedule has ended
	Visible     Time   `json:"visible,omitzero"` // when rouse looks at it again
	Runs        []Time `json:"runs,omitempty"`   // asked for and not ended
	Attempts    uint32 `json:"attempts,omitzero"`
	LastError   string `json:"last_error,omitzero"`
	Ended       uint64 `json:"ended"`
	FireID      string `json:"fire_id,omitzero"`

	// InFlight is in answers to creates only: an attempt of the generation that was replaced had started and may still arrive.
	InFlight bool `json:"in_flight,omitzero"`
}

// TimerOf returns the JSON form of a timer or dead letter.
func TimerOf(t *rouse.Timer) Timer {
	o := Timer{Namespace: t.Key.Namespace, Name: t.Key.Name, Spec: SpecOf(&t.Spec), Generation: t.Generation, Revision: t.Revision,
		State: t.State().String(), PauseReason: t.Reason, Created: TimeOf(t.Created), Updated: TimeOf(t.Updated), Due: TimeOf(t.Due),
		Visible: TimeOf(t.Visible), Attempts: t.Attempts, LastError: t.LastError, Ended: t.Ended, FireID: t.Key.Fire}
	for _, r := range t.Runs {
		o.Runs = append(o.Runs, TimeOf(r))
	}
	return o
}

// NewTimer asks for a new timer. Without a name one is made up.
type NewTimer struct {
	Name string `json:"name,omitzero"`
	Spec
}

// PutTimer asks for a timer of the name in the request's path.
type PutTimer struct {
	Name             string `json:"name,omitzero"` // if given, the one of the path
	ExpectedRevision uint64 `json:"expected_revision,omitzero"`
	Spec
}

// BatchCreate asks for many timers.
type BatchCreate struct {
	Mode   string     `json:"mode,omitzero"` // create_only (the default), create_or_replace or replace_only
	Timers []NewTimer `json:"timers"`
}

// BatchCreated is the answer to BatchCreate: what became of each timer, in the order of the request.
type BatchCreated struct {
	Created []Created `json:"created"`
	Failed  int       `json:"failed"` // how many of them have a problem
}

// Created is what became of one timer of a batch. With a problem it was not created.
type Created struct {
	Name       string   `json:"name,omitzero"`
	Generation uint64   `json:"generation,omitzero"`
	Revision   uint64   `json:"revision,omitzero"`
	Due        Time     `json:"due,omitzero"`
	InFlight   bool     `json:"in_flight,omitzero"` // as in Timer
	Problem    *Problem `json:"problem,omitzero"`
}

// TimerList is a page of timers or dead letters.
type TimerList struct {
	Timers        []Timer `json:"timers"`
	NextPageToken string  `json:"next_page_token,omitzero"` // left out at the end; a page can be empty before that
}

// Count is how many timers match.
type Count struct {
	Count int64 `json:"count"`
}

// Deleted is the answer to a delete.
type Deleted struct {
	InFlight   bool   `json:"in_flight"` // an attempt had started already and may still arrive; none starts after this answer
	Generation uint64 `json:"generation"`
}

// Pause says why a timer is paused.
type Pause struct {
	Reason string `json:"reason,omitzero"`
}

// Ran is the answer to a run that was asked for.
type Ran struct {
	FireID string `json:"fire_id"`
	Due    Time   `json:"due"`
}

// Preview asks for the next times of a schedule.
type Preview struct {
	Schedule string `json:"schedule"`
	Timezone string `json:"timezone,omitzero"`
	From     Time   `json:"from,omitzero"`  // default now
	Count    uint32 `json:"count,omitzero"` // up to 1,000; default 5
}

// Next is the answer to Preview.
type Next struct {
	Next []Time `json:"next"`
}

// Version says what serves.
type Version struct {
	Version string `json:"version"`
	API     string `json:"api"`
	Go      string `json:"go"`
}

// TimerPath returns where the HTTP API has a timer. A ':' within a name is escaped: unescaped it begins a verb.
func TimerPath(namespace, name string) string {
	return "/v1/namespaces/" + url.PathEscape(namespace) + "/timers/" + strings.ReplaceAll(url.PathEscape(name), ":", "%3A")
}
