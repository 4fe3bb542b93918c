package hubtest

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
	subscribe func(rousev1.Fires_SubscribeServer) error
}

func (s service) Subscribe(stream rousev1.Fires_SubscribeServer) error { return s.subscribe(stream) }

// Serve serves subscriptions over gRPC in memory. It returns a client of them, and a function that ends both.
func Serve(t testing.TB, subscribe func(rousev1.Fires_SubscribeServer) error) (rousev1.FiresClient, func()) {
	l := bufconn.Listen(1 << 20)
	return ServeOn(t, subscribe, l, "passthrough:bufconn",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}

// ServeOn is Serve on a listener.
func ServeOn(t testing.TB, subscribe func(rousev1.Fires_SubscribeServer) error, l net.Listener, target string,
	opts ...grpc.DialOption) (rousev1.FiresClient, func()) {
	server := grpc.NewServer()
	rousev1.RegisterFiresServer(server, service{subscribe: subscribe})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	return rousev1.NewFiresClient(conn), sync.OnceFunc(func() {
		_ = conn.Close()
		server.Stop()
		serving.Wait()
	})
}

// Subscribe opens a subscription and waits until it is established.
func Subscribe(t testing.TB, ctx context.Context, c rousev1.FiresClient,
	open *rousev1.Open) rousev1.Fires_SubscribeClient {
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

// Settle returns the request that settles fires.
func Settle(m *rousev1.Settle) *rousev1.SubscribeRequest {
	return &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: m}}
}

// Arrivals returns the fires of a subscription until it ends, for the contract of sinks. take acknowledges a
// fire. wait returns when the subscription has ended.
func Arrivals(stream rousev1.Fires_SubscribeClient,
	take func(m *rousev1.Settle, tag uint64)) (arrivals chan *sinktest.Arrival, wait func()) {
	arrivals = make(chan *sinktest.Arrival, 1000)
	var sending sync.Mutex
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				return
			}
			for _, f := range response.Fires {
				arrivals <- &sinktest.Arrival{
					Fire: rouse.Fire{ID: f.Id, Namespace: f.Namespace, Name: f.Name, Generation: f.Generation,
						Due:     rouse.Instant(f.DueMs),
						Attempt: f.Attempt, Token: f.Token, Manual: f.Manual, Last: f.Last, Traceparent: f.Traceparent,
						Spec: &rouse.Spec{Payload: f.Payload, ContentType: f.ContentType}},
					Answer: func(a sinktest.Answer) {
						m := &rousev1.Settle{}
						if a == sinktest.Take {
							take(m, f.Tag)
						} else {
							m.Failures = []*rousev1.Failure{{Tag: f.Tag, Permanent: a == sinktest.Reject}}
						}
						sending.Lock()
						defer sending.Unlock()
						_ = stream.Send(Settle(m))
					},
				}
			}
		}
	})
	return arrivals, reading.Wait
}
