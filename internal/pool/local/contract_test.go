package local

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub/hubtest"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/sink/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{Open: openPeer, Wrong: []rouse.Spec{
		{Target: "https://example.com"},
		{Target: "pool:core"},
		{Target: "pool:other/42"},
		{Target: "pool:core/%zz"},
		{Target: "pool:core/42", Webhook: rouse.Webhook{Method: "PUT"}},
	}})
}

// openPeer returns a sink with one pool and one running worker, over gRPC.
func openPeer(t *testing.T) *sinktest.Peer {
	s := New(Options{Wait: 2 * time.Second})
	m, err := pool.NewManager(pool.Config{Name: "core", Delays: pool.Delays{Unbind: time.Hour, Stop: time.Hour}, Driver: noop.Driver{},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: pool.NewRegistry(prometheus.NewRegistry()).Pool("core")})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Add(m, PoolOptions{Address: func() string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	run, err := p.Begin(life)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(run)
	client, stop := hubtest.Serve(t, s.Subscribe)
	ctx, cut := context.WithCancel(context.Background())
	stream := hubtest.Subscribe(t, ctx, client, &rousev1.Open{Channel: p.Vars("42")["WORKER_REQUESTS_QUEUE"], Credits: 1000})
	arrivals, wait := hubtest.Arrivals(stream, func(m *rousev1.Settle, tag uint64) {
		m.Answers = []*rousev1.Answer{{Tag: tag, Payload: []byte("yes")}}
	})
	var once sync.Once
	return &sinktest.Peer{
		Sink: s,
		Spec: rouse.Spec{Target: "pool:core/42", Labels: map[string]string{"kind": "test"}},
		Next: sinktest.From(arrivals),
		Vanish: func() {
			cut()
			wait()
		},
		Close: func() {
			once.Do(func() {
				cut()
				s.Close()
				stop()
				end()
				running.Wait()
				s.Wait()
				wait()
			})
		},
	}
}
