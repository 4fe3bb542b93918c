package pool

import (
	"sync"
	"time"
)

// debouncer lets the first of many events of a key through and leaves out those that follow it within its window. What it lets
// through is passed on with the window as the extra lifetime, so a group lives no shorter than if all had been.
type debouncer struct {
	window time.Duration

	mu    sync.Mutex
	last  map[string]time.Time // that was let through, by key
	sweep time.Time            // when old ones are forgotten
}

func newDebouncer(window time.Duration) *debouncer {
	return &debouncer{window: window, last: map[string]time.Time{}}
}

// admit says whether an event is passed on.
func (d *debouncer) admit(now time.Time, key string) bool {
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
