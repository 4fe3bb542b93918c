package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/batch"
)

// writers are the group commits. With an embedded store there is one, which keeps the disk busy; with a
// remote store there are two, so that the store works on one commit while this node prepares another. A timer
// and the rows next to it always use the same one, in order.
type writers struct {
	list []*batch.Writer[*Write, Written]
}

// sharedWriters and sharedCommit are for shared stores: the number of concurrent commits, and the maximum
// number of changes of each. Higher values make each commit longer without increasing throughput.
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

// Do commits changes and returns the result of each. An error means that all outcomes are unknown.
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

// of returns the index of the writer for a key's changes.
func (w *writers) of(k rouse.Key) int {
	h := fnv.New32a()
	h.Write([]byte(k.Namespace))
	h.Write([]byte(k.Name))
	return int(h.Sum32() % uint32(len(w.list)))
}
