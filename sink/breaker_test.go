package sink_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
)

func refused(int) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Failed, Detail: "refused"} }

// inBubble runs a test in virtual time with a breaker that three failures of three open, before a fake.
func inBubble(t *testing.T, o sink.BreakerOptions, run func(t *testing.T, b *sink.Breaker, f *fake)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcome: refused}
		if o.Deliveries == 0 {
			o.Deliveries = 3
		}
		if o.Share == 0 {
			o.Share = 1
		}
		run(t, sink.NewBreaker(f, o), f)
	})
}

func one(t *testing.T, b *sink.Breaker) rouse.Outcome {
	t.Helper()
	return deliver(t, t.Context(), b, fires(1, "https://dead"))[0]
}

func TestBreakerOpensAndCloses(t *testing.T) {
	inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
		for range 3 {
			if o := one(t, b); o.Verdict != rouse.Failed {
				t.Errorf("still closed: %+v", o)
			}
		}
		open := time.Second // then doubled with each failed probe, up to 30 s
		for round := range 7 {
			for _, o := range deliver(t, t.Context(), b, fires(8, "https://dead")) {
				if o.Verdict != rouse.Deferred || o.After < open || o.After >= 2*open {
					t.Errorf("round %d, open for %v: %+v", round, open, o)
				}
			}
			if f.sent != 3+round || b.Open() != 1 {
				t.Errorf("round %d: sent %d, %d open", round, f.sent, b.Open())
			}
			time.Sleep(open)
			if o := one(t, b); o.Verdict != rouse.Failed {
				t.Errorf("the probe: %+v", o)
			}
			open = min(2*open, 30*time.Second)
		}
		time.Sleep(open)
		f.outcome = done
		for range 2 { // the probe, and one after it
			if o := one(t, b); o.Verdict != rouse.Done {
				t.Errorf("alive again: %+v", o)
			}
		}
		f.outcome = refused
		one(t, b)
		if o := one(t, b); o.Verdict != rouse.Failed || b.Open() != 0 {
			t.Errorf("it counts from nothing again: %+v", o)
		}
	})
}

// Fires that wait for one host come back spread, each of them always at the same place.
func TestBreakerSpreads(t *testing.T) {
	inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, _ *fake) {
		for range 3 {
			one(t, b)
		}
		first := deliver(t, t.Context(), b, fires(100, "https://dead"))
		distinct := map[time.Duration]bool{}
		for i, o := range deliver(t, t.Context(), b, fires(100, "https://dead")) {
			if o != first[i] {
				t.Errorf("fire %d was told %v and %v", i, first[i].After, o.After)
			}
			distinct[o.After] = true
		}
		if len(distinct) < 90 {
			t.Errorf("100 fires come back at %d times", len(distinct))
		}
	})
}

// panicking is a sink that panics while it is told to.
type panicking struct {
	*fake
	now bool
}

func (p *panicking) Deliver(ctx context.Context, list []rouse.Fire, settle func(int, rouse.Outcome)) {
	if p.now {
		panic("a fault of the sink")
	}
	p.fake.Deliver(ctx, list, settle)
}

// TestAPanicDuringAProbe: the probe is over, and the next fire is one. What a probe has concluded before the
// panic stays.
func TestAPanicDuringAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &panicking{fake: &fake{outcome: refused}}
		b := sink.NewBreaker(p, sink.BreakerOptions{CircuitOptions: sink.CircuitOptions{Deliveries: 3, Share: 1}})
		for range 3 {
			one(t, b)
		}
		time.Sleep(time.Second)
		p.now = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the sink is hidden from the engine")
				}
			}()
			one(t, b)
		}()
		p.now, p.outcome = false, done
		if o := one(t, b); o.Verdict != rouse.Done || b.Open() != 0 {
			t.Errorf("after a probe that panicked: %+v, %d circuits are open", o, b.Open())
		}
	})
}

func TestBreakerLetsOneProbeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &held{begun: make(chan struct{}), end: make(chan rouse.Outcome)}
		b := sink.NewBreaker(f, sink.BreakerOptions{CircuitOptions: sink.CircuitOptions{Deliveries: 1}})
		var senders sync.WaitGroup
		probe := func(say rouse.Outcome, during func()) {
			senders.Go(func() { one(t, b) })
			<-f.begun
			during()
			f.end <- say
			senders.Wait()
		}
		probe(refused(0), func() {})
		time.Sleep(time.Second)
		probe(refused(0), func() {
			for range 3 {
				if o := one(t, b); o.Verdict != rouse.Deferred || o.After < time.Second {
					t.Errorf("while the probe is out: %+v", o)
				}
			}
		})
		time.Sleep(2 * time.Second)
		// A probe that was never sent is no evidence, and the next one follows immediately.
		probe(rouse.Outcome{Verdict: rouse.Deferred, After: 1}, func() {})
		probe(rouse.Outcome{Verdict: rouse.Rejected}, func() {})
		probe(rouse.Outcome{Verdict: rouse.Done}, func() {})
		if b.Open() != 0 {
			t.Error("still open")
		}
	})
}

// held is a sink whose deliveries wait for the test.
type held struct {
	fake
	begun chan struct{}
	end   chan rouse.Outcome
}

func (h *held) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	h.begun <- struct{}{}
	o := <-h.end
	for i := range fires {
		settle(i, o)
	}
}

// Only silence and server's errors count, within the time, one for each delivery.
func TestBreakerCounts(t *testing.T) {
	for name, o := range map[string]rouse.Outcome{
		"done":      {Verdict: rouse.Done, Code: 200},
		"accepted":  {Verdict: rouse.Accepted, Code: 202, After: 1},
		"throttled": {Verdict: rouse.Failed, Code: 429},
		"a wish":    {Verdict: rouse.Failed, Code: 200},
		"rejected":  {Verdict: rouse.Rejected, Code: 404},
		"gone":      {Verdict: rouse.Gone, Code: 410},
	} {
		t.Run(name+" proves the host alive", func(t *testing.T) {
			inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
				for range 5 {
					f.outcome = refused
					one(t, b)
					one(t, b)
					f.outcome = func(int) rouse.Outcome { return o }
					one(t, b)
				}
				if f.sent != 15 {
					t.Errorf("sent %d", f.sent)
				}
			})
		})
	}
	for name, o := range map[string]rouse.Outcome{"500": {Verdict: rouse.Failed, Code: 500}, "503": {Verdict: rouse.Failed, Code: 503}, "silence": {Verdict: rouse.Failed}} {
		t.Run(name+" counts", func(t *testing.T) {
			inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
				f.outcome = func(int) rouse.Outcome { return o }
				for range 5 {
					one(t, b)
				}
				if f.sent != 3 {
					t.Errorf("sent %d", f.sent)
				}
			})
		})
	}
	t.Run("a rejection without an answer is no evidence", func(t *testing.T) {
		inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
			for i := range 5 {
				f.outcome = refused
				if i%2 == 1 {
					f.outcome = func(int) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Rejected} }
				}
				one(t, b)
			}
			if b.Open() != 1 {
				t.Error("three failures, and not open")
			}
		})
	})
	t.Run("failures far apart", func(t *testing.T) {
		inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
			for range 10 {
				one(t, b)
				time.Sleep(16 * time.Second)
			}
			if f.sent != 10 {
				t.Errorf("sent %d", f.sent)
			}
		})
	})
	t.Run("a delivery of many fires fails once", func(t *testing.T) {
		inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
			for range 2 {
				deliver(t, t.Context(), b, fires(8, "https://dead"))
			}
			if b.Open() != 0 {
				t.Error("open after two deliveries")
			}
		})
	})
	t.Run("an engine that stops", func(t *testing.T) {
		inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 5 {
				deliver(t, ctx, b, fires(1, "https://dead"))
			}
			if b.Open() != 0 {
				t.Error("open")
			}
		})
	})
}

func TestBreakerKeepsLanesAndNamespacesApart(t *testing.T) {
	inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
		for range 4 {
			one(t, b)
		}
		other := fires(1, "https://dead")
		other[0].Namespace = "other"
		deliver(t, t.Context(), b, other)
		deliver(t, t.Context(), b, fires(1, "https://alive"))
		if f.sent != 5 {
			t.Errorf("sent %d", f.sent)
		}
	})
}

// A host that stays dead does not hold its fires for ever: after Patience they fail, and spend their
// attempts.
func TestBreakerPatience(t *testing.T) {
	inBubble(t, sink.BreakerOptions{CircuitOptions: sink.CircuitOptions{Patience: 10 * time.Minute}}, func(t *testing.T, b *sink.Breaker, f *fake) {
		begin := time.Now()
		for time.Since(begin) < 9*time.Minute {
			one(t, b)
			time.Sleep(time.Second)
			if o := one(t, b); time.Since(begin) > time.Minute && o.Verdict == rouse.Failed && strings.HasPrefix(o.Detail, "not sent") {
				t.Fatalf("gave up after %v", time.Since(begin))
			}
		}
		time.Sleep(2 * time.Minute)
		one(t, b) // a probe
		sent := f.sent
		for _, o := range deliver(t, t.Context(), b, fires(8, "https://dead")) {
			if o.Verdict != rouse.Failed || o.After != 0 || !strings.HasPrefix(o.Detail, "not sent") {
				t.Errorf("%+v", o)
			}
		}
		if f.sent != sent {
			t.Error("sent while open")
		}
		time.Sleep(time.Minute)
		f.outcome = done
		if o := one(t, b); o.Verdict != rouse.Done {
			t.Errorf("still probed: %+v", o)
		}
	})
}

func TestBreakerDropsUnusedLanes(t *testing.T) {
	inBubble(t, sink.BreakerOptions{MaxCircuits: 10, CircuitOptions: sink.CircuitOptions{Deliveries: 1, Open: time.Hour}}, func(t *testing.T, b *sink.Breaker, f *fake) {
		for i := range 1000 {
			one(t, b) // in use, so not dropped
			deliver(t, t.Context(), b, fires(1, fmt.Sprintf("https://dead-%d", i)))
			time.Sleep(time.Millisecond)
		}
		if n := b.Open(); n != 10 {
			t.Errorf("%d circuits are remembered", n)
		}
		if f.sent != 1001 {
			t.Errorf("sent %d: a lane that was in use was dropped", f.sent)
		}
	})
}

func TestBreakerConcurrently(t *testing.T) {
	f := &fake{}
	b := sink.NewBreaker(lockedSink{fake: f}, sink.BreakerOptions{MaxCircuits: 4, CircuitOptions: sink.CircuitOptions{Deliveries: 2, Window: time.Nanosecond, Open: time.Nanosecond, MaxOpen: time.Nanosecond}})
	var senders sync.WaitGroup
	for g := range 8 {
		senders.Go(func() {
			for i := range 500 {
				deliver(t, t.Context(), b, fires(1+i%3, fmt.Sprintf("https://%d", (g+i)%6)))
			}
		})
	}
	senders.Wait()
}

// lockedSink fails and succeeds in turn, safely.
type lockedSink struct{ *fake }

func (lockedSink) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		if fires[0].Spec.Target < "https://3" {
			settle(i, rouse.Outcome{Verdict: rouse.Done})
		} else {
			settle(i, refused(i))
		}
	}
}
