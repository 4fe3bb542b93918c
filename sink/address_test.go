package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
)

var (
	unreached = rouse.Outcome{Verdict: rouse.Failed, Unreached: true, Detail: "connection refused"}
	silent    = rouse.Outcome{Verdict: rouse.Failed, Detail: "no answer within 1s"}
	erred     = rouse.Outcome{Verdict: rouse.Failed, Code: 500}
	delivered = rouse.Outcome{Verdict: rouse.Done, Code: 200}
)

// site is a sink of hosts with paths, such as "a/x". What has no outcome succeeds.
type site struct {
	outcome map[string]rouse.Outcome // by target, or by host
	sent    map[string]int           // by target
}

func (*site) Check(*rouse.Spec) error { return nil }

func (s *site) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	host, _ := s.Address(spec)
	return rouse.Lane{Name: host, Limit: 64, Batch: 1}
}

func (*site) Address(spec *rouse.Spec) (host, address string) {
	host, _, _ = strings.Cut(spec.Target, "/")
	return host, spec.Target
}

func (s *site) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	host, address := s.Address(fires[0].Spec)
	s.sent[address]++
	o, ok := s.outcome[address]
	if !ok {
		if o, ok = s.outcome[host]; !ok {
			o = delivered
		}
	}
	for i := range fires {
		settle(i, o)
	}
}

// onSite runs a test in virtual time with the default circuits, unless others are given.
func onSite(t *testing.T, o sink.BreakerOptions, outcome map[string]rouse.Outcome, run func(t *testing.T, b *sink.Breaker, s *site)) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{outcome: outcome, sent: map[string]int{}}
		run(t, sink.NewBreaker(s, o), s)
	})
}

func to(t *testing.T, b *sink.Breaker, target string) rouse.Outcome {
	t.Helper()
	return deliver(t, t.Context(), b, fires(1, target))[0]
}

// shown returns the circuits that are not closed.
func shown(b *sink.Breaker) map[string]bool {
	open := map[string]bool{}
	b.Circuits(func(namespace, name string, _ bool, _, _ time.Time) { open[namespace+" "+name] = true })
	return open
}

// Paths that fail, in whatever way and however often, do not delay the others of their host; they get probes
// only.
func TestFailingPathsDelayNoOthers(t *testing.T) {
	for name, of := range map[string]struct {
		outcome          rouse.Outcome
		paths, bad, good int // paths that fail; fires a second to each of them, and to one that does not
	}{
		"errors":            {erred, 1, 12, 20},
		"more errors":       {erred, 3, 100, 20},
		"no answers":        {silent, 1, 12, 20},
		"more of them":      {silent, 3, 100, 20},
		"errors only":       {erred, 1, 50, 0},
		"no answers at all": {silent, 1, 50, 0},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := map[string]rouse.Outcome{}
			for i := range of.paths {
				outcome[fmt.Sprint("a/bad", i)] = of.outcome
			}
			onSite(t, sink.BreakerOptions{}, outcome, func(t *testing.T, b *sink.Breaker, s *site) {
				const length, steps = 3 * time.Minute, 200 // a second
				for step := range steps * int(length/time.Second) {
					due := func(rate int) bool { return (step+1)*rate/steps > step*rate/steps }
					if due(of.good) {
						if o := to(t, b, "a/ok"); o.Verdict != rouse.Done {
							t.Fatalf("a healthy fire in second %d: %+v", step/steps, o)
						}
					}
					if due(of.bad) {
						for target := range outcome {
							to(t, b, target)
						}
					}
					time.Sleep(time.Second / steps)
				}
				open := shown(b)
				if len(open) != of.paths {
					t.Errorf("open are %v", open)
				}
				for target := range outcome {
					if !open["ns "+target] {
						t.Errorf("%s is not open", target)
					}
					if n, most := s.sent[target], 10+5+int(length/(30*time.Second)); n > most || n < 10 {
						t.Errorf("%d were sent to %s, want 10 to %d", n, target, most)
					}
				}
			})
		})
	}
}

// Many fires that time out at the same moment are of one path, not of its host.
func TestPathsTimeOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{begun: make(chan struct{}), end: make(chan rouse.Outcome)}
		b := sink.NewBreaker(struct {
			*held
			sink.Addressed
		}{h, &site{}}, sink.BreakerOptions{})
		for range 64 {
			go to(t, b, "a/bad")
		}
		for range 64 {
			<-h.begun
		}
		for range 64 {
			h.end <- silent
		}
		synctest.Wait()
		if open := shown(b); len(open) != 1 || !open["ns a/bad"] {
			t.Errorf("open are %v", open)
		}
	})
}

// A host that is down opens the circuit of the host, whatever the paths, and of no other host or namespace.
// It closes with the first answer.
func TestAHostThatIsDown(t *testing.T) {
	for name, of := range map[string]struct {
		outcome rouse.Outcome
		most    int // attempts before it is open: silence counts after a second
	}{"dials": {unreached, 10}, "no answers": {silent, 60}} {
		t.Run(name, func(t *testing.T) {
			outcome := of.outcome
			onSite(t, sink.BreakerOptions{}, map[string]rouse.Outcome{"a": outcome}, func(t *testing.T, b *sink.Breaker, s *site) {
				sent := func() (n int) {
					for target, c := range s.sent {
						if strings.HasPrefix(target, "a/") {
							n += c
						}
					}
					return n
				}
				waited := 0
				for range 60 {
					for i := range 50 {
						if o := to(t, b, fmt.Sprintf("a/%d", i)); o.Verdict == rouse.Deferred {
							if waited++; o.Cause != rouse.CauseCircuitOpen || !strings.Contains(o.Detail, "the host a ") {
								t.Fatalf("%+v", o)
							}
						}
						if o := to(t, b, "b/x"); o.Verdict != rouse.Done {
							t.Fatalf("another host: %+v", o)
						}
					}
					time.Sleep(time.Second)
				}
				if n := sent(); n < 10+5 || n > of.most+6 || waited != 60*50-n { // probes after 1, 2, 4, 8 and 16 s
					t.Errorf("%d sent and %d deferred of %d", n, waited, 60*50)
				}
				if open := shown(b); len(open) != 1 || !open["ns a"] {
					t.Errorf("open are %v", open)
				}
				other := fires(1, "a/1")
				other[0].Namespace = "other"
				if o := deliver(t, t.Context(), b, other)[0]; o != outcome {
					t.Errorf("another namespace: %+v", o)
				}
				delete(s.outcome, "a")
				time.Sleep(31 * time.Second)
				for i := range 50 {
					if o := to(t, b, fmt.Sprintf("a/%d", i)); o.Verdict != rouse.Done {
						t.Errorf("it is back: %+v", o)
					}
				}
				if b.Open() != 0 {
					t.Errorf("open are %v", shown(b))
				}
			})
		})
	}
	t.Run("with one path", func(t *testing.T) {
		onSite(t, sink.BreakerOptions{}, map[string]rouse.Outcome{"a": unreached}, func(t *testing.T, b *sink.Breaker, _ *site) {
			for range 11 {
				to(t, b, "a/1")
			}
			spec := &rouse.Spec{Target: "a/2"}
			if text := b.Obstacle("ns", spec); !strings.HasPrefix(text, "the circuit of the host a is open") {
				t.Error(text)
			}
			if open := shown(b); len(open) != 1 || !open["ns a"] {
				t.Errorf("open are %v", open)
			}
		})
	})
}

// An answer proves that the host is alive, even one with an error: it closes the circuit of the host.
func TestAnyAnswerProvesTheHostAlive(t *testing.T) {
	onSite(t, sink.BreakerOptions{}, map[string]rouse.Outcome{"a": unreached}, func(t *testing.T, b *sink.Breaker, s *site) {
		for range 10 {
			to(t, b, "a/1")
		}
		s.outcome["a"] = erred
		time.Sleep(time.Second)
		to(t, b, "a/2") // the probe
		if o := to(t, b, "a/1"); o.Code != 500 || b.Open() != 0 {
			t.Errorf("%+v, open are %v", o, shown(b))
		}
	})
}

// The probe of a path that fails keeps its host closed to no other path, and prolongs no pause but its own.
func TestProbesOfPaths(t *testing.T) {
	onSite(t, sink.BreakerOptions{}, map[string]rouse.Outcome{"a/bad": silent}, func(t *testing.T, b *sink.Breaker, s *site) {
		for range 10 {
			to(t, b, "a/bad")
		}
		time.Sleep(500 * time.Millisecond)
		s.outcome["a/down"] = unreached
		for range 10 {
			to(t, b, "a/down")
		}
		if open := shown(b); len(open) != 2 || !open["ns a"] || !open["ns a/bad"] {
			t.Fatalf("open are %v", open)
		}
		time.Sleep(500 * time.Millisecond)
		if o := to(t, b, "a/bad"); o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, "the host a ") {
			t.Errorf("its probe waits for the host: %+v", o)
		}
		time.Sleep(500 * time.Millisecond)
		for range 3 {
			if o := to(t, b, "a/bad"); o != silent && o.Verdict != rouse.Deferred {
				t.Errorf("its probe: %+v", o)
			}
		}
		if s.sent["a/bad"] != 11 {
			t.Errorf("%d probes of the failing path", s.sent["a/bad"]-10)
		}
		if o := to(t, b, "a/ok"); o.Verdict != rouse.Done {
			t.Errorf("a healthy path waits after it: %+v", o)
		}
		if open := shown(b); len(open) != 1 || !open["ns a/bad"] {
			t.Errorf("open are %v", open)
		}
	})
}

// A path whose probe cannot reach the host does not dial it again and again: its host waits then.
func TestAHostThatGoesDownUnderAFailingPath(t *testing.T) {
	onSite(t, sink.BreakerOptions{}, map[string]rouse.Outcome{"a/bad": erred}, func(t *testing.T, b *sink.Breaker, s *site) {
		for range 10 {
			to(t, b, "a/bad")
		}
		s.outcome["a/bad"] = unreached
		for range 10 * 60 {
			to(t, b, "a/bad")
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.sent["a/bad"]; n > 10+10+6 {
			t.Errorf("%d were sent", n)
		}
		if open := shown(b); !open["ns a"] {
			t.Errorf("open are %v", open)
		}
		s.outcome["a/bad"] = delivered
		time.Sleep(31 * time.Second)
		if o := to(t, b, "a/bad"); o.Verdict != rouse.Done || b.Open() != 0 {
			t.Errorf("it is back: %+v, open are %v", o, shown(b))
		}
	})
}

// The options of a circuit are those of its name.
func TestOptionsOfCircuits(t *testing.T) {
	var asked []string
	o := sink.BreakerOptions{Circuit: func(namespace, name string) sink.CircuitOptions {
		asked = append(asked, namespace+" "+name)
		switch name {
		case "a/off", "b/":
			return sink.CircuitOptions{Off: true}
		case "a/soon":
			return sink.CircuitOptions{Deliveries: 1, Open: time.Minute}
		}
		return sink.CircuitOptions{}
	}}
	onSite(t, o, map[string]rouse.Outcome{"a": erred, "b": unreached}, func(t *testing.T, b *sink.Breaker, s *site) {
		for range 20 {
			for _, target := range []string{"a/off", "a/soon", "a/x", "b/x"} {
				to(t, b, target)
			}
		}
		if s.sent["a/off"] != 20 || s.sent["b/x"] != 20 || s.sent["a/soon"] != 1 || s.sent["a/x"] != 10 {
			t.Errorf("%v", s.sent)
		}
		time.Sleep(59 * time.Second)
		if o := to(t, b, "a/soon"); o.Verdict != rouse.Deferred {
			t.Errorf("it is open for a minute: %+v", o)
		}
		for _, want := range []string{"ns a/off", "ns a/soon", "ns a/x", "ns b/"} {
			if !strings.Contains(strings.Join(asked, "\n"), want) {
				t.Errorf("not asked for %s", want)
			}
		}
	})
}

// Circuits that are not needed any more are dropped, so that deliveries are as fast as without any.
func TestUnneededCircuitsAreDropped(t *testing.T) {
	onSite(t, sink.BreakerOptions{}, map[string]rouse.Outcome{"a/bad": erred}, func(t *testing.T, b *sink.Breaker, _ *site) {
		to(t, b, "a/bad") // tracked, and never sent to again
		for range 20 {
			to(t, b, "b/ok")
		}
		if b.Tracked() != 1 {
			t.Errorf("%d circuits of one failure", b.Tracked())
		}
		time.Sleep(31 * time.Second)
		to(t, b, "b/ok")
		if b.Tracked() != 0 {
			t.Errorf("%d circuits without a failure in their window", b.Tracked())
		}
		for range 10 {
			to(t, b, "a/bad")
		}
		time.Sleep(time.Minute)
		if b.Open() != 1 {
			t.Error("what waits may come still")
		}
		time.Sleep(2 * time.Minute)
		if b.Open() != 0 || b.Tracked() != 0 {
			t.Errorf("open are %v, for which nothing waits", shown(b))
		}
	})
}

// Many addresses that failed once do not push out circuits that are open.
func TestOpenCircuitsStayLongest(t *testing.T) {
	onSite(t, sink.BreakerOptions{MaxCircuits: 100}, map[string]rouse.Outcome{"a": erred}, func(t *testing.T, b *sink.Breaker, _ *site) {
		for range 10 {
			to(t, b, "a/bad")
		}
		for i := range 10_000 {
			to(t, b, fmt.Sprintf("a/%d", i))
		}
		if b.Tracked() != 100 || b.Open() != 1 {
			t.Errorf("%d circuits, %d of them open", b.Tracked(), b.Open())
		}
	})
}

// A delivery of several fires counts once, when all are reported: it has failed if none succeeded.
func TestMixedDeliveries(t *testing.T) {
	inBubble(t, sink.BreakerOptions{}, func(t *testing.T, b *sink.Breaker, f *fake) {
		failing := 7
		f.outcome = func(i int) rouse.Outcome {
			if i < failing {
				return erred
			}
			return delivered
		}
		for range 20 {
			deliver(t, t.Context(), b, fires(8, "x"))
		}
		if b.Open() != 0 {
			t.Error("open, although a fire of each delivery succeeded")
		}
		failing = 8
		for range 40 {
			deliver(t, t.Context(), b, fires(8, "x"))
		}
		if b.Open() != 1 {
			t.Error("no fire succeeded, and not open")
		}
	})
}
