// Package job makes timers of the jobs of Dapr's scheduler, and jobs of those timers again.
//
// Whose a job is becomes its timer's namespace and name (Ref), where it goes its target, when it is due its schedule, and what
// becomes of a failure its retries. The job itself, with every text as its client wrote it, is the timer's payload, from which
// it is given back. So rouse's own API sees each job as a timer, and may pause, skip or explain it.
//
// It is pure.
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

// ContentType is that of the payload of a job's timer: a NamedJob.
const ContentType = "application/x-protobuf"

// ErrTooLarge says that a job has more data than a timer can hold.
var ErrTooLarge = errors.New("the job is too large")

// Timer is what a job comes to.
type Timer struct {
	Spec rouse.Spec
	// First is the first due time, if the job says it and has a schedule that goes on from there. It may be past, or so soon that it is
	// past when the timer is written: such a timer is imported, as one that is created looks forward only. 0 if there is none.
	First rouse.Instant
	// Over says that the job has no tick: its time to live ends before it begins. It is taken, and gone at once.
	Over bool
}

// New checks a job that is scheduled at now, and returns its timer. What it refuses, it refuses with an *rouse.Invalid, or with
// ErrTooLarge. What is wrong with a cron expression or a time zone beyond its form is left for the engine to find.
func New(ref Ref, named *schedulerv1.NamedJob, now rouse.Instant) (t Timer, err error) {
	j := named.GetJob()
	if j == nil {
		return t, rouse.Refuse("job", "", "is missing", "give the job that is to be scheduled")
	}
	t.Spec = rouse.Spec{Target: ref.Target(), ContentType: ContentType, Misfire: rouse.MisfireAll}
	if err := t.when(j, now); err != nil {
		return t, rouse.Under("job", err)
	}
	kept := &schedulerv1.NamedJob{Name: named.GetName(), Metadata: named.GetMetadata(), Job: j}
	if p := policyOf(j); p != j.GetFailurePolicy() {
		kept.Job = &schedulerv1.Job{Schedule: j.Schedule, Repeats: j.Repeats, DueTime: j.DueTime, Ttl: j.Ttl, Data: j.Data, FailurePolicy: p}
	}
	if t.Spec.Retry, err = retry(kept.Job.FailurePolicy); err != nil {
		return t, rouse.Under("job", err)
	}
	if t.Spec.Recurring() {
		t.Spec.Overlap = rouse.OverlapWait
	}
	if t.Spec.Payload, err = proto.Marshal(kept); err != nil {
		return t, rouse.Refuse("job", "", "cannot be encoded: "+err.Error(), "use UTF-8 in every text")
	}
	if n := len(t.Spec.Payload); n > rouse.MaxJob {
		return t, fmt.Errorf("%w: %w", ErrTooLarge, rouse.Refuse("job.data", "", fmt.Sprintf("has %d bytes, with the rest of the job", n),
			fmt.Sprintf("use at most %d; keep what is larger elsewhere and send its address", rouse.MaxJob)))
	}
	return t, nil
}

// Refused returns the refusal of a job's timer as a refusal of the job: the client knows no fields of timers, and sent other values.
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

// maxShown bounds the value of a field in a refusal.
const maxShown = 128

// Read returns the job that is in the payload of a timer.
func Read(spec *rouse.Spec) (*schedulerv1.NamedJob, error) {
	var named schedulerv1.NamedJob
	if err := proto.Unmarshal(spec.Payload, &named); err != nil || named.Job == nil || spec.ContentType != ContentType {
		return nil, rouse.Refuse("payload", "", "is no job of Dapr's", "schedule such timers through Dapr's protocol")
	}
	return &named, nil
}

// policyOf returns the failure policy that a job has: three retries a second apart, if it says nothing.
func policyOf(j *schedulerv1.Job) *schedulerv1.JobFailurePolicy {
	if p := j.GetFailurePolicy(); p.GetPolicy() != nil {
		return p
	}
	return &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{Constant: &schedulerv1.JobFailurePolicyConstant{
		Interval: durationpb.New(defaultInterval), MaxRetries: proto.Uint32(defaultRetries)}}}
}
