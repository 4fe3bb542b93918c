package batch

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkDo measures single items from many goroutines into a flush that does nothing.
func BenchmarkDo(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var flushes int
			w := New(Options{MaxItems: 4096, MaxBytes: 8 << 20, Queue: 16384}, func(*int) int { return 128 },
				func(_ context.Context, items []*int) ([]int, error) {
					flushes++
					return make([]int, len(items)), nil
				}, nil)
			ctx, end := context.WithCancel(b.Context())
			var run, work sync.WaitGroup
			run.Go(func() { w.Run(ctx) })
			b.ReportAllocs()
			b.ResetTimer()
			for i := range callers {
				work.Go(func() {
					item := []*int{new(int)}
					for n := i; n < b.N; n += callers {
						if _, err := w.Do(ctx, item); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			b.StopTimer()
			end()
			run.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
			b.ReportMetric(float64(b.N)/float64(flushes), "items/flush")
		})
	}
}
