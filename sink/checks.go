package sink

import (
	"context"

	"github.com/rousehq/rouse"
)

// Checks is the sink of checks (rouse.CheckTarget). It validates targets only: checks are never sent.
type Checks struct{}

// Check refuses other targets.
func (Checks) Check(spec *rouse.Spec) error {
	if !spec.IsCheck() {
		return rouse.Refuse("target", spec.Target, "is no target of a check", "use "+rouse.CheckTarget)
	}
	return nil
}

// Lane returns a lane that nothing is in.
func (Checks) Lane(string, *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: rouse.CheckTarget, Limit: 1, Batch: 1}
}

// Deliver refuses the fires.
func (Checks) Deliver(_ context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i := range fires {
		settle(i, rouse.Outcome{Verdict: rouse.Rejected, Detail: "a check is never sent"})
	}
}
