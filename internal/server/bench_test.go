package server

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"

	"github.com/rousehq/rouse"
)

// instant is an engine that completes everything at once, so that the benchmarks measure the server alone.
type instant struct{ *fake }

func (instant) Put(_ context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	results := make([]timers.PutResult, len(puts))
	for i := range puts {
		results[i].Timer = rouse.Timer{Key: puts[i].Key, Spec: puts[i].Spec, Revision: 1, Generation: 1}
	}
	return results, nil
}

func benchConn(b *testing.B) *grpc.ClientConn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := New(Options{Timers: instant{newFake()}})
	go func() { done <- s.Run(ctx, l, nil) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		cancel()
		<-done
	})
	b.ReportAllocs()
	return conn
}

// BenchmarkEmptyCall measures gRPC's own cost of a call, the baseline of BenchmarkCreate.
func BenchmarkEmptyCall(b *testing.B) {
	c := healthv1.NewHealthClient(benchConn(b))
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		r := &healthv1.HealthCheckRequest{}
		for pb.Next() {
			if _, err := c.Check(context.Background(), r); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	c := rousev1.NewTimersClient(benchConn(b))
	b.SetParallelism(32)
	var next atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Create(context.Background(), &rousev1.CreateRequest{Name: fmt.Sprint("timer-", next.Add(1)), Spec: goodSpec()}); err != nil {
				b.Error(err)
			}
		}
	})
}

func hundred() *rousev1.BatchCreateRequest {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("timer-", i))
	}
	r := request(0, names...)
	for _, t := range r.Timers {
		t.Spec.Payload = make([]byte, 200)
	}
	return r
}

func BenchmarkBatchOf100(b *testing.B) {
	c := rousev1.NewTimersClient(benchConn(b))
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		r := hundred()
		for pb.Next() {
			if _, err := c.BatchCreate(context.Background(), r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N*100)/b.Elapsed().Seconds(), "timers/s")
}

func BenchmarkStreamOf100(b *testing.B) {
	stream, err := rousev1.NewTimersClient(benchConn(b)).CreateStream(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for i := range b.N {
			r := request(0)
			for j := range 100 {
				r.Timers = append(r.Timers, &rousev1.NewTimer{Name: fmt.Sprint("timer-", i, "-", j), Spec: goodSpec()})
			}
			if err := stream.Send(r); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for range b.N {
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N*100)/b.Elapsed().Seconds(), "timers/s")
}
