package rouse

import (
	"slices"
	"strings"
	"time"
)

// Job is a change of many timers. It goes on without the client that asked for it, and after a crash: it is a
// row that needs attention until all timers are changed.
type Job struct {
	Namespace string // Everywhere: its timers are of all namespaces
	ID        string // unique in the namespace; those of bulk changes are in the order of their creation
	Kind      JobKind
	Action    string // of a bulk change, such as delete; of an evaluation, why it is made: EvaluateZones
	Calendar  string // of a calendar's job: its name
	Query     Query  // of a bulk change
	By        string // id of the principal that asked for it; empty: access control was off

	State    JobState
	Err      error  // why it failed
	Matched  uint64 // timers, or dead letters, that it came to
	Changed  uint64
	Failed   uint64
	Failures []JobFailure // the first ones, at most MaxJobFailures
	Targets  []JobTarget  // of a redrive: where the dead letters go, at most MaxJobTargets and one for the others

	Created Instant
	Updated Instant // when it made progress last
	Ended   Instant // 0: it is running
}

// JobFailure is a timer or a dead letter that a job could not change.
type JobFailure struct {
	Key Key
	Err error
}

// JobTarget is a target that dead letters were redriven to.
type JobTarget struct {
	Target string // empty: those beyond the first MaxJobTargets
	Count  uint64
}

// CountTarget counts a dead letter that was redriven to a target.
func (j *Job) CountTarget(target string) {
	i := slices.IndexFunc(j.Targets, func(t JobTarget) bool { return t.Target == target })
	if i < 0 && len(j.Targets) >= MaxJobTargets {
		target = ""
		i = slices.IndexFunc(j.Targets, func(t JobTarget) bool { return t.Target == "" })
	}
	if i < 0 {
		i = len(j.Targets)
		j.Targets = append(j.Targets, JobTarget{Target: target})
	}
	j.Targets[i].Count++
}

// JobKind is the kind of change that a job makes.
type JobKind string

// The kinds of jobs.
const (
	JobBulk     JobKind = "bulk"     // one action on all timers, or dead letters, that match
	JobCalendar JobKind = "calendar" // moves the timers that use a calendar to their due times by its new days
	// moves timers in time zones to their due times, as if their schedules were read for the first time
	JobEvaluate JobKind = "evaluate"
)

// EvaluateZones is the action of the evaluation after the rules of time zones have changed. A store has one
// such job, which the next change begins again.
const EvaluateZones = "time_zones"

// JobState is how far a job is.
type JobState string

// The states of jobs.
const (
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobCancelled JobState = "cancelled" // by a client; its changes so far stay
	JobFailed    JobState = "failed"    // it could not go on, such as one whose caller has lost a role
)

// Limits on jobs.
const (
	MaxJobs        = 1000               // bulk changes that a namespace keeps; the oldest that have ended are removed
	JobAge         = 7 * 24 * time.Hour // for how long a job is kept after its end
	MaxJobFailures = 100
	MaxJobTargets  = 20
)

// Everywhere stands for all namespaces where one is named.
const Everywhere = "-"

// jobName begins the names of rows of jobs. Their fire is ExpectFire, too: they need attention as well.
const jobName = "\x01job/"

// JobKey returns the key of the row of a job. Jobs of all namespaces are in the reserved one.
func JobKey(namespace, id string) Key {
	if namespace == Everywhere {
		namespace = ReservedNamespace
	}
	return Key{Namespace: namespace, Name: jobName + id, Fire: ExpectFire}
}

// IsJob reports whether a key is that of a job's row.
func IsJob(k Key) bool { return k.Fire == ExpectFire && strings.HasPrefix(k.Name, jobName) }

// JobQuery returns the query that lists the rows of jobs of which the id has a beginning, of one namespace,
// or of all if it is empty.
func JobQuery(namespace, prefix string, limit int) Query {
	return Query{Namespace: namespace, Prefix: jobName + prefix, States: []State{StateNote}, Limit: limit}
}

// Row returns the timer that the row of a job is stored as, with the data that it resumes from as its
// payload. It needs attention at a time.
func (j *Job) Row(bucket uint32, payload []byte, at Instant) Timer {
	return Timer{Key: JobKey(j.Namespace, j.ID), Bucket: bucket, Created: j.Created, Updated: j.Updated,
		Spec: Spec{Payload: payload}, Due: Never, Visible: at}
}
