// Package brokertest tests that a publisher of package broker handles failures of its broker, and of the
// network in front of it, with the real broker:
//
//	func TestFailures(t *testing.T) {
//		brokertest.Run(t, brokertest.Harness{Broker: server, NewProxy: newProxy, Open: open, Place: place, Arrived: arrived})
//	}
//
// Each publisher must also pass the contract of sinks in package sinktest.
package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/sink/broker"
)

// Broker is a broker that can be disturbed; servers.Server is one.
type Broker interface {
	URL() string
	Kill()
	Start()
	Pause()
	Resume()
}

// Proxy is a network in front of it that can be disturbed; servers.Proxy is one.
type Proxy interface {
	URL(server string) string
	Refuse(yes bool)
	Reset()
	CutToClient()
	Heal()
}

// Harness connects a publisher to the suite.
type Harness struct {
	Broker Broker

	// NewProxy returns a proxy for the broker, which ends with the test.
	NewProxy func(t *testing.T) Proxy

	// Open returns a publisher for a connection named "there".
	Open func(c broker.Connection) (broker.Publisher, error)

	// Place creates a new place at the broker that survives kills, and returns its target.
	Place func(t *testing.T) string

	// Arrived returns the ids of the messages at a target's place, in any order.
	Arrived func(t *testing.T, target string) []string

	// Once is set if the broker drops duplicates of messages.
	Once bool
}

// patience bounds waits.
const patience = 2 * time.Minute

// Run runs the cases.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, h bench)
	}{
		{"loses nothing when the broker is killed", testKilled},
		{"fails in time what a broker that hangs does not confirm", testHanging},
		{"does not take a lost confirm for a confirm", lostConfirm},
		{"spends no attempt while the broker is away", testAway},
		{"gives up a broker that does not come back", testGivenUp},
		{"fails at once what is under way when the connection breaks", testBrokenConn},
		{"ends while fires are under way", testShutdown},
	} {
		t.Run(c.name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, running) }) // after the proxy has ended
			c.run(t, bench{h, h.NewProxy(t)})
		})
	}
}

// bench is the environment of a case.
type bench struct {
	Harness
	Proxy Proxy
}

// openSink returns a sink with the connection "there", through the proxy.
func (h bench) openSink(t *testing.T, patience time.Duration) *broker.Sink {
	t.Helper()
	c := broker.Connection{Name: "there", URL: h.Proxy.URL(h.Broker.URL()), Patience: patience, Timeout: 2 * time.Second}
	p, err := h.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	s := broker.New()
	s.Add(c, p)
	return s
}

func closeIt(t *testing.T, s *broker.Sink) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// makeFires returns n fires for a target.
func makeFires(n int, target string, timeout time.Duration) []rouse.Fire {
	list := make([]rouse.Fire, n)
	for i := range list {
		name := fmt.Sprintf("timer-%d", i)
		due := rouse.At(time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC))
		list[i] = rouse.Fire{ID: rouse.FireID("brokertest", name, 7, due, false), Namespace: "brokertest", Name: name,
			Generation: 7, Due: due,
			Attempt: 1, Token: 9, Spec: &rouse.Spec{Target: target, Payload: fmt.Appendf(nil, "payload %d", i),
				Retry: rouse.Retry{Timeout: timeout}}}
	}
	return list
}

// deliverOnce delivers fires once.
func deliverOnce(ctx context.Context, s *broker.Sink, list []rouse.Fire) []rouse.Outcome {
	outcomes := make([]rouse.Outcome, len(list))
	var mu sync.Mutex
	s.Deliver(ctx, list, func(i int, o rouse.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[i] = o
	})
	return outcomes
}

// deliverUntilDone delivers fires until each is done, as an engine would, and returns how many attempts
// failed.
func deliverUntilDone(t *testing.T, s *broker.Sink, list []rouse.Fire) (failed int) {
	t.Helper()
	var detail string
	for end := time.Now().Add(patience); len(list) > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d fires were not delivered in %v: %s", len(list), patience, detail)
		}
		var again []rouse.Fire
		var wait time.Duration
		for i, o := range deliverOnce(t.Context(), s, list) {
			f := list[i]
			switch o.Verdict {
			case rouse.Done:
				continue
			case rouse.Failed:
				f.Attempt++
				failed++
			case rouse.Deferred:
				wait = max(wait, min(o.After, time.Second))
			default:
				t.Fatalf("%v: %s", o.Verdict, o.Detail)
			}
			again, detail = append(again, f), o.Detail
		}
		list = again
		time.Sleep(wait) // the delay of the outcomes
	}
	return failed
}

// checkArrived checks that each fire is at the place, and only as often as allowed.
func (h bench) checkArrived(t *testing.T, target string, list []rouse.Fire) {
	t.Helper()
	ids := h.Arrived(t, target)
	count := map[string]int{}
	for _, id := range ids {
		count[id]++
	}
	for i := range list {
		n := count[list[i].ID]
		if n == 0 || h.Once && n > 1 {
			t.Errorf("fire %d, which was confirmed, is there %d times", i, n)
		}
		delete(count, list[i].ID)
	}
	if len(count) > 0 {
		t.Errorf("there is what was never sent: %v", count)
	}
}

func testKilled(t *testing.T, h bench) {
	target := h.Place(t)
	s := h.openSink(t, time.Hour)
	defer closeIt(t, s)
	list := makeFires(600, target, 5*time.Second)
	deliverUntilDone(t, s, list[:100])
	var sending sync.WaitGroup
	for part := range slices.Chunk(list[100:], 100) {
		sending.Go(func() { deliverUntilDone(t, s, part) })
	}
	h.Broker.Kill()
	h.Broker.Start()
	sending.Wait()
	h.checkArrived(t, target, list)
}

func testHanging(t *testing.T, h bench) {
	target := h.Place(t)
	s := h.openSink(t, time.Hour)
	defer closeIt(t, s)
	list := makeFires(10, target, 300*time.Millisecond)
	deliverUntilDone(t, s, list[:1]) // it is connected
	h.Broker.Pause()
	for i, o := range deliverOnce(t.Context(), s, list) {
		if o.Verdict != rouse.Failed && o.Verdict != rouse.Deferred || o.Detail == "" {
			t.Errorf("fire %d: %v %q", i, o.Verdict, o.Detail)
		}
	}
	h.Broker.Resume()
	deliverUntilDone(t, s, list)
	h.checkArrived(t, target, list)
}

func lostConfirm(t *testing.T, h bench) {
	target := h.Place(t)
	s := h.openSink(t, time.Hour)
	defer closeIt(t, s)
	list := makeFires(11, target, time.Second)
	deliverUntilDone(t, s, list[:1])
	h.Proxy.CutToClient()
	for i, o := range deliverOnce(t.Context(), s, list[1:]) {
		if o.Verdict != rouse.Failed {
			t.Errorf("fire %d: %v %q, and it was not confirmed", i, o.Verdict, o.Detail)
		}
	}
	h.checkArrived(t, target, list) // the sent messages have arrived
	h.Proxy.Heal()
	deliverUntilDone(t, s, list)
	if ids := h.Arrived(t, target); !h.Once && len(ids) <= len(list) {
		t.Errorf("%d messages of %d fires, most of them sent twice", len(ids), len(list))
	}
	h.checkArrived(t, target, list)
}

func testAway(t *testing.T, h bench) {
	target := h.Place(t)
	h.Proxy.Refuse(true)
	s := h.openSink(t, time.Hour)
	defer closeIt(t, s)
	list := makeFires(10, target, 5*time.Second)
	refused := func() {
		t.Helper()
		for i, o := range deliverOnce(t.Context(), s, list) {
			if o.Verdict != rouse.Deferred || o.After <= 0 || !strings.Contains(o.Detail, "not sent") {
				t.Errorf("fire %d: %v after %v: %s", i, o.Verdict, o.After, o.Detail)
			}
		}
	}
	refused()
	poll.Until(t, "it reports that the broker is away",
		func() bool { return s.Obstacle("brokertest", list[0].Spec) != "" })
	h.Proxy.Heal()
	if failed := deliverUntilDone(t, s, list); failed != 0 {
		t.Errorf("%d attempts failed that were never made", failed)
	}
	poll.Until(t, "it reports that the broker is back",
		func() bool { return s.Obstacle("brokertest", list[0].Spec) == "" })
	h.Proxy.Refuse(true)
	h.Proxy.Reset()
	poll.Until(t, "it reports that the broker is away again", func() bool {
		refusedOrFailed := deliverOnce(t.Context(), s, list[:1])
		return refusedOrFailed[0].Verdict == rouse.Deferred && s.Obstacle("brokertest", list[0].Spec) != ""
	})
	refused()
	h.Proxy.Heal()
	deliverUntilDone(t, s, list)
	h.checkArrived(t, target, list)
}

func testGivenUp(t *testing.T, h bench) {
	target := h.Place(t)
	h.Proxy.Refuse(true)
	defer h.Proxy.Heal()
	s := h.openSink(t, time.Second)
	defer closeIt(t, s)
	poll.Until(t, "fires fail", func() bool {
		o := deliverOnce(t.Context(), s, makeFires(1, target, 5*time.Second))[0]
		return o.Verdict == rouse.Failed && strings.Contains(o.Detail, "unavailable")
	})
}

func testBrokenConn(t *testing.T, h bench) {
	target := h.Place(t)
	s := h.openSink(t, time.Hour)
	defer closeIt(t, s)
	list := makeFires(10, target, 20*time.Minute) // longer than a test may take
	deliverUntilDone(t, s, list[:1])
	h.Proxy.CutToClient()
	ended := make(chan []rouse.Outcome, 1)
	go func() { ended <- deliverOnce(t.Context(), s, list[1:]) }()
	poll.Until(t, "the messages arrive", func() bool { return len(h.Arrived(t, target)) >= len(list) })
	h.Proxy.Reset()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case outcomes := <-ended:
		for i, o := range outcomes {
			if o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "may have") {
				t.Errorf("fire %d: %v %s", i, o.Verdict, o.Detail)
			}
		}
	case <-limit.C:
		t.Errorf("still under way %v after the connection broke", patience)
	}
	h.Proxy.Heal()
	deliverUntilDone(t, s, list)
	h.checkArrived(t, target, list)
}

func testShutdown(t *testing.T, h bench) {
	target := h.Place(t)
	s := h.openSink(t, time.Hour)
	list := makeFires(10, target, patience)
	deliverUntilDone(t, s, list[:1])
	h.Proxy.CutToClient()
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	var outcomes []rouse.Outcome
	sending.Go(func() { outcomes = deliverOnce(ctx, s, list[1:]) })
	poll.Until(t, "the messages arrive", func() bool { return len(h.Arrived(t, target)) >= len(list) })
	cancel()
	sending.Wait()
	for i, o := range outcomes {
		if o.Verdict != rouse.Deferred {
			t.Errorf("fire %d, which the server's end broke off: %v %s", i, o.Verdict, o.Detail)
		}
	}
	closeIt(t, s)
	h.Proxy.Heal()
}
