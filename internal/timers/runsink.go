package timers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// runScheme begins targets that are timers: "timer:NAME".
const runScheme = "timer:"

// maxChain bounds the timers that follow one another by targets that are timers.
const maxChain = 16

// RunSink is the sink of the targets "timer:NAME": a fire runs the timer of that name, in the same namespace,
// once for each fire id. So as a target of Spec.OnSuccess it starts a timer after another one.
type RunSink struct {
	Timers func() *Timers // in which it runs them; called when a fire is delivered
}

// Check refuses targets that are no name of a timer.
func (*RunSink) Check(spec *rouse.Spec) error {
	if err := rouse.CheckName(strings.TrimPrefix(spec.Target, runScheme)); err != nil {
		return rouse.Refuse("target", spec.Target, "names no timer", `write "timer:" and the name of a timer of the namespace`)
	}
	return nil
}

// Lane returns the lane of all of them of a namespace.
func (*RunSink) Lane(string, *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: runScheme, Limit: 16, Batch: 1}
}

// Deliver runs the timers.
func (s *RunSink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i := range fires {
		f := &fires[i]
		key := rouse.Key{Namespace: f.Namespace, Name: strings.TrimPrefix(f.Spec.Target, runScheme)}
		within, cancel := context.WithTimeout(access.RepeatableParts(access.AsSystem(ctx), f.ID), f.Spec.Retry.Effective().Timeout)
		_, _, err := s.Timers().RunNow(within, key)
		cancel()
		o := rouse.Outcome{Verdict: rouse.Done}
		switch {
		case errors.Is(err, rouse.ErrNotFound):
			o = rouse.Outcome{Verdict: rouse.Rejected, Detail: fmt.Sprintf("there is no timer %q", key.Name)}
		case err != nil:
			o = rouse.Outcome{Verdict: rouse.Failed, Detail: err.Error()}
		}
		settle(i, o)
	}
}

// runTargets returns the timers that the timer of a spec runs.
func runTargets(s *rouse.Spec) (names []string) {
	for _, to := range append(s.NoticeTargets(), rouse.NoticeTarget{Field: "target", Target: s.Target}) {
		if name, ok := strings.CutPrefix(to.Target, runScheme); ok {
			names = append(names, name)
		}
	}
	return names
}

// checkRunTargets refuses a timer that runs others if the caller may not run each timer of the namespace, or
// if timers would run each other in a circle. Two writes at the same time may close one all the same.
func (ts *Timers) checkRunTargets(ctx context.Context, key rouse.Key, s *rouse.Spec) error {
	names := runTargets(s)
	if len(names) == 0 {
		return nil
	}
	if err := ts.access.Require(ctx, access.TimersRun, key.Namespace, "", nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for depth, seen := 1, map[string]bool{}; len(names) > 0; depth++ {
		keys := make([]rouse.Key, 0, len(names))
		for _, name := range names {
			if name == key.Name {
				return rouse.Refuse("target", runScheme+name, "runs the timer that runs it, in a circle",
					"give one of them another target")
			}
			if !seen[name] {
				seen[name] = true
				keys = append(keys, rouse.Key{Namespace: key.Namespace, Name: name})
			}
		}
		if depth > maxChain || len(seen) > maxChain*maxChain {
			return rouse.Refuse("target", runScheme+names[0], fmt.Sprintf("is the end of a chain of more than %d timers", maxChain),
				"let a timer run several others instead of one after another")
		}
		rows, err := ts.store.Get(ctx, keys)
		if err != nil {
			return err
		}
		names = nil
		for i := range rows {
			if rows[i].Revision == 0 {
				continue
			}
			if t, err := ts.Read(&rows[i]); err == nil {
				names = append(names, runTargets(&t.Spec)...)
			}
		}
	}
	return nil
}
