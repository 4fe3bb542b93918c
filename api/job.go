package api

import "github.com/rousehq/rouse"

// Job is a change of many timers, which goes on without the client that asked for it.
type Job struct {
	Namespace string `json:"namespace"` // "-": its timers are of all namespaces
	ID        string `json:"id"`
	// bulk, calendar or evaluate
	Kind string `json:"kind" schema:"enum=bulk|calendar|evaluate"`
	// of a bulk change, such as delete; of an evaluation why it is made: time_zones or clock
	Action   string  `json:"action,omitzero"`
	Calendar string  `json:"calendar,omitzero"` // of a calendar's job: its name
	Filter   *Filter `json:"filter,omitzero"`   // of a bulk change
	By       string  `json:"by,omitzero"`       // the principal that asked for it
	// running, done, cancelled or failed
	State    string        `json:"state" schema:"enum=running|done|cancelled|failed"`
	Problem  *Problem      `json:"problem,omitzero"` // why it failed
	Matched  uint64        `json:"matched"`          // timers, or dead letters, that it came to
	Changed  uint64        `json:"changed"`
	Failed   uint64        `json:"failed"`
	Failures []BulkFailure `json:"failures,omitempty"` // the first hundred; left out of lists
	Created  Time          `json:"created"`
	Updated  Time          `json:"updated"`        // when it made progress last
	Ended    Time          `json:"ended,omitzero"` // left out: it is running
}

// JobList is the jobs of a namespace, the latest first, without their failures.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

// JobOf returns the JSON form of a job, without its errors.
func JobOf(j *rouse.Job) Job {
	o := Job{Namespace: j.Namespace, ID: j.ID, Kind: string(j.Kind), Action: j.Action, Calendar: j.Calendar, By: j.By,
		State:   string(j.State),
		Matched: j.Matched, Changed: j.Changed, Failed: j.Failed, Created: TimeOf(j.Created), Updated: TimeOf(j.Updated),
		Ended: TimeOf(j.Ended)}
	if j.Kind == rouse.JobBulk {
		f := FilterOf(&j.Query)
		o.Filter = &f
	}
	return o
}

// FilterOf returns the JSON form of a query, without its namespace.
func FilterOf(q *rouse.Query) Filter {
	o := Filter{Prefix: q.Prefix, Name: q.Name, Labels: q.Labels, DueFrom: TimeOf(q.DueFrom), DueUntil: TimeOf(q.DueUntil),
		Text:   q.Sought.Text,
		Target: q.Sought.Target, Code: q.Sought.Code}
	for _, s := range q.States {
		o.States = append(o.States, s.String())
	}
	return o
}
