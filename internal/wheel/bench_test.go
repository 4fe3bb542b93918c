package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/rousehq/rouse"
)

// BenchmarkWheel fills a wheel with entries spread over an hour, and lets them expire millisecond by
// millisecond.
func BenchmarkWheel(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			const start, hour = rouse.Instant(1_800_000_000_123), 3_600_000
			var insert, expire, size float64
			dst := make([]uint64, 0, 1<<16)
			for b.Loop() {
				rng := rand.New(rand.NewPCG(1, 2))
				at := make([]uint32, n)
				for i := range at {
					at[i] = 1 + rng.Uint32N(hour)
				}
				before := heap()
				w := New(start)
				t0 := b.Elapsed()
				for i, d := range at {
					w.Insert(start+rouse.Instant(d), uint64(i))
				}
				t1 := b.Elapsed()
				size = float64(heap()-before) / float64(n)
				t2 := b.Elapsed()
				for now := start; w.Len() > 0; now++ {
					dst = w.Advance(now, dst[:0])
				}
				t3 := b.Elapsed()
				insert += float64(t1-t0) / float64(n)
				expire += float64(t3-t2) / float64(n)
				runtime.KeepAlive(at)
			}
			b.ReportMetric(insert/float64(b.N), "ns/insert")
			b.ReportMetric(expire/float64(b.N), "ns/expire")
			b.ReportMetric(size, "B/entry")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkCancel inserts and cancels in a wheel of a million entries.
func BenchmarkCancel(b *testing.B) {
	w := New(0)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(1_000_000) {
		w.Insert(rouse.Instant(rng.Uint32()), i)
	}
	for b.Loop() {
		w.Cancel(w.Insert(rouse.Instant(rng.Uint32()), 1))
	}
}

// BenchmarkIdleYear advances a wheel with one entry over a year.
func BenchmarkIdleYear(b *testing.B) {
	const year = 365 * 24 * 3_600_000
	now := rouse.Instant(1_800_000_000_000)
	w := New(now)
	for b.Loop() {
		w.Insert(now+year, 1)
		now += year
		if got := w.Advance(now, nil); len(got) != 1 {
			b.Fatal(got)
		}
	}
}
