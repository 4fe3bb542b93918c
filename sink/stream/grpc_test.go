package stream

import (
	"context"
	"testing"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub/hubtest"
	"github.com/rousehq/rouse/sink/sinktest"
)

// serve serves a sink over gRPC and returns a client of it, and what ends both.
func serve(t testing.TB, s *Sink) (rousev1.FiresClient, func()) {
	client, stop := hubtest.Serve(t, s.Subscribe)
	return client, func() { s.Close(); stop(); s.Wait() }
}

func TestContract(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{Open: openPeer, Wrong: []rouse.Spec{
		{Target: "https://example.com"},
		{Target: "stream"},
		{Target: "stream:a\nb"},
		{Target: "stream:\xff"},
		{Target: "stream: a"},
		{Target: "stream:" + string(make([]byte, MaxChannel+1))},
		{Target: "stream:a", Webhook: rouse.Webhook{Method: "PUT"}},
		{Target: "stream:a", Webhook: rouse.Webhook{Batch: 2}},
	}})
}

// openPeer returns a sink with one subscriber.
func openPeer(t *testing.T) *sinktest.Peer {
	s := New(Options{})
	client, stop := serve(t, s)
	ctx, cut := context.WithCancel(context.Background())
	stream := hubtest.Subscribe(t, ctx, client, &rousev1.Open{Namespace: "sinktest", Channel: "jobs", Credits: 1000})
	arrivals, wait := hubtest.Arrivals(stream, func(m *rousev1.Settle, tag uint64) { m.Done = []uint64{tag} })
	return &sinktest.Peer{
		Sink: s,
		Spec: rouse.Spec{Target: "stream:jobs", Labels: map[string]string{"kind": "test"}},
		Next: sinktest.From(arrivals),
		Vanish: func() {
			cut()
			wait()
		},
		Close: func() {
			cut()
			stop()
			wait()
		},
	}
}
