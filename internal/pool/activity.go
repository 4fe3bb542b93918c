package pool

import (
	"sync"
	"time"
)

// debouncer admits the first event of a key and drops those that follow within the window. The caller adds
// the window to the lifetime of an admitted event, so a group lives as long as if no event had been dropped.
type debouncer struct {
	window time.Duration

	mu    sync.Mutex
	last  map[string]time.Time // of the last admitted event, by key
	sweep time.Time            // when expired entries are removed next
}

func newDebouncer(window time.Duration) *debouncer {
	return &debouncer{window: window, last: map[string]time.Time{}}
}

// admitReport reports whether the caller handles an event.
func (d *debouncer) admitReport(now time.Time, key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.last[key]; ok && now.Sub(last) < d.window {
		return false
	}
	if !now.Before(d.sweep) {
		for key, last := range d.last {
			if now.Sub(last) >= d.window {
				delete(d.last, key)
			}
		}
		d.sweep = now.Add(max(d.window, time.Second))
	}
	d.last[key] = now
	return true
}
