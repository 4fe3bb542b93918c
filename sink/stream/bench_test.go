package stream

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub/hubtest"
)

// BenchmarkLoopback delivers fires over loopback to a subscriber in the same process that settles each
// message immediately. One operation is one fire, including the client's work.
func BenchmarkLoopback(b *testing.B) {
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { loopback(b, size) })
	}
}

func loopback(b *testing.B, size int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{})
	client, stop := hubtest.ServeOn(b, s.Subscribe, l, "passthrough:"+l.Addr().String(), grpc.WithNoProxy())
	defer func() { s.Close(); stop(); s.Wait() }()
	ctx, cut := context.WithCancel(b.Context())
	defer cut()
	stream := hubtest.Subscribe(b, ctx, client, &rousev1.Open{Namespace: "default", Channel: "jobs", Credits: 8192})
	var running sync.WaitGroup
	defer running.Wait()
	defer cut()
	running.Go(func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				return
			}
			m := &rousev1.Settle{Done: make([]uint64, len(response.Fires))}
			for i, f := range response.Fires {
				m.Done[i] = f.Tag
			}
			if stream.Send(hubtest.Settle(m)) != nil {
				return
			}
		}
	})
	payload := make([]byte, 200)
	spec := &rouse.Spec{Target: "stream:jobs", Payload: payload, ContentType: "application/json"}
	room := make(chan struct{}, 64)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	var delivering sync.WaitGroup
	for n := 0; n < b.N; n += size {
		room <- struct{}{}
		fires := make([]rouse.Fire, min(size, b.N-n))
		for i := range fires {
			fires[i] = rouse.Fire{ID: "0123456789abcdefghjkmnpqrs", Namespace: "default", Name: "a-timer-of-the-bench", Generation: 12345,
				Due: 1800000000000, Attempt: 1, Token: 12345, Spec: spec}
		}
		left := len(fires)
		settle := func(int, rouse.Outcome) { // from one goroutine here: the subscriber's
			if left--; left == 0 {
				<-room
			}
		}
		delivering.Go(func() { s.Deliver(ctx, fires, settle) })
	}
	delivering.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "fires/s")
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/fire")
}

// cpu returns the processor time of the process.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDeliver delivers fires to subscribers without a network, which settle each message immediately.
// One operation is one fire: what the sink itself costs.
func BenchmarkDeliver(b *testing.B) {
	for _, subs := range []int{1, 100} {
		for _, size := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("subscribers=%d/batch=%d", subs, size), func(b *testing.B) { direct(b, subs, size) })
		}
	}
}

func direct(b *testing.B, subs, size int) {
	s := New(Options{})
	ctx, cut := context.WithCancel(b.Context())
	var running sync.WaitGroup
	for range subs {
		p := &echo{ctx: ctx, requests: make(chan *rousev1.SubscribeRequest, 1024), joined: make(chan struct{})}
		p.requests <- &rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: &rousev1.Open{Namespace: "default", Channel: "jobs", Credits: 8192}}}
		running.Go(func() { _ = s.Subscribe(p) })
		<-p.joined
	}
	spec := &rouse.Spec{Target: "stream:jobs", Payload: make([]byte, 200), ContentType: "application/json"}
	room := make(chan struct{}, 64)
	var delivering sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for n := 0; n < b.N; n += size {
		room <- struct{}{}
		fires := make([]rouse.Fire, min(size, b.N-n))
		for i := range fires {
			fires[i] = rouse.Fire{ID: "0123456789abcdefghjkmnpqrs", Namespace: "default", Name: "a-timer-of-the-bench", Due: 1800000000000, Attempt: 1, Spec: spec}
		}
		var left atomic.Int64
		left.Store(int64(len(fires)))
		settle := func(int, rouse.Outcome) {
			if left.Add(-1) == 0 {
				<-room
			}
		}
		delivering.Go(func() { s.Deliver(ctx, fires, settle) })
	}
	delivering.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/fire")
	s.Close()
	cut()
	running.Wait()
}

// echo is a stream that settles what it is sent.
type echo struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan *rousev1.SubscribeRequest
	joined   chan struct{}
}

func (p *echo) Context() context.Context     { return p.ctx }
func (p *echo) SendHeader(metadata.MD) error { close(p.joined); return nil }

func (p *echo) Recv() (*rousev1.SubscribeRequest, error) {
	select {
	case r := <-p.requests:
		return r, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func (p *echo) Send(m *rousev1.SubscribeResponse) error {
	settle := &rousev1.Settle{Done: make([]uint64, len(m.Fires))}
	for i, f := range m.Fires {
		settle.Done[i] = f.Tag
	}
	p.requests <- hubtest.Settle(settle)
	return nil
}
