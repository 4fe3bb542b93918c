package function

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

func fire(target string, timeout time.Duration) rouse.Fire {
	return rouse.Fire{ID: "id", Namespace: "ns", Name: "n", Due: rouse.Reached(time.Now()), Attempt: 1,
		Spec: &rouse.Spec{Target: target, Payload: []byte("x"), Retry: rouse.Retry{Timeout: timeout}}}
}

// deliver delivers one fire and returns its outcome.
func deliver(t *testing.T, ctx context.Context, s *Sink, f rouse.Fire) rouse.Outcome {
	t.Helper()
	var got []rouse.Outcome
	s.Deliver(ctx, []rouse.Fire{f}, func(_ int, o rouse.Outcome) { got = append(got, o) })
	if len(got) != 1 {
		t.Fatalf("%d outcomes", len(got))
	}
	return got[0]
}

func handle(t *testing.T, s *Sink, name string, fn Handler, opts ...Option) {
	t.Helper()
	if err := s.Handle(name, fn, opts...); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAFunctionReturnsIsTheOutcome(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		err  error
		want rouse.Outcome
	}{
		"nil":           {nil, rouse.Outcome{Verdict: rouse.Done}},
		"error":         {boom, rouse.Outcome{Verdict: rouse.Failed, Detail: "boom"}},
		"permanent":     {fmt.Errorf("while: %w", Permanent(boom)), rouse.Outcome{Verdict: rouse.Rejected, Detail: "while: boom"}},
		"permanent nil": {Permanent(nil), rouse.Outcome{Verdict: rouse.Done}},
		"later":         {fmt.Errorf("while: %w", RetryAfter(boom, time.Hour)), rouse.Outcome{Verdict: rouse.Failed, After: time.Hour, Detail: "while: boom"}},
		"later nil":     {RetryAfter(nil, time.Hour), rouse.Outcome{Verdict: rouse.Done}},
		"at once":       {RetryAfter(boom, 0), rouse.Outcome{Verdict: rouse.Failed, After: rouse.AtOnce, Detail: "boom"}},
		"before":        {RetryAfter(boom, -time.Hour), rouse.Outcome{Verdict: rouse.Failed, After: rouse.AtOnce, Detail: "boom"}},
		"much later":    {RetryAfter(boom, 1<<62), rouse.Outcome{Verdict: rouse.Failed, After: maxRetryAfter, Detail: "boom"}},
		"gone":          {fmt.Errorf("left: %w", ErrGone), rouse.Outcome{Verdict: rouse.Gone, Detail: "left: the function wants no more of this timer"}},
		"no text":       {errors.New(""), rouse.Outcome{Verdict: rouse.Failed, Detail: "the function returned an error without text"}},
		"hostile text":  {errors.New("a\n\x1b[31m\xffb\u202e"), rouse.Outcome{Verdict: rouse.Failed, Detail: "a  [31m b"}},
		"long text":     {errors.New(strings.Repeat("ü", 500)), rouse.Outcome{Verdict: rouse.Failed, Detail: strings.Repeat("ü", 126) + "…"}},
		"inner timeout": {context.DeadlineExceeded, rouse.Outcome{Verdict: rouse.Failed, Detail: "context deadline exceeded"}},
	} {
		s := New(Options{})
		handle(t, s, "f", func(context.Context, rouse.Fire) error { return c.err })
		if got := deliver(t, t.Context(), s, fire("func:f", 0)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAPanicIsAFailure(t *testing.T) {
	var stack string
	s := New(Options{Panicked: func(f rouse.Fire, value any, st []byte) { stack = fmt.Sprint(f.ID, value, string(st)) }})
	handle(t, s, "panics", func(context.Context, rouse.Fire) error { panic("boom") })
	handle(t, s, "nil", func(_ context.Context, f rouse.Fire) error { var p *rouse.Spec; return errors.New(p.Target + f.ID) })
	handle(t, s, "exits", func(context.Context, rouse.Fire) error { runtime.Goexit(); return nil })
	o := deliver(t, t.Context(), s, fire("func:panics", 0))
	if o.Verdict != rouse.Failed || !strings.HasPrefix(o.Detail, "panic: boom (function.TestAPanicIsAFailure.func2, function_test.go:") {
		t.Errorf("%+v", o)
	}
	if !strings.HasPrefix(stack, "idboom") || !strings.Contains(stack, "TestAPanicIsAFailure") {
		t.Errorf("the stack: %s", stack)
	}
	o = deliver(t, t.Context(), s, fire("func:nil", 0))
	if o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "nil pointer") || !strings.Contains(o.Detail, "function_test.go:") {
		t.Errorf("%+v", o)
	}
	if o = deliver(t, t.Context(), s, fire("func:exits", 0)); o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "goroutine") {
		t.Errorf("%+v", o)
	}
}

func TestAFireOfAnUnregisteredFunction(t *testing.T) {
	s := New(Options{})
	f := fire("func:later", 0)
	o := deliver(t, t.Context(), s, f)
	if o.Verdict != rouse.Deferred || o.After != time.Second || !strings.Contains(o.Detail, "no function is registered here for func:later") {
		t.Errorf("%+v", o)
	}
	f.Due -= 3_600_000
	if o = deliver(t, t.Context(), s, f); o.After != 30*time.Second {
		t.Errorf("an hour late: %+v", o)
	}
	if s.Obstacle("ns", f.Spec) != o.Detail || s.Lane("ns", f.Spec).Spend {
		t.Error("it counts as registered")
	}
	handle(t, s, "later", func(context.Context, rouse.Fire) error { return nil }) // while it runs
	if o = deliver(t, t.Context(), s, f); o.Verdict != rouse.Done || s.Obstacle("ns", f.Spec) != "" {
		t.Errorf("registered: %+v", o)
	}
}

func TestAFunctionHasItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		handle(t, s, "obeys", func(ctx context.Context, _ rouse.Fire) error { <-ctx.Done(); return ctx.Err() })
		handle(t, s, "done", func(ctx context.Context, _ rouse.Fire) error { <-ctx.Done(); return nil })
		release := make(chan struct{})
		handle(t, s, "deaf", func(context.Context, rouse.Fire) error { <-release; return nil }, Concurrency(1))
		begin := time.Now()
		o := deliver(t, t.Context(), s, fire("func:obeys", 5*time.Second))
		if o.Verdict != rouse.Failed || o.Detail != "timeout of 5s: context deadline exceeded" || time.Since(begin) != 5*time.Second {
			t.Errorf("%+v after %v", o, time.Since(begin))
		}
		begin = time.Now()
		if deliver(t, t.Context(), s, fire("func:obeys", 0)); time.Since(begin) != rouse.DefaultRetry.Timeout {
			t.Errorf("the default timeout is %v", time.Since(begin))
		}
		if o = deliver(t, t.Context(), s, fire("func:done", time.Second)); o.Verdict != rouse.Done {
			t.Errorf("done although late: %+v", o)
		}
		begin = time.Now()
		o = deliver(t, t.Context(), s, fire("func:deaf", 5*time.Second))
		if o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "left behind") || time.Since(begin) != 6*time.Second {
			t.Errorf("%+v after %v", o, time.Since(begin))
		}
		// Its place is taken until it ends.
		if o = deliver(t, t.Context(), s, fire("func:deaf", 5*time.Second)); o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, "all 1 calls") {
			t.Errorf("%+v", o)
		}
		if o := s.Obstacle("ns", &rouse.Spec{Target: "func:deaf"}); !strings.Contains(o, "all 1 calls") {
			t.Errorf("obstacle %q", o)
		}
		close(release)
		synctest.Wait()
		if o = deliver(t, t.Context(), s, fire("func:deaf", 5*time.Second)); o.Verdict != rouse.Done {
			t.Errorf("%+v", o)
		}
	})
}

func TestAFunctionEndsWhenTheEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		release := make(chan struct{})
		defer close(release)
		handle(t, s, "obeys", func(ctx context.Context, _ rouse.Fire) error { <-ctx.Done(); return fmt.Errorf("sorry: %w", ctx.Err()) })
		handle(t, s, "done", func(ctx context.Context, _ rouse.Fire) error { <-ctx.Done(); return nil })
		handle(t, s, "never", func(ctx context.Context, _ rouse.Fire) error { <-ctx.Done(); return Permanent(ctx.Err()) })
		handle(t, s, "deaf", func(context.Context, rouse.Fire) error { <-release; return nil })
		for name, want := range map[string]rouse.Verdict{"obeys": rouse.Deferred, "done": rouse.Done, "never": rouse.Rejected, "deaf": rouse.Deferred, "unknown": rouse.Deferred} {
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(time.Minute, cancel)
			begin := time.Now()
			o := deliver(t, ctx, s, fire("func:"+name, time.Hour))
			if stop.Stop(); o.Verdict != want || time.Since(begin) > time.Minute+s.opts.Linger {
				t.Errorf("%s: %+v after %v", name, o, time.Since(begin))
			}
			cancel()
			if o = deliver(t, ctx, s, fire("func:"+name, time.Hour)); o.Verdict != rouse.Deferred {
				t.Errorf("%s, stopped before: %+v", name, o)
			}
		}
	})
}

// Lanes are of one namespace; the limit of a function is for all of them.
func TestNoMoreCallsThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Wait: time.Hour})
		var running, most atomic.Int32
		handle(t, s, "f", func(context.Context, rouse.Fire) error {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		}, Concurrency(3))
		fires := make([]rouse.Fire, 10)
		for i := range fires {
			fires[i] = fire("func:f", time.Minute)
		}
		var done atomic.Int32
		s.Deliver(t.Context(), fires, func(_ int, o rouse.Outcome) {
			if o.Verdict == rouse.Done {
				done.Add(1)
			}
		})
		if most.Load() != 3 || done.Load() != 10 {
			t.Errorf("%d at a time, %d done", most.Load(), done.Load())
		}
	})
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	s := New(Options{})
	fn := func(context.Context, rouse.Fire) error { return nil }
	var inv *rouse.Invalid
	for _, name := range []string{"", "a b", "ü", "a\n", strings.Repeat("a", MaxName+1), "a:b"} {
		if err := s.Handle(name, fn); !errors.As(err, &inv) || inv.Problems[0].Field != "name" {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := s.Handle("f", nil); !errors.As(err, &inv) {
		t.Error(err)
	}
	if err := s.Handle("f", fn, Concurrency(0)); !errors.As(err, &inv) {
		t.Error(err)
	}
	handle(t, s, "f", fn, Concurrency(7))
	if err := s.Handle("f", fn); !errors.Is(err, rouse.ErrExists) {
		t.Error(err)
	}
	spec := &rouse.Spec{Target: "func:f"}
	if got, want := s.Lane("ns", spec), (rouse.Lane{Name: "func:f", Limit: 7, Batch: 1, Spend: true}); got != want {
		t.Errorf("lane %+v, want %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { s.Lane("ns", spec) }); n != 0 {
		t.Errorf("a lane costs %v allocations", n)
	}
}
