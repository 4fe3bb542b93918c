//go:build unix

package queuetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rousehq/rouse/internal/queue"
)

// Benchmark measures a queue: publishing with confirms, and publishing while a consumer takes and
// acknowledges. Each iteration is one message of 300 bytes; four publish at a time, each with the batch size
// in the name.
//
//	go test -run '^$' -bench . -benchtime 50000x
func Benchmark(b *testing.B, open func(ctx context.Context, o queue.Options) (queue.Queue, error)) {
	for _, batch := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("publish/batch=%d", batch), func(b *testing.B) {
			q := openFor(b, open)
			measureRate(b, func() { publishAll(b, q, batch) })
		})
	}
	b.Run("through/batch=512", func(b *testing.B) {
		q := openFor(b, open)
		ctx, cancel := context.WithCancel(b.Context())
		var left atomic.Int64
		left.Store(int64(b.N))
		var acks sync.WaitGroup
		ended := make(chan error, 1)
		go func() {
			ended <- q.Consume(ctx, 1024, func(d queue.Delivery) {
				acks.Go(func() {
					if err := d.Ack(context.Background()); err != nil {
						b.Error(err)
					}
					if left.Add(-1) == 0 {
						cancel()
					}
				})
			})
		}()
		measureRate(b, func() {
			publishAll(b, q, 512)
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
		acks.Wait()
		cancel()
	})
}

func openFor(b *testing.B, open func(context.Context, queue.Options) (queue.Queue, error)) queue.Queue {
	b.Helper()
	q, err := open(b.Context(), queue.Options{Name: fmt.Sprintf("bench-%d", time.Now().UnixNano())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := q.Close(); err != nil {
			b.Error(err)
		}
	})
	return q
}

// measureRate reports the rate, and the CPU time of this process per message, which hardly depends on other
// load.
func measureRate(b *testing.B, f func()) {
	b.Helper()
	b.ResetTimer()
	before := processCPUTime()
	f()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64((processCPUTime()-before).Microseconds())/float64(b.N), "cpu-µs/msg")
}

func processCPUTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // never fails for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func publishAll(b *testing.B, q queue.Queue, batch int) {
	const publishers = 4
	var next atomic.Int64
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			list := make([]queue.Message, 0, batch)
			body := make([]byte, 300)
			for {
				from := next.Add(int64(batch)) - int64(batch)
				list = list[:0]
				for i := from; i < min(from+int64(batch), int64(b.N)); i++ {
					list = append(list, queue.Message{ID: fmt.Sprintf("m%d", i), Body: body})
				}
				if len(list) == 0 {
					return
				}
				for _, err := range q.Publish(b.Context(), list) {
					if err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
