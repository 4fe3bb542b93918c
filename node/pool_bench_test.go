package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// BenchmarkCalls sends requests to one key, 64 in flight, each durable before it is given to its worker. An
// operation is a request, from the client's call to its answer; clients, node and worker share the machine
// and the process.
func BenchmarkCalls(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	p := testPool("core", nil)
	p.Delays = pool.Delays{Unbind: time.Hour, Stop: time.Hour}
	p.Open = func(*slog.Logger) (driver.Driver, error) { return &outside{}, nil }
	n, err := Open(ctx, "pebble:"+b.TempDir(), WithAPI("127.0.0.1:0"), func(c *Config) { c.Pools = []pool.Setup{p} })
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	c, err := client.Dial(n.Addr(), client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	running.Go(func() {
		w := client.Worker{Queue: "pool:core/k", Address: n.Addr()}
		_ = w.Work(ctx, client.WorkOptions{Concurrency: 8, Prefetch: 256}, func(_ context.Context, f client.Fire) (*client.Answer, error) {
			return &client.Answer{Payload: f.Payload}, nil
		})
	})
	request := client.Call{Pool: "core", Key: "k", Payload: make([]byte, 200), Wait: 30 * time.Second}
	if _, err := c.Call(ctx, request); err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			for left.Add(-1) >= 0 {
				if got, err := c.Call(ctx, request); err != nil || len(got.Answer.Payload) != 200 {
					b.Error(got, err)
					return
				}
			}
		})
	}
	calls.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/call")
}

// outside is a driver whose workers are there without it.
type outside struct{ keys sync.Map }

func (o *outside) Ensure(_ context.Context, g driver.Group) error {
	o.keys.Store(g.Key, driver.Worker{ID: "outside", Key: g.Key, State: driver.Running})
	return nil
}

func (o *outside) Drain(_ context.Context, key string) error {
	o.keys.Delete(key)
	return nil
}

func (o *outside) List(context.Context) (list []driver.Worker, err error) {
	o.keys.Range(func(_, w any) bool {
		list = append(list, w.(driver.Worker))
		return true
	})
	return list, nil
}

func (o *outside) Changed() <-chan struct{}      { return nil }
func (o *outside) Release(context.Context) error { return nil }
func (o *outside) Close(context.Context) error   { return nil }

// cpuTime is what the process has used: clients, node and worker.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
