package job

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// constant is a policy; a negative number of retries is unlimited.
func constant(interval time.Duration, retries int) *schedulerv1.JobFailurePolicy {
	c := &schedulerv1.JobFailurePolicyConstant{Interval: durationpb.New(interval)}
	if retries >= 0 {
		c.MaxRetries = proto.Uint32(uint32(retries))
	}
	return &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{Constant: c}}
}

func large(n int) *anypb.Any { return &anypb.Any{Value: make([]byte, n)} }

func TestFailurePolicies(t *testing.T) {
	drop := &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Drop{Drop: &schedulerv1.JobFailurePolicyDrop{}}}
	bare := &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{Constant: &schedulerv1.JobFailurePolicyConstant{}}}
	for _, c := range []struct {
		name     string
		policy   *schedulerv1.JobFailurePolicy
		attempts uint32 // of the timer
		attempt  uint32 // that failed
		took     time.Duration
		verdict  rouse.Verdict
		after    time.Duration
	}{
		{"none", nil, 4, 1, 0, rouse.Failed, time.Second},
		{"empty", &schedulerv1.JobFailurePolicy{}, 4, 4, 0, rouse.Failed, time.Second},
		{"drop", drop, rouse.MaxLost, 1, 0, rouse.Done, 0},
		{"constant", constant(5*time.Second, 2), 3, 1, 0, rouse.Failed, 5 * time.Second},
		{"from when it was sent", constant(5*time.Second, 2), 3, 1, 2 * time.Second, rouse.Failed, 3 * time.Second},
		{"that took long", constant(5*time.Second, 2), 3, 1, time.Minute, rouse.Failed, rouse.AtOnce},
		{"no retries", constant(time.Second, 0), 2, 1, 0, rouse.Rejected, 0},
		{"negative interval", constant(-time.Second, 2), 3, 1, 0, rouse.Failed, rouse.AtOnce},
		{"long interval", constant(1000*time.Hour, 2), 3, 1, 0, rouse.Failed, 1000 * time.Hour},
		{"no interval, no end", bare, rouse.MaxAttempts, 1, 0, rouse.Failed, rouse.AtOnce},
		{"no end, at the end of counting", bare, rouse.MaxAttempts, mostRetries + 1, 0, rouse.Deferred, time.Millisecond},
		{"as many as are counted", constant(time.Second, mostRetries), mostRetries + 1, mostRetries + 1, 0, rouse.Failed, time.Second},
		{"more than are counted", constant(time.Second, 5000), rouse.MaxAttempts, mostRetries + 1, 0, rouse.Deferred, time.Second},
	} {
		j := due("1s")
		j.FailurePolicy = c.policy
		timer, err := timerOf(t, j)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := timer.Spec.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := timer.Spec.Retry.Effective().Attempts; n != c.attempts {
			t.Errorf("%s: %d attempts, want %d", c.name, n, c.attempts)
		}
		kept, err := Read(&timer.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if o := Failed(kept.Job.FailurePolicy, c.attempt, c.took); o.Verdict != c.verdict || o.After != c.after || o.Detail == "" {
			t.Errorf("%s: %+v, want %v after %v", c.name, o, c.verdict, c.after)
		}
	}
	j := due("1s")
	j.FailurePolicy = &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{
		Constant: &schedulerv1.JobFailurePolicyConstant{Interval: &durationpb.Duration{Seconds: 1, Nanos: -1}}}}
	if _, err := timerOf(t, j); err == nil {
		t.Error("an interval that is no duration is taken")
	}
}
