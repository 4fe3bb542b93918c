package job

import (
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// The retries of a job without a failure policy.
const (
	defaultInterval = time.Second
	defaultRetries  = 3
)

// Bounds of a timer's retries. More retries than can be counted are unlimited.
const (
	mostRetries  = rouse.MaxAttempts - 2 // one attempt is never made, so that none is the last
	mostInterval = 24 * time.Hour
)

// retryOfPolicy returns the retries for a failure policy. Failed decides; these values are for display and
// for the count.
func retryOfPolicy(p *schedulerv1.JobFailurePolicy) (rouse.Retry, error) {
	c := p.GetConstant()
	if c == nil { // a failure ends the trigger, by Failed; the end of its stream does not
		return rouse.Retry{Attempts: rouse.MaxLost}, nil
	}
	if c.Interval != nil && !c.Interval.IsValid() {
		return rouse.Retry{}, rouse.Refuse("failure_policy.constant.interval", "", "is no duration",
			"give seconds and nanoseconds of one sign")
	}
	shown := min(max(c.Interval.AsDuration(), time.Millisecond), mostInterval)
	r := rouse.Retry{Attempts: rouse.MaxAttempts, Interval: shown, Factor: 1, Max: shown, Jitter: -1}
	if n := c.MaxRetries; n != nil && *n <= mostRetries {
		r.Attempts = max(*n+1, 2) // without retries, Failed ends the trigger; the second is for a stream that has ended
	}
	return r, nil
}

// Failed returns the outcome of a trigger that was sent that long ago and has failed now, at its n-th attempt
// (1 is the first). Retries are one interval apart, counted from when they were sent, not from when they
// failed.
func Failed(p *schedulerv1.JobFailurePolicy, attempt uint32, took time.Duration) rouse.Outcome {
	const detail = "the app reported a failure"
	c := p.GetConstant()
	if c == nil {
		return rouse.Outcome{Verdict: rouse.Done, Detail: detail + ", and the job's policy is to drop it"}
	}
	o := rouse.Outcome{Verdict: rouse.Failed, After: max(c.Interval.AsDuration()-took, rouse.AtOnce), Detail: detail}
	if endless := c.MaxRetries == nil || *c.MaxRetries > mostRetries; endless && attempt > mostRetries {
		o.Verdict, o.After = rouse.Deferred, max(o.After, time.Millisecond)
	} else if !endless && *c.MaxRetries == 0 { // retry has one more attempt
		o.Verdict, o.After = rouse.Rejected, 0
	}
	return o
}
