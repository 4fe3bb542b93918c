package stream

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/sink/sinktest"
)

// service is the server's part of a subscription.
type service struct {
	rousev1.UnimplementedFiresServer
	sink *Sink
}

func (s service) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	return s.sink.Subscribe(stream)
}

// serve serves a sink over gRPC and returns a client of it, and what ends both.
func serve(t testing.TB, s *Sink) (rousev1.FiresClient, func()) {
	l := bufconn.Listen(1 << 20)
	return serveOn(t, s, l, "passthrough:bufconn", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}

func serveOn(t testing.TB, s *Sink, l net.Listener, target string, opts ...grpc.DialOption) (rousev1.FiresClient, func()) {
	server := grpc.NewServer()
	rousev1.RegisterFiresServer(server, service{sink: s})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	return rousev1.NewFiresClient(conn), func() {
		once.Do(func() {
			s.Close()
			conn.Close()
			server.Stop()
			serving.Wait()
			s.Wait()
		})
	}
}

// subscribe opens a subscription and waits until it is established.
func subscribe(t testing.TB, ctx context.Context, c rousev1.FiresClient, open *rousev1.Open) rousev1.Fires_SubscribeClient {
	t.Helper()
	stream, err := c.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: open}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return stream
}

func settleRequest(m *rousev1.Settle) *rousev1.SubscribeRequest {
	return &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: m}}
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
	stream := subscribe(t, ctx, client, &rousev1.Open{Namespace: "sinktest", Channel: "jobs", Credits: 1000})
	arrivals := make(chan *sinktest.Arrival, 1000)
	var sending sync.Mutex
	var peer sync.WaitGroup
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
						switch a {
						case sinktest.Take:
							m.Done = []uint64{f.Tag}
						default:
							m.Failures = []*rousev1.Failure{{Tag: f.Tag, Permanent: a == sinktest.Reject}}
						}
						sending.Lock()
						defer sending.Unlock()
						_ = stream.Send(settleRequest(m))
					},
				}
			}
		}
	})
	return &sinktest.Peer{
		Sink: s,
		Spec: rouse.Spec{Target: "stream:jobs", Labels: map[string]string{"kind": "test"}},
		Next: sinktest.From(arrivals),
		Vanish: func() {
			cut()
			peer.Wait()
		},
		Close: func() {
			cut()
			stop()
			peer.Wait()
		},
	}
}
