// Package backoff waits between tries: twice as long after each one, up to a longest wait, with a random part
// so that nodes that lost the same server do not come back to it together.
//
//	b := backoff.New(50*time.Millisecond, 5*time.Second)
//	for b.Wait(ctx) {
//		if conn, err := dial(ctx); err == nil {
//			b.Reset()
//			serve(ctx, conn)
//		}
//	}
//
// It is for loops that try until they succeed or are stopped. How long a timer waits between the attempts of
// a fire is its own policy: rouse.Retry in retry.go of the root.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is the state of one loop. It is not safe for concurrent use.
type Backoff struct {
	first, next, longest time.Duration
	tried                bool // since New or Reset
}

// New returns a Backoff whose waits double from first to longest.
func New(first, longest time.Duration) *Backoff {
	return &Backoff{first: first, next: min(first, longest), longest: longest}
}

// Wait is the condition of a loop: it waits before every try but the first one after New and after Reset. It
// returns false, at once, if ctx ends.
func (b *Backoff) Wait(ctx context.Context) bool { return b.WaitOr(ctx, nil) }

// WaitOr is Wait that a value from wake, or its end, cuts short.
func (b *Backoff) WaitOr(ctx context.Context, wake <-chan struct{}) bool {
	if !b.tried {
		b.tried = true
		return ctx.Err() == nil
	}
	return SleepOr(ctx, b.Next(), wake)
}

// Pause waits after a try, for loops that do not try again at once after Reset. It returns false, at once, if
// ctx ends.
func (b *Backoff) Pause(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// Next returns the next wait, for loops that wait by themselves, and doubles the one after it.
func (b *Backoff) Next() time.Duration {
	d := jitterDelay(b.next)
	b.next = min(2*b.next, b.longest)
	return d
}

// Reset starts again: there is no wait before the next try, and then the first one.
func (b *Backoff) Reset() { b.next, b.tried = min(b.first, b.longest), false }

// Limit changes the longest wait from here on.
func (b *Backoff) Limit(longest time.Duration) { b.next, b.longest = min(b.next, longest), longest }

// After returns the wait after a number of failures in a row, for callers that count them: first after one,
// then twice as long each.
func After(failures int, first, longest time.Duration) time.Duration {
	d := min(first, longest)
	for ; failures > 1 && d < longest; failures-- {
		d = min(2*d, longest)
	}
	return jitterDelay(d)
}

// jitterDelay returns between half of d and d.
func jitterDelay(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Sleep waits for d. It returns false, at once, if ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepOr(ctx, d, nil) }

// SleepOr is Sleep that a value from wake, or its end, cuts short.
func SleepOr(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
	return ctx.Err() == nil
}
