// Package job converts jobs of Dapr's scheduler to timers and back.
//
// A job's owner and name become its timer's namespace and name (Ref), its receiver the target, its due times
// the schedule, and its failure policy the retries. The job itself, exactly as its client wrote it, is the
// timer's payload, from which it is returned. So rouse's own API shows each job as a timer and can pause,
// skip or explain it.
//
// The package is pure.
package job

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// ContentType is the content type of a job timer's payload: a NamedJob.
const ContentType = "application/x-protobuf"

// ErrTooLarge means that a job has more data than a timer can hold.
var ErrTooLarge = errors.New("the job is too large")

// Timer is the timer of a job.
type Timer struct {
	Spec rouse.Spec
	// First is the first due time, if the job specifies it and continues with a schedule. It may be past, or
	// so soon that it is past when the timer is written: such a timer is imported, because a created one
	// starts in the future. 0 if it specifies none.
	First rouse.Instant
	// Over means that the job has no tick: its time to live ends before it begins. It is accepted, and
	// deleted at once.
	Over bool
}

// New validates a job that is scheduled at now and returns its timer. Its errors are *rouse.Invalid or
// ErrTooLarge. Cron expressions and time zones are only checked for their form; the engine validates them.
func New(ref Ref, named *schedulerv1.NamedJob, now rouse.Instant) (t Timer, err error) {
	j := named.GetJob()
	if j == nil {
		return t, rouse.Refuse("job", "", "is missing", "give the job that is to be scheduled")
	}
	t.Spec = rouse.Spec{Target: ref.Target(), ContentType: ContentType, Misfire: rouse.MisfireAll}
	if err := t.setJobTimes(j, now); err != nil {
		return t, rouse.Under("job", err)
	}
	kept := &schedulerv1.NamedJob{Name: named.GetName(), Metadata: named.GetMetadata(), Job: j}
	if p := policyOf(j); p != j.GetFailurePolicy() {
		kept.Job = &schedulerv1.Job{Schedule: j.Schedule, Repeats: j.Repeats, DueTime: j.DueTime, Ttl: j.Ttl, Data: j.Data,
			FailurePolicy: p}
	}
	if t.Spec.Retry, err = retryOfPolicy(kept.Job.FailurePolicy); err != nil {
		return t, rouse.Under("job", err)
	}
	if t.Spec.Recurring() {
		t.Spec.Overlap = rouse.OverlapWait
	}
	if t.Spec.Payload, err = proto.Marshal(kept); err != nil {
		return t, rouse.Refuse("job", "", "cannot be encoded: "+err.Error(), "use UTF-8 in every text")
	}
	if n := len(t.Spec.Payload); n > rouse.MaxJob {
		return t, fmt.Errorf("%w: %w", ErrTooLarge, rouse.Refuse("job.data", "",
			fmt.Sprintf("has %d bytes, with the rest of the job", n),
			fmt.Sprintf("use at most %d; keep what is larger elsewhere and send its address", rouse.MaxJob)))
	}
	return t, nil
}

// Refused turns the refusal of a job's timer into a refusal of the job: the client does not know the fields
// of timers, and sent other values.
func Refused(err error, j *schedulerv1.Job) error {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok {
		return err
	}
	out := &rouse.Invalid{Problems: slices.Clone(inv.Problems)}
	for i := range out.Problems {
		switch p := &out.Problems[i]; p.Field {
		case "schedule", "timezone":
			p.Field, p.Value = "schedule", rouse.Shorten(j.GetSchedule(), maxShown)
		case "start", "also[0]":
			p.Field, p.Value = "due_time", rouse.Shorten(j.GetDueTime(), maxShown)
		case "end":
			p.Field, p.Value = "ttl", rouse.Shorten(j.GetTtl(), maxShown)
		}
	}
	return rouse.Under("job", out)
}

// maxShown bounds the value that a refusal quotes.
const maxShown = 128

// Read returns the job in a timer's payload.
func Read(spec *rouse.Spec) (*schedulerv1.NamedJob, error) {
	var named schedulerv1.NamedJob
	if err := proto.Unmarshal(spec.Payload, &named); err != nil || named.Job == nil || spec.ContentType != ContentType {
		return nil, rouse.Refuse("payload", "", "is no job of Dapr's", "schedule such timers through Dapr's protocol")
	}
	return &named, nil
}

// policyOf returns a job's failure policy; by default, three retries one second apart.
func policyOf(j *schedulerv1.Job) *schedulerv1.JobFailurePolicy {
	if p := j.GetFailurePolicy(); p.GetPolicy() != nil {
		return p
	}
	return &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{Constant: &schedulerv1.JobFailurePolicyConstant{
		Interval: durationpb.New(defaultInterval), MaxRetries: proto.Uint32(defaultRetries)}}}
}
