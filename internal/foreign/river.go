package foreign

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
)

var riverNotes = []string{
	"River works a job in a program that links it; rouse calls a target, which gets the job as JSON: {\"id\": …, \"kind\": …, \"args\": …, \"queue\": …}. It can insert the job, without ScheduledAt.",
	"River waits attempt⁴ seconds before it tries again, and a minute for an attempt; here both are those of retry.",
	"The jobs stay in River: delete them there before these timers are due, or both run. Periodic jobs are not in the table, but in the program.",
}

// riverJob is a row of river_job, as row_to_json prints it.
type riverJob struct {
	ID          int64
	Kind        string
	State       string
	Queue       string
	Priority    int
	Args        json.RawMessage
	Metadata    json.RawMessage
	Tags        []string
	ScheduledAt string `json:"scheduled_at"`
	Attempt     int
	MaxAttempts int `json:"max_attempts"`
	Errors      []struct{ Error string }

	CreatedAt   ignored `json:"created_at"`
	AttemptedAt ignored `json:"attempted_at"`
	AttemptedBy ignored `json:"attempted_by"`
	FinalizedAt ignored `json:"finalized_at"`
}

func readRiver(in []byte, _ *Options) ([]Entry, error) {
	jobs, err := readObjects[json.RawMessage](in, "rows of river_job, as docs/moving-in.md exports them")
	if err != nil {
		return nil, err
	}
	return readEntries(jobs, func(in json.RawMessage, number int) (Entry, []json.RawMessage) {
		var j riverJob
		return readEntry(in, number, &j, j.newRiverEntry), nil
	}), nil
}

func (j *riverJob) newRiverEntry(number int) Entry {
	e := Entry{Line: number, Name: fmt.Sprintf("%s-%d", j.Kind, j.ID), Late: true}
	s := &e.Spec
	s.Labels = map[string]string{"kind": j.Kind, "queue": j.Queue}
	if string(j.Metadata) == "{}" {
		j.Metadata = nil
	}
	s.Payload, s.ContentType = encodePayload(struct {
		ID       int64           `json:"id"`
		Kind     string          `json:"kind"`
		Args     json.RawMessage `json:"args,omitempty"`
		Queue    string          `json:"queue"`
		Tags     []string        `json:"tags,omitempty"`
		Metadata json.RawMessage `json:"metadata,omitempty"`
	}{j.ID, j.Kind, j.Args, j.Queue, j.Tags, j.Metadata}), "application/json"
	if j.Priority > 1 {
		s.Priority = rouse.PriorityLow
	}
	at, err := rouse.ParseInstant(j.ScheduledAt)
	switch {
	case j.State != "scheduled" && j.State != "retryable":
		e.Err = rouse.Refuse("state", j.State, "is not of a job that waits for its time",
			"leave it to River, which works it now, or has done so")
	case err != nil:
		e.Err = rouse.Refuse("scheduled_at", j.ScheduledAt, "is no time", "give rows as row_to_json prints them")
	}
	s.Schedule = at.String()
	s.Retry.Attempts = max(1, countAttempts(int64(j.MaxAttempts)-int64(j.Attempt)))
	if n := len(j.Errors); j.State == "retryable" && n > 0 {
		e.noteDifference("it has failed, the last time with %q; attempts left: %d.",
			rouse.Shorten(strings.TrimSpace(j.Errors[n-1].Error), 128), s.Retry.Attempts)
	}
	return e
}
