package function

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

// ErrGone, returned by a function or wrapped in its error, ends the timer.
var ErrGone = errors.New("the function wants no more of this timer")

// Permanent returns an error that makes the fire a dead letter immediately, because another attempt would
// fail, too. It is nil if err is.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error { return p.error }

// RetryAfter returns an error that sets the time of the next attempt instead of the timer's own backoff; 0
// is immediately. It is nil if err is. A *rouse.RetryAfter, as package client returns it, has the same
// effect.
func RetryAfter(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &rouse.RetryAfter{Err: err, After: after}
}

// maxRetryAfter bounds how far a function can defer the next attempt, as a timer's own backoff is bounded.
const maxRetryAfter = 7 * 24 * time.Hour

// errorOutcome returns the outcome for a function's error. ctx is the delivery's, run the one that the
// function was given.
func errorOutcome(ctx, run context.Context, err error, timeout time.Duration) rouse.Outcome {
	if err == nil { // even if its ctx has ended: it has done its work
		return rouse.Outcome{Verdict: rouse.Done}
	}
	detail := printableDetail(err.Error())
	detail = cmp.Or(detail, "the function returned an error without text")
	var again *rouse.RetryAfter
	var never *permanent
	switch {
	case errors.Is(err, ErrGone):
		return rouse.Outcome{Verdict: rouse.Gone, Detail: detail}
	case errors.As(err, &never):
		return rouse.Outcome{Verdict: rouse.Rejected, Detail: detail}
	case ctx.Err() != nil:
		return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond,
			Detail: printableDetail("broken off, as the service is stopping: " + detail)}
	case errors.As(err, &again):
		return rouse.Outcome{Verdict: rouse.Failed, After: min(max(again.After, rouse.AtOnce), maxRetryAfter), Detail: detail}
	case errors.Is(run.Err(), context.DeadlineExceeded):
		detail = printableDetail(fmt.Sprintf("timeout of %v: %s", timeout, detail))
	}
	return rouse.Outcome{Verdict: rouse.Failed, Detail: detail}
}

// callSafely calls a function and sends its result; a panic, or the end of its goroutine, counts as an error.
func (s *Sink) callSafely(ctx context.Context, call Handler, f rouse.Fire, ended chan<- error) {
	err := errors.New("the function ended its goroutine")
	returned := false
	defer func() {
		if !returned {
			if value := recover(); value != nil {
				err = fmt.Errorf("panic: %v (%s)", value, panicOrigin())
				s.opts.Panicked(f, value, debug.Stack())
			}
		}
		ended <- err
	}()
	err = call(ctx, f)
	returned = true
}

// panicOrigin returns the place that panicked: the first frame outside of the runtime below the deferred
// function.
func panicOrigin() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			return fmt.Sprintf("%s, %s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:],
				f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return "place unknown"
		}
	}
}

// printableDetail returns text in a form that fits a record: shortened, on one line.
func printableDetail(s string) string {
	return rouse.Shorten(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, rouse.Shorten(s, 2*rouse.MaxDetail))), rouse.MaxDetail)
}
