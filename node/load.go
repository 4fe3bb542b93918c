package node

import (
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// loads counts the fires of each bucket, so that nodes can share hot ones.
type loads struct {
	buckets uint32
	fires   []atomic.Uint64
	since   time.Time // used only by the goroutine that calls rates
}

func newLoads(buckets uint32) *loads {
	return &loads{buckets: buckets, fires: make([]atomic.Uint64, buckets), since: time.Now()}
}

func (l *loads) countFires(fires []rouse.Fire) {
	for i := range fires {
		l.fires[fires[i].Bucket].Add(1)
	}
}

// fireRates returns the fires a second of each bucket that had any since the last call.
func (l *loads) fireRates() map[uint32]float64 {
	now := time.Now()
	seconds := now.Sub(l.since).Seconds()
	l.since = now
	rates := map[uint32]float64{}
	for b := range l.fires {
		if n := l.fires[b].Swap(0); n > 0 && seconds > 0 {
			rates[uint32(b)] = float64(n) / seconds
		}
	}
	return rates
}
