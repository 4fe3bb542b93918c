package daemon

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestALargeHeapIsCollectedMoreOften(t *testing.T) {
	for _, c := range []struct {
		live, goal uint64
		want       int
	}{{0, 700, 100}, {100, 700, 100}, {350, 700, 100}, {351, 700, 90}, {400, 700, 70}, {466, 700, 50}, {700, 700, 50}, {10_000, 700, 50}} {
		if got := heapPercent(c.live<<20, c.goal<<20); got != c.want {
			t.Errorf("with %d of %d MiB in use, the heap grows by %d %%, not %d", c.live, c.goal, got, c.want)
		}
	}

	var percent atomic.Int64
	want := func(n int64) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); percent.Load() != n; time.Sleep(time.Millisecond) {
			if runtime.GC(); time.Now().After(end) {
				t.Fatalf("the heap grows by %d %%, not %d", percent.Load(), n)
			}
		}
	}
	const goal = 256 << 20 // far more than the tests use
	large := make([]byte, goal)
	runtime.GC()
	afterCollections(goal, func(p int) { percent.Store(int64(p)) })
	want(50)
	runtime.KeepAlive(large)
	want(100)
	large = make([]byte, goal)
	want(50)
	runtime.KeepAlive(large)
}
