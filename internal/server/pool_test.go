package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// aTarget returns targets that the fake accepts.
func aTarget(pool, key string) (string, error) { return "stream:" + pool + "/" + key, nil }

func (r *running) calls() rousev1.CallsClient { return rousev1.NewCallsClient(r.dial()) }

// made waits until the fake has this many timers.
func (f *fake) made(t *testing.T, n int) {
	t.Helper()
	have := 0
	if !poll.Holds(poll.Patience, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		have = len(f.rows)
		return have == n
	}) {
		t.Fatalf("there are %d timers, not %d", have, n)
	}
}

// TestCallsWithoutAWaitingCaller: a request of which nothing is kept is deleted once no caller waits;
// others stay.
func TestCallsWithoutAWaitingCaller(t *testing.T) {
	f := newFake()
	calls := NewCalls(aTarget)
	c := serve(t, Options{Timers: f, Calls: calls}).calls()
	soon := durationpb.New(10 * time.Millisecond)
	got, err := c.Call(t.Context(), &rousev1.CallRequest{Pool: "core", Key: "1", Wait: soon})
	if err != nil || got.Status != rousev1.CallStatus_CALL_STATUS_EXPIRED || got.Detail == "" {
		t.Errorf("%v, %v; want it expired", got, err)
	}
	f.made(t, 0)
	ctx, hangUp := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, &rousev1.CallRequest{Pool: "core", Key: "1", Wait: durationpb.New(time.Minute)})
		over <- err
	}()
	f.made(t, 1)
	hangUp()
	if err := <-over; status.Code(err) != codes.Canceled {
		t.Errorf("%v; want it canceled", err)
	}
	f.made(t, 0)
	got, err = c.Call(t.Context(), &rousev1.CallRequest{Pool: "core", Key: "1", Wait: soon, Id: "kept"})
	if err != nil || got.Status != rousev1.CallStatus_CALL_STATUS_PENDING {
		t.Errorf("%v, %v; want it pending", got, err)
	}
	f.made(t, 1)
	spec := f.rows[rouse.Key{Namespace: "default", Name: "call~kept"}].Spec
	if spec.Target != "stream:core/1" || spec.Keep != callKeep || spec.Deadline != callDeadline || spec.Retry.Attempts != callAttempts {
		t.Errorf("it is %+v", spec)
	}
	if n := calls.waiting.Load(); n != 0 || len(calls.byKey) != 0 {
		t.Errorf("%d and %d still wait", n, len(calls.byKey))
	}
}

// TestCallsThatEndElsewhere: if several nodes share a store, polling finds the end of a request.
func TestCallsThatEndElsewhere(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f, Calls: NewCalls(aTarget), Nodes: func(context.Context) ([]Node, error) { return nil, nil }})
	c := s.calls()
	over := make(chan *rousev1.Called, 1)
	go func() {
		got, err := c.Call(t.Context(), &rousev1.CallRequest{Pool: "core", Key: "1", Id: "x", Wait: durationpb.New(time.Minute)})
		if err != nil {
			t.Error(err)
		}
		over <- got
	}()
	f.made(t, 1)
	key := rouse.Key{Namespace: "default", Name: "call~x"}
	f.set(func() {
		ended := f.rows[key]
		ended.Due, ended.Answer = rouse.Never, &rouse.Answer{Payload: []byte("yes")}
		f.rows[key] = ended
		f.history = append(f.history, rouse.Record{Namespace: "default", Name: "call~x", Ending: rouse.EndFired, Attempts: 2})
	})
	if got := <-over; got.GetStatus() != rousev1.CallStatus_CALL_STATUS_OK || string(got.GetPayload()) != "yes" || got.GetAttempts() != 2 {
		t.Errorf("%v", got)
	}
}

// TestCallsAnsweredBeforeTheWait: a wait that begins between the answer and the commit finds the answer in
// the store.
func TestCallsAnsweredBeforeTheWait(t *testing.T) {
	f := newFake()
	calls := NewCalls(aTarget)
	c := serve(t, Options{Timers: f, Calls: calls}).calls()
	if _, err := c.Call(t.Context(), &rousev1.CallRequest{Pool: "core", Key: "1", Id: "x"}); err != nil {
		t.Fatal(err)
	}
	key := rouse.Key{Namespace: "default", Name: "call~x"}
	answer := &rouse.Answer{Payload: []byte("yes")}
	calls.Answered(&rouse.Fire{Namespace: key.Namespace, Name: key.Name}, answer)
	over := make(chan *rousev1.Called, 1)
	go func() {
		got, err := c.Fetch(t.Context(), &rousev1.FetchRequest{Id: "x", Wait: durationpb.New(time.Minute)})
		if err != nil {
			t.Error(err)
		}
		over <- got
	}()
	poll.Until(t, "there is a wait", func() bool { return calls.waiting.Load() > 0 })
	record := rouse.Record{Namespace: key.Namespace, Name: key.Name, Ending: rouse.EndFired, Attempts: 1}
	f.set(func() {
		ended := f.rows[key]
		ended.Due, ended.Answer = rouse.Never, answer
		f.rows[key] = ended
		f.history = append(f.history, record)
	})
	calls.Recorded([]rouse.Record{record})
	if got := <-over; got.GetStatus() != rousev1.CallStatus_CALL_STATUS_OK || string(got.GetPayload()) != "yes" {
		t.Errorf("%v", got)
	}
}

// TestCallsAreRefused: without pools there are no calls, and invalid requests change nothing.
func TestCallsAreRefused(t *testing.T) {
	c := serve(t, Options{Timers: newFake()}).calls()
	for _, call := range []func() error{
		func() error { _, err := c.Call(t.Context(), &rousev1.CallRequest{Pool: "core"}); return err },
		func() error { _, err := c.Fetch(t.Context(), &rousev1.FetchRequest{Id: "x"}); return err },
	} {
		if err := call(); status.Code(err) != codes.Unimplemented {
			t.Errorf("%v; want it not offered", err)
		}
	}
	f := newFake()
	c = serve(t, Options{Timers: f, Calls: NewCalls(aTarget)}).calls()
	for _, bad := range []*rousev1.CallRequest{
		{Wait: durationpb.New(maxCallWait + 1)}, {Wait: durationpb.New(-1)}, {Keep: durationpb.New(maxCallKeep + 1)}, {Keep: durationpb.New(0)},
	} {
		if _, err := c.Call(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v; want it refused", bad, err)
		}
	}
	f.made(t, 0)
}

// TestEndingsOfCalls: a request ends for every way in which an occurrence ends.
func TestEndingsOfCalls(t *testing.T) {
	for _, c := range []struct {
		record rouse.Record
		want   rousev1.CallStatus
	}{
		{rouse.Record{Ending: rouse.EndFired}, rousev1.CallStatus_CALL_STATUS_OK},
		{rouse.Record{Ending: rouse.EndMissed, Reason: "deadline of 1s passed"}, rousev1.CallStatus_CALL_STATUS_EXPIRED},
		{rouse.Record{Ending: rouse.EndDead, Cause: rouse.CauseDeadline, Reason: "the deadline of 1s has passed: x", Attempts: 1}, rousev1.CallStatus_CALL_STATUS_EXPIRED},
		{rouse.Record{Ending: rouse.EndDead, Reason: "it failed", Attempts: 3}, rousev1.CallStatus_CALL_STATUS_DELIVERY_LIMIT},
		{rouse.Record{Ending: rouse.EndDead, Code: callRejected}, rousev1.CallStatus_CALL_STATUS_REJECTED},
		{rouse.Record{Ending: rouse.EndSkipped}, rousev1.CallStatus_CALL_STATUS_DELETED},
	} {
		out := calledOf(&c.record, &rouse.Answer{})
		if out.status != c.want || (out.answer != nil) != (c.want == rousev1.CallStatus_CALL_STATUS_OK) {
			t.Errorf("%+v is %v; want %v", c.record, out.status, c.want)
		}
	}
}

// TestIDsOfCallsAreTheirOwn: an id is no name of a timer, a request with the id of another one is refused,
// and so is one with its Idempotency-Key; the same request is sent once.
func TestIDsOfCallsAreTheirOwn(t *testing.T) {
	s := serveEngine(t, mem.New(), func(o *Options) { o.Calls = NewCalls(aTarget) })
	send := s.sender(t)
	const pools = "/v1/namespaces/ns/pools/core/"
	call := func(key, id, body string, status int, header ...string) string {
		t.Helper()
		w := send("POST", pools+key+":call?wait=0s&id="+id, body, header...)
		if w.Code == 200 { // it has ended already
			w.Code = 202
		}
		want(t, w, status)
		return w.Header().Get(callIDHeader)
	}
	want(t, send("POST", timersURL, `{"name":"x","schedule":"@after 1ms","target":"stream:core/1","payload":"hi","keep":"1h"}`), 201)
	poll.Until(t, "it has ended", func() bool { return decoded[api.Timer](t, send("GET", timersURL+"/x", "")).State == "ended" })
	for range 2 {
		if got := call("1", "x", `"hi"`, 202); got != "x" {
			t.Errorf("the id of an ended timer: %q", got)
		}
	}
	if sent := decoded[api.Timer](t, send("GET", timersURL+"/call~x", "")); sent.Target != "stream:core/1" || sent.Generation == 0 {
		t.Errorf("it was not sent: %+v", sent)
	}
	call("1", "x", `"other"`, 409)
	call("2", "x", `"hi"`, 409)
	call("1", "x", `"hi"`, 409, "Content-Type", "text/plain")
	want(t, send("POST", timersURL, `{"name":"call~y","schedule":"@every 1h","target":"stream:core/1"}`), 201)
	call("1", "y", `"hi"`, 409)
	call("1", strings.Repeat("l", rouse.MaxName), `"hi"`, 202)
	call("1", strings.Repeat("l", rouse.MaxName), `"other"`, 409)
	call("1", strings.Repeat("l", rouse.MaxName+1), `"hi"`, 422)

	first := call("1", "", `"hi"`, 202, "Idempotency-Key", "k")
	if again := call("1", "", `"hi"`, 202, "Idempotency-Key", "k"); again != first || again == "" {
		t.Errorf("%q after %q", again, first)
	}
	if other := call("1", "", `"hi"`, 202, "Idempotency-Key", "l"); other == first {
		t.Error("another key is the same request")
	}
	if kept := decoded[api.Timer](t, send("GET", timersURL+"/call~"+first, "")).Keep; time.Duration(kept) < access.RepeatAge {
		t.Errorf("its answer is kept for %v", kept)
	}
	call("1", "", `"other"`, 422, "Idempotency-Key", "k")
	call("2", "", `"hi"`, 422, "Idempotency-Key", "k")
	call("1", "z", `"hi"`, 422, "Idempotency-Key", "k")
	want(t, send("GET", timersURL+"/call~z", ""), 404)

	if w := send("GET", "/v1/namespaces/ns/calls/"+first, ""); w.Code != 202 && w.Code != 200 {
		t.Errorf("it is not found: %d", w.Code)
	}
	for _, name := range []string{"z", "call~y"} { // is no id
		want(t, send("GET", "/v1/namespaces/ns/calls/"+name, ""), 404)
	}
}
