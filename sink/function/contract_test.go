package function

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{Open: open, Wrong: []rouse.Spec{
		{Target: ""}, {Target: "func"}, {Target: "func:"}, {Target: "function:x"}, {Target: "FUNC:x"}, {Target: "stream:x"},
		{Target: "func:a b"}, {Target: "func:ä"}, {Target: "func:a\x00"}, {Target: "func:" + strings.Repeat("a", MaxName+1)},
		{Target: "func:x", Webhook: rouse.Webhook{Method: "PUT"}},
		{Target: "func:x", Webhook: rouse.Webhook{Headers: map[string]string{"a": "b"}}},
		{Target: "func:x", Webhook: rouse.Webhook{Structured: true}},
		{Target: "func:x", Webhook: rouse.Webhook{Batch: 1}},
		{Target: "func:x", Webhook: rouse.Webhook{Accept: 1}},
	}})
}

// open returns a sink with a function that waits for the peer's answer.
func open(t *testing.T) *sinktest.Peer {
	s := New(Options{Concurrency: 64})
	arrivals := make(chan *sinktest.Arrival, 1000)
	gone := make(chan struct{})
	vanish := sync.OnceFunc(func() {
		s.mu.Lock()
		clear(s.functions)
		s.mu.Unlock()
		close(gone)
	})
	err := s.Handle("peer", func(ctx context.Context, f rouse.Fire) error {
		answer := make(chan sinktest.Answer, 1)
		spec := rouse.Spec{Payload: f.Spec.Payload, ContentType: f.Spec.ContentType}
		f.Spec = &spec
		arrivals <- &sinktest.Arrival{Fire: f, Answer: func(a sinktest.Answer) { answer <- a }}
		select {
		case a := <-answer:
			switch a {
			case sinktest.Fail:
				return errors.New("it failed")
			case sinktest.Reject:
				return Permanent(errors.New("it always fails"))
			}
			return nil
		case <-gone:
			panic("vanished")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return &sinktest.Peer{
		Sink:   s,
		Spec:   rouse.Spec{Target: "func:peer"},
		Next:   sinktest.From(arrivals),
		Vanish: vanish,
		Close:  vanish,
	}
}
