package bench

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/wheel"
)

// Wheel holds the figures of the timing wheel alone.
type Wheel struct {
	Entries int64   `json:"entries"`
	Bytes   float64 `json:"bytes_per_entry"`
	Insert  float64 `json:"insert_us"`
	Expire  float64 `json:"expire_us"`
}

// wheelAlone inserts entries over an hour and lets them all expire, millisecond by millisecond.
func wheelAlone(_ context.Context, o Options) (*Result, error) {
	n := o.Count
	n = cmp.Or(n, 10_000_000)
	before := heapBytes()
	w := wheel.New(0)
	rnd := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	for i := range n {
		w.Insert(rouse.Instant(rnd.Int64N(3_600_000)), uint64(i))
	}
	insert := time.Since(began)
	bytes := float64(heapBytes()-before) / float64(n)
	began = time.Now()
	var out []uint64
	got := 0
	for now := range rouse.Instant(3_600_000) {
		out = w.Advance(now, out[:0])
		got += len(out)
	}
	expire := time.Since(began)
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	r := &Result{Timers: int64(n), Seconds: (insert + expire).Seconds(),
		Wheel: &Wheel{int64(n), bytes, us(insert), us(expire)}}
	r.Rate = float64(n) / r.Seconds
	r.addGoal(got == n, "every entry expired once")
	r.addGoal(bytes <= 40, "at most 40 bytes an entry")
	r.addGoal(us(insert)+us(expire) <= .6, "insert and expire at most 0.6 µs")
	return r, nil
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
