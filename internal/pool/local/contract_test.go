package local

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/sink/sinktest"
)

// service is the server side of a worker's stream.
type service struct {
	rousev1.UnimplementedFiresServer
	sink *Sink
}

func (s service) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	return s.sink.Subscribe(stream)
}

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
	var running, peer sync.WaitGroup
	running.Go(run)

	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	rousev1.RegisterFiresServer(server, service{sink: s})
	running.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancel(context.Background())
	stream, err := rousev1.NewFiresClient(conn).Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	open := &rousev1.Open{Channel: p.Vars("42")["WORKER_REQUESTS_QUEUE"], Credits: 1000}
	if err := stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: open}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	arrivals := make(chan *sinktest.Arrival, 1000)
	var sending sync.Mutex
	peer.Go(func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				return
			}
			for _, f := range response.Fires {
				arrivals <- &sinktest.Arrival{
					Fire: rouse.Fire{ID: f.Id, Namespace: f.Namespace, Name: f.Name, Generation: f.Generation, Due: rouse.Instant(f.DueMs),
						Attempt: f.Attempt, Token: f.Token, Manual: f.Manual, Last: f.Last,
						Spec: &rouse.Spec{Payload: f.Payload, ContentType: f.ContentType}},
					Answer: func(a sinktest.Answer) {
						m := &rousev1.Settle{}
						if a == sinktest.Take {
							m.Answers = []*rousev1.Answer{{Tag: f.Tag, Payload: []byte("yes")}}
						} else {
							m.Failures = []*rousev1.Failure{{Tag: f.Tag, Permanent: a == sinktest.Reject}}
						}
						sending.Lock()
						defer sending.Unlock()
						_ = stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: m}})
					},
				}
			}
		}
	})
	var once sync.Once
	return &sinktest.Peer{
		Sink: s,
		Spec: rouse.Spec{Target: "pool:core/42", Labels: map[string]string{"kind": "test"}},
		Next: sinktest.From(arrivals),
		Vanish: func() {
			cut()
			peer.Wait()
		},
		Close: func() {
			once.Do(func() {
				cut()
				s.Close()
				_ = conn.Close()
				server.Stop()
				end()
				running.Wait()
				s.Wait()
				peer.Wait()
			})
		},
	}
}
