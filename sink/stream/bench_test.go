package stream

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
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
	client, stop := serveOn(b, s, l, "passthrough:"+l.Addr().String(), grpc.WithNoProxy())
	defer stop()
	ctx, cut := context.WithCancel(b.Context())
	defer cut()
	stream := subscribe(b, ctx, client, &rousev1.Open{Namespace: "default", Channel: "jobs", Credits: 8192})
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
			if stream.Send(settleRequest(m)) != nil {
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
