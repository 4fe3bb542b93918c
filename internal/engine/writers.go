package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/batch"
)

// writers are the group commits. There is one on a store of its own, where it keeps the disk busy; on one at the other end of a wire
// there are two, so that the store works on a commit while this node prepares another. A timer and the rows beside it always go through
// the same one, in their order.
type writers struct {
	list []*batch.Writer[*Write, Written]
}

// sharedWriters and sharedCommit are for stores that others share: how many commits are under way at a time, and how many changes
// each has at most. More would make each longer, and no more of them.
const (
	sharedWriters = 2
	sharedCommit  = 2048
)

func (e *Engine) newWriters() *writers {
	n, most := 1, e.opts.MaxCommit
	if e.opts.Shared {
		n, most = sharedWriters, min(most, sharedCommit)
	}
	w := &writers{}
	for range n {
		w.list = append(w.list, batch.New(batch.Options{MaxItems: most, MaxBytes: 8 << 20, Queue: e.opts.Queue}, (*Write).size, e.flush, e.committed))
	}
	return w
}

// Run commits until ctx ends.
func (w *writers) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, one := range w.list {
		all.Go(func() { one.Run(ctx) })
	}
	all.Wait()
}

// Do makes changes durable, and returns what became of each. An error says that nothing is known of any of them.
func (w *writers) Do(ctx context.Context, items []*Write) ([]Written, error) {
	if len(w.list) == 1 {
		return w.list[0].Do(ctx, items)
	}
	parts := make([][]*Write, len(w.list))
	at := make([][]int, len(w.list))
	for i, it := range items {
		p := w.of(it.Change.Key)
		parts[p], at[p] = append(parts[p], it), append(at[p], i)
	}
	out := make([]Written, len(items))
	errs := make([]error, len(w.list))
	var all sync.WaitGroup
	for p := range parts {
		do := func() {
			results, err := w.list[p].Do(ctx, parts[p])
			errs[p] = err
			for j := range results {
				out[at[p][j]] = results[j]
			}
		}
		switch {
		case len(parts[p]) == 0:
		case len(parts[p]) == len(items):
			do()
		default:
			all.Go(do)
		}
	}
	all.Wait()
	return out, errors.Join(errs...)
}

// of returns which of them a key's changes go through.
func (w *writers) of(k rouse.Key) int {
	h := fnv.New32a()
	h.Write([]byte(k.Namespace))
	h.Write([]byte(k.Name))
	return int(h.Sum32() % uint32(len(w.list)))
}
