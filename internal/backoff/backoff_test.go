package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// waited tells how long f takes on the clock of the bubble.
func waited(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// within checks that a wait is between half of what it would be without its random part and that.
func within(t *testing.T, what string, got, whole time.Duration) {
	t.Helper()
	if got < whole/2 || got > whole {
		t.Errorf("%s: %v, not within %v and %v", what, got, whole/2, whole)
	}
}

func TestWaitsDoubleUpToTheLongestAndStartAgainAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10*time.Millisecond, 35*time.Millisecond)
		for range 2 {
			for i, whole := range []time.Duration{0, 10, 20, 35, 35} {
				d := waited(func() {
					if !b.Wait(t.Context()) {
						t.Fatal("ended without a reason")
					}
				})
				if whole *= time.Millisecond; whole == 0 && d != 0 {
					t.Errorf("the first try waits %v", d)
				}
				within(t, "try "+string(rune('0'+i)), d, whole)
			}
			b.Reset()
		}
	})
}

func TestNextAndLimit(t *testing.T) {
	b := New(10*time.Second, time.Second)
	within(t, "a first wait above the longest", b.Next(), time.Second)
	b = New(time.Second, time.Hour)
	for _, whole := range []time.Duration{1, 2, 4, 8} {
		within(t, "next", b.Next(), whole*time.Second)
	}
	b.Limit(3 * time.Second)
	within(t, "limited", b.Next(), 3*time.Second)
	b.Limit(time.Hour)
	within(t, "limited no more", b.Next(), 3*time.Second)
	within(t, "and growing", b.Next(), 6*time.Second)
	b.Reset()
	within(t, "reset", b.Next(), time.Second)
	if d := New(0, 0).Next(); d != 0 {
		t.Errorf("no wait is %v", d)
	}
}

func TestAfterCountsFailures(t *testing.T) {
	for failures, whole := range []time.Duration{1, 1, 2, 4, 5, 5} {
		within(t, "after", After(failures, time.Second, 5*time.Second), whole*time.Second)
	}
	within(t, "very many", After(1<<40, time.Second, time.Hour), time.Hour)
}

func TestJitterSpreads(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 50 {
		seen[After(1, time.Hour, time.Hour)] = true
	}
	if len(seen) < 2 {
		t.Error("all waits are the same")
	}
}

func TestSleepEndsWithItsContextOrASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if d := waited(func() { Sleep(t.Context(), time.Minute) }); d != time.Minute {
			t.Errorf("slept %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if d := waited(func() {
			if Sleep(ctx, time.Minute) {
				t.Error("true after the end of its context")
			}
		}); d != time.Second {
			t.Errorf("ended after %v", d)
		}
		b := New(time.Minute, time.Minute)
		for range 2 {
			if b.Wait(ctx) {
				t.Error("a loop goes on after the end of its context")
			}
		}
		wake := make(chan struct{}, 1)
		b.WaitOr(t.Context(), wake)
		wake <- struct{}{}
		if d := waited(func() {
			if !b.WaitOr(t.Context(), wake) {
				t.Error("a signal ends the loop")
			}
		}); d != 0 {
			t.Errorf("the signal is seen after %v", d)
		}
	})
}
