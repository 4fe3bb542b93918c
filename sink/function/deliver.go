package function

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Deliver calls the functions of the fires, and returns when each has returned or was abandoned.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	var calls sync.WaitGroup
	for i := range fires {
		if i == len(fires)-1 { // usually the only one
			settle(i, s.attemptFire(ctx, &fires[i]))
			break
		}
		calls.Go(func() { settle(i, s.attemptFire(ctx, &fires[i])) })
	}
	calls.Wait()
}

// attemptFire calls the function of one fire and returns the outcome.
func (s *Sink) attemptFire(ctx context.Context, f *rouse.Fire) rouse.Outcome {
	if err := s.Check(f.Spec); err != nil {
		return rouse.Outcome{Verdict: rouse.Rejected, Detail: printableDetail(err.Error())}
	}
	fn := s.findFunction(f.Spec.Target)
	switch {
	case ctx.Err() != nil:
		return stopping
	case fn == nil:
		late := s.opts.Now().Sub(f.Due)
		return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber,
			After:  min(max(late/2, time.Second), 30*time.Second),
			Detail: printableDetail(unregistered + f.Spec.Target)}
	}
	if o, ok := s.awaitPlace(ctx, fn); !ok {
		return o
	}
	return s.callFunction(ctx, fn, *f)
}

var stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond,
	Detail: "not called: the service is stopping"}

// awaitPlace waits for a free place of the function. Places run out only while other namespaces call it too,
// or while abandoned calls still run.
func (s *Sink) awaitPlace(ctx context.Context, fn *registered) (o rouse.Outcome, ok bool) {
	select {
	case fn.places <- struct{}{}:
		return o, true
	default:
	}
	limit := time.NewTimer(s.opts.Wait)
	defer limit.Stop()
	select {
	case fn.places <- struct{}{}:
		return o, true
	case <-ctx.Done():
		return stopping, false
	case <-limit.C:
		return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Second,
				Detail: fmt.Sprintf("not called: all %d calls of the function that may run at a time are running", cap(fn.places))},
			false
	}
}

// callFunction runs the function with the attempt's timeout. Its place is released when the function returns.
func (s *Sink) callFunction(ctx context.Context, fn *registered, f rouse.Fire) rouse.Outcome {
	timeout := f.Spec.Retry.Effective().Timeout
	run, cancel := context.WithTimeout(ctx, timeout)
	ended := make(chan error, 1)
	go func() { // in its own goroutine: a function that never returns must not prevent the engine's shutdown
		defer func() { <-fn.places }()
		defer cancel()
		s.callSafely(run, fn.call, f, ended)
	}()
	select {
	case err := <-ended:
		return errorOutcome(ctx, run, err, timeout)
	case <-run.Done():
	}
	linger := time.NewTimer(s.opts.Linger)
	defer linger.Stop()
	select {
	case err := <-ended:
		return errorOutcome(ctx, run, err, timeout)
	case <-linger.C:
	}
	if ctx.Err() != nil {
		return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond,
			Detail: "left behind: the service is stopping, and the function goes on"}
	}
	return rouse.Outcome{Verdict: rouse.Failed,
		Detail: fmt.Sprintf("left behind: the function goes on after its timeout of %v", timeout)}
}
