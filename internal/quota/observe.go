package quota

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// MaxObserved bounds the namespaces whose quotas are metrics: the first ones in the order of their names.
const MaxObserved = 1000

// observeEvery is how often the use of quotas is counted for metrics.
const observeEvery = 15 * time.Second

// observeUsage counts the use of quotas, until ctx ends.
func (b *Book) observeUsage(ctx context.Context) {
	told := false
	for {
		names := b.observedNames()
		use := make(map[string]rouse.Usage, len(names))
		for _, name := range names {
			if u, err := b.readUsage(ctx, name, true); err == nil {
				use[name] = u
			}
		}
		b.mu.Lock()
		b.use = use
		full := len(b.spaces) > MaxObserved
		b.mu.Unlock()
		if full && !told {
			b.opts.Log.Warn("not all namespaces have metrics of their quotas", "namespaces", MaxObserved)
		}
		told = full
		if !backoff.Sleep(ctx, observeEvery) {
			return
		}
	}
}

// observedNames returns the names of the namespaces that metrics show.
func (b *Book) observedNames() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	names := slices.Sorted(maps.Keys(b.spaces))
	return names[:min(len(names), MaxObserved)]
}

// Each calls do with the quotas of the namespaces that metrics show. Counts are as old as observeEvery
// at most.
func (b *Book) Each(do func(namespace string, quotas []rouse.Quota)) {
	for _, name := range b.observedNames() {
		is, err := b.findNamespace(name)
		if err != nil {
			continue // it was deleted
		}
		b.mu.RLock()
		u := b.use[name]
		b.mu.RUnlock()
		do(name, is.Quotas.List(&u))
	}
}
