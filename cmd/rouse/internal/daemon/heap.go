package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// largeHeap is how large the heap of a server may become, in addition to window-bytes, before garbage is
// collected more often, up to twice as often.
const largeHeap = 448 << 20

// BoundHeap lets the garbage collector run more often while the heap would become larger than largeHeap and
// the window's bytes. Without that, a heap grows to twice the live bytes, and the store's tables of the
// latest writes are a large part of it: they have no pointers, so they cost the collector nothing. A limit on
// the whole process (GOMEMLIMIT) would let the collector take half of the CPU time whenever more is in use
// than the limit. If GOGC is set, BoundHeap does nothing.
func BoundHeap(window uint64) {
	if os.Getenv("GOGC") == "" {
		afterCollections(largeHeap+window, func(percent int) { debug.SetGCPercent(percent) })
	}
}

// afterCollections looks at the heap now and after each collection, and calls set when its percentage is
// another one.
func afterCollections(goal uint64, set func(percent int)) {
	was := 100
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var look func(struct{})
	look = func(struct{}) {
		metrics.Read(live)
		if p := heapPercent(live[0].Value.Uint64(), goal); p != was {
			was = p
			set(p)
		}
		runtime.AddCleanup(new(*byte), look, struct{}{})
	}
	look(struct{}{})
}

// heapPercent returns how far a heap may grow beyond its live bytes, in percent of them. It is in steps,
// because each change stops the process for a moment.
func heapPercent(live, goal uint64) int {
	room := max(goal, live) - live
	return int(10 * min(10, max(5, 10*room/max(1, live))))
}
