package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// line is the service's end of one subscription, in the hands of a test.
type line struct {
	open    *rousev1.Open
	stream  rousev1.Fires_SubscribeServer
	settles chan *rousev1.Settle // what the client sends; closed at its end
	credits chan uint32          // granted after the subscription was opened
	hangUp  chan error           // ends the stream
}

// lines makes the fake hand every subscription to the test.
func lines(f *fake) <-chan *line {
	out := make(chan *line, 10)
	f.subscribe = func(open *rousev1.Open, stream rousev1.Fires_SubscribeServer) error {
		l := &line{open, stream, make(chan *rousev1.Settle, 1000), make(chan uint32, 100), make(chan error, 1)}
		ended := make(chan struct{})
		f.receiving.Go(func() {
			defer close(ended)
			defer close(l.settles)
			for {
				r, err := stream.Recv()
				if err != nil {
					return
				}
				if m := r.GetSettle(); m != nil {
					l.settles <- m
				} else {
					l.credits <- r.GetCredits()
				}
			}
		})
		// An hour fast: deadlines are by this clock.
		now := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
		header := metadata.Pairs(nowHeader, now)
		if f.node != "" {
			header.Set(nodeHeader, f.node)
		}
		if err := stream.SendHeader(header); err != nil {
			return err
		}
		out <- l
		select {
		case err := <-l.hangUp:
			return err
		case <-ended:
			return nil
		}
	}
	return out
}

// send sends fires with the tags, each to be settled within a time.
func (l *line) send(t *testing.T, timeout time.Duration, tags ...uint64) {
	t.Helper()
	m := &rousev1.SubscribeResponse{}
	for _, tag := range tags {
		m.Fires = append(m.Fires, &rousev1.Fire{Tag: tag, Id: fmt.Sprint("id-", tag), Name: fmt.Sprint("timer-", tag), Attempt: 2,
			Payload: []byte("x"), DeadlineMs: time.Now().Add(time.Hour + timeout).UnixMilli()})
	}
	if err := l.stream.Send(m); err != nil {
		t.Error(err)
	}
}

// outcomes gathers n outcomes, by tag: nil for done.
func (l *line) outcomes(t *testing.T, n int) map[uint64]*rousev1.Failure {
	t.Helper()
	out := map[uint64]*rousev1.Failure{}
	for len(out) < n {
		m := within(t, l.settles, "an outcome")
		if m == nil {
			t.Fatalf("the stream ended after %d of %d outcomes", len(out), n)
		}
		for _, tag := range m.Done {
			out[tag] = nil
		}
		for _, f := range m.Failures {
			out[f.Tag] = f
		}
	}
	return out
}

// run runs Subscribe until stop, which returns Subscribe's result.
func run(t *testing.T, c *Client, o SubscribeOptions, handle Handler) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- c.Subscribe(ctx, o, handle) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return within(t, over, "Subscribe to return")
	}
}

func TestHandlersSettle(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	stop := run(t, c, SubscribeOptions{Namespace: "ns", Channel: "jobs", NamePrefix: "timer-", Labels: map[string]string{"k": "v"}, Concurrency: 4},
		func(_ context.Context, f Fire) error {
			if f.ID != "id-"+f.Name[6:] || f.Attempt != 2 || string(f.Payload) != "x" {
				t.Errorf("fire %+v", f)
			}
			switch f.Name {
			case "timer-2":
				return errors.New("broken")
			case "timer-3":
				return Permanent(errors.New("hopeless"))
			case "timer-4":
				return fmt.Errorf("it is %w", RetryAfter(errors.New("busy"), time.Minute))
			case "timer-5":
				panic("oh")
			case "timer-6":
				return errors.New("not \xff UTF-8")
			}
			return nil
		})
	l := within(t, subs, "a subscription")
	if o := l.open; o.Namespace != "ns" || o.Channel != "jobs" || o.NamePrefix != "timer-" || o.Labels["k"] != "v" || o.Credits != 8 {
		t.Errorf("opened %v", o)
	}
	l.send(t, time.Minute, 1, 2, 3, 4, 5, 6)
	got := l.outcomes(t, 6)
	if got[1] != nil {
		t.Errorf("done: %v", got[1])
	}
	if f := got[2]; f.GetDetail() != "broken" || f.Permanent || f.RetryAfter != nil {
		t.Errorf("broken: %v", f)
	}
	if f := got[3]; f.GetDetail() != "hopeless" || !f.Permanent {
		t.Errorf("hopeless: %v", f)
	}
	if f := got[4]; f.GetDetail() != "it is busy" || f.RetryAfter.AsDuration() != time.Minute {
		t.Errorf("busy: %v", f)
	}
	if f := got[5]; f.GetDetail() != "the handler panicked: oh" {
		t.Errorf("panic: %v", f)
	}
	if got[6] == nil {
		t.Error("an error that is not UTF-8 is lost")
	}
	if err := stop(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	var running, most atomic.Int64
	full := make(chan struct{}, 100)
	free := make(chan struct{})
	stop := run(t, c, SubscribeOptions{Concurrency: 3, Credits: 20}, func(context.Context, Fire) error {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		full <- struct{}{}
		<-free
		return nil
	})
	l := within(t, subs, "a subscription")
	l.send(t, time.Minute, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	for range 3 { // so many run together
		within(t, full, "a handler")
	}
	close(free)
	l.outcomes(t, 10)
	if most.Load() != 3 {
		t.Errorf("%d handlers at a time, want 3", most.Load())
	}
	_ = stop()
}

func TestDeadlinesAreExtendedWhileHandlersRun(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	free := make(chan struct{})
	stop := run(t, c, SubscribeOptions{Concurrency: 1}, func(_ context.Context, f Fire) error {
		if f.Name != "timer-9" {
			<-free
		}
		return nil
	})
	l := within(t, subs, "a subscription")
	l.send(t, 100*time.Millisecond, 9, 1, 2) // the first is done at once, the second runs, the third waits for a handler
	extended := map[uint64]int{}
	settled := false
	for extended[1] < 3 || extended[2] < 3 || !settled {
		m := within(t, l.settles, "an extension")
		settled = settled || len(m.Done) > 0
		for _, e := range m.Extensions {
			if settled && e.Tag == 9 {
				t.Error("a fire that is settled is extended")
			}
			extended[e.Tag]++
			// Both clocks are sent in whole milliseconds.
			if by := e.By.AsDuration(); by <= 0 || by > 102*time.Millisecond {
				t.Errorf("extended by %v", by)
			}
		}
	}
	close(free)
	l.outcomes(t, 2)
	_ = stop()
}

func TestLostStreamIsOpenedAgain(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	f.fail = []failing{{err: errDown}}
	lost := make(chan error, 10)
	began, causes := make(chan struct{}, 10), make(chan error, 10)
	stop := run(t, c, SubscribeOptions{Lost: func(err error) { lost <- err }}, func(ctx context.Context, f Fire) error {
		if f.Name == "timer-1" {
			began <- struct{}{}
			<-ctx.Done() // another one gets the fire
			causes <- context.Cause(ctx)
		}
		return nil
	})
	if err := within(t, lost, "the first failure"); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("lost: %v", err)
	}
	l := within(t, subs, "a subscription")
	l.send(t, time.Minute, 1)
	within(t, began, "a handler")
	l.hangUp <- errDown
	if err := within(t, causes, "the handler's ctx to end"); !errors.Is(err, errLost) {
		t.Errorf("the handler's ctx ended because %v", err)
	}
	if err := within(t, lost, "the second failure"); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("lost: %v", err)
	}
	again := within(t, subs, "another subscription")
	again.send(t, time.Minute, 2)
	if got := again.outcomes(t, 1); len(got) != 1 || got[2] != nil {
		t.Errorf("settled %v", got) // and not the fire of the lost stream
	}
	again.hangUp <- nil // an orderly end, as of a service that stops
	within(t, subs, "a third subscription")
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A handler that ignores its ctx delays neither Lost nor the next stream, and Subscribe returns only after
// it.
func TestHandlerThatIgnoresALostStream(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	lost := make(chan error, 10)
	began, free := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	stop := run(t, c, SubscribeOptions{Concurrency: 2, Lost: func(err error) { lost <- err }}, func(_ context.Context, f Fire) error {
		if f.Name == "timer-1" {
			close(began)
			<-free
			over.Store(true)
		}
		return nil
	})
	l := within(t, subs, "a subscription")
	l.send(t, time.Minute, 1)
	within(t, began, "a handler")
	l.hangUp <- errDown
	if err := within(t, lost, "the loss"); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("lost: %v", err)
	}
	again := within(t, subs, "another subscription")
	again.send(t, time.Minute, 2)
	if got := again.outcomes(t, 1); len(got) != 1 || got[2] != nil {
		t.Errorf("settled %v", got)
	}
	close(free)
	if err := stop(); err != nil || !over.Load() {
		t.Errorf("Subscribe returned %v; its handler has ended: %v", err, over.Load())
	}
}

// The connection is cut in the middle of a fire: the subscription continues on another one, and the lost
// fire's handler is stopped.
func TestSubscriptionOutlivesTheConnection(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	lost := make(chan error, 10)
	began, causes := make(chan struct{}, 10), make(chan error, 10)
	stop := run(t, c, SubscribeOptions{Lost: func(err error) { lost <- err }}, func(ctx context.Context, f Fire) error {
		if f.Name == "timer-1" {
			began <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		return nil
	})
	for round := range 3 {
		l := within(t, subs, "a subscription")
		l.send(t, time.Minute, 2)
		if got := l.outcomes(t, 1); len(got) != 1 || got[2] != nil {
			t.Errorf("connection %d settled %v", round, got)
		}
		l.send(t, time.Minute, 1)
		within(t, began, "a handler")
		f.mu.Lock()
		if len(f.conns) != round+1 {
			t.Errorf("%d connections in round %d", len(f.conns), round)
		}
		f.conns[round].Close()
		f.mu.Unlock()
		if err := within(t, causes, "the handler's ctx to end"); !errors.Is(err, errLost) {
			t.Errorf("the handler's ctx ended because %v", err)
		}
		if err := within(t, lost, "the loss"); !errors.Is(err, rouse.ErrUnavailable) {
			t.Errorf("lost: %v", err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestDrain(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	began, free := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- c.Subscribe(ctx, SubscribeOptions{Concurrency: 1}, func(ctx context.Context, f Fire) error {
			if f.Name != "timer-1" {
				t.Errorf("%s began after the end", f.Name)
			}
			close(began)
			<-free
			return ctx.Err()
		})
	}()
	l := within(t, subs, "a subscription")
	l.send(t, time.Minute, 1, 2)
	within(t, began, "a handler")
	cancel()
	l.send(t, time.Minute, 3)
	close(free)
	if err := within(t, over, "Subscribe to return"); err != nil {
		t.Error(err)
	}
	var settled []uint64
	for m := range l.settles {
		settled = append(settled, m.Done...)
		if len(m.Failures) > 0 {
			t.Errorf("failed: %v", m.Failures)
		}
	}
	if len(settled) != 1 || settled[0] != 1 {
		t.Errorf("settled %v, want the fire whose handler ran", settled)
	}
}

func TestDrainEnds(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	began := make(chan struct{})
	stop := run(t, c, SubscribeOptions{Drain: 20 * time.Millisecond}, func(ctx context.Context, _ Fire) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	l := within(t, subs, "a subscription")
	l.send(t, time.Minute, 1)
	within(t, began, "a handler")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := l.outcomes(t, 1); got[1].GetDetail() != errDrain.Error() {
		t.Errorf("settled %v", got)
	}
}

func TestEndWhileOpening(t *testing.T) {
	c, f := start(t, Options{})
	opening := make(chan struct{})
	f.subscribe = func(_ *rousev1.Open, stream rousev1.Fires_SubscribeServer) error {
		close(opening)
		<-stream.Context().Done()
		return nil
	}
	stop := run(t, c, SubscribeOptions{}, nil)
	within(t, opening, "a subscription")
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestRefusedSubscription(t *testing.T) {
	for _, want := range []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated} {
		c, f := start(t, Options{})
		f.fail = []failing{{err: status.Error(want, "no")}}
		if err := c.Subscribe(t.Context(), SubscribeOptions{}, nil); status.Code(err) != want {
			t.Errorf("refused as %v: %v", want, err)
		}
	}
}

func TestSubscriptionOutlivesThePageOfAProxy(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	f.fail = []failing{{err: status.Error(codes.PermissionDenied, "unexpected HTTP status code received from server: 403 (Forbidden)")}}
	stop := run(t, c, SubscribeOptions{}, nil)
	within(t, subs, "a subscription")
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestLowLevelSubscription(t *testing.T) {
	c, f := start(t, Options{})
	subs := lines(f)
	s, err := c.Open(t.Context(), &rousev1.Open{Credits: 10})
	if err != nil {
		t.Fatal(err)
	}
	l := within(t, subs, "a subscription")
	if off := s.Now().Sub(rouse.Reached(time.Now())); off < 50*time.Minute || off > 70*time.Minute {
		t.Errorf("the store's clock is %v off, want an hour", off)
	}
	l.send(t, time.Minute, 5, 6)
	fires, err := s.Recv()
	if err != nil || len(fires) != 2 || fires[1].Tag != 6 {
		t.Fatalf("%v %v", fires, err)
	}
	if err := s.Done([]uint64{5, 6}); err != nil {
		t.Error(err)
	}
	l.outcomes(t, 2)
	if err := s.Grant(5); err != nil {
		t.Error(err)
	}
	if n := within(t, l.credits, "credits"); n != 5 {
		t.Errorf("granted %d", n)
	}
	l.hangUp <- errDown
	if _, err := s.Recv(); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("received %v", err)
	}
	s.Close()
}
