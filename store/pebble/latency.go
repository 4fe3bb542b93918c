package pebble

import (
	"sync/atomic"
	"time"
)

// latency sums up the time that commits take to become durable.
type latency struct {
	count, nanos, longest atomic.Int64
}

func (l *latency) add(d time.Duration) {
	l.count.Add(1)
	l.nanos.Add(int64(d))
	for {
		have := l.longest.Load()
		if int64(d) <= have || l.longest.CompareAndSwap(have, int64(d)) {
			return
		}
	}
}

// stats returns the sums, and the longest since the last call.
func (l *latency) stats() map[string]float64 {
	return map[string]float64{
		"commits_total":        float64(l.count.Load()),
		"commit_seconds_total": time.Duration(l.nanos.Load()).Seconds(),
		"commit_seconds_max":   time.Duration(l.longest.Swap(0)).Seconds(),
	}
}
