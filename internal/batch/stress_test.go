package batch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
)

// TestStress has callers of all sizes, some impatient, a flush that fails now and then, and an end in the
// middle of it. Every item must be flushed at most once, in its caller's order, and exactly as its Do was
// told.
func TestStress(t *testing.T) {
	const callers, rounds, endAt = 32, 200, 12_000
	type item struct{ caller, n int }
	var flushed [callers][]int // in the order of flushes; only the flushing goroutine writes
	total, after := 0, 0
	ctx, end := context.WithCancel(t.Context())
	defer end()
	rng := rand.New(rand.NewPCG(1, 2))
	w := New(Options{MaxItems: 16, MaxBytes: 100, Queue: 40}, func(i item) int { return 1 + i.n%20 },
		func(_ context.Context, items []item) ([]item, error) {
			if len(items) > 16 || len(items) == 0 {
				t.Errorf("a flush of %d items", len(items))
			}
			if total += len(items); total > endAt {
				end()
			}
			if rng.IntN(50) == 0 {
				return nil, errFlush
			}
			for _, i := range items {
				flushed[i.caller] = append(flushed[i.caller], i.n)
			}
			return append([]item(nil), items...), nil
		}, func(items, _ []item) { after += len(items) })

	var run, work sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	var told [callers][]int
	for c := range callers {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(c)))
			n := 0
			for range rounds {
				items := make([]item, 1+rng.IntN(4)*rng.IntN(15))
				for i := range items {
					items[i] = item{c, n}
					n++
				}
				ctx, cancel := context.WithCancel(context.Background())
				var impatient sync.WaitGroup
				if rng.IntN(3) == 0 {
					impatient.Go(cancel)
				}
				results, err := w.Do(ctx, items)
				impatient.Wait()
				cancel()
				for i, r := range results {
					if r != items[i] {
						t.Errorf("the result of %v is %v", items[i], r)
					}
					told[c] = append(told[c], r.n)
				}
				switch {
				case err == nil && len(results) != len(items):
					t.Errorf("%d results for %d items", len(results), len(items))
				case errors.Is(err, rouse.ErrClosed):
					return
				case err != nil && !errors.Is(err, errFlush) && !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	end()
	run.Wait()
	sum := 0
	for c := range callers {
		if len(flushed[c]) != len(told[c]) {
			t.Fatalf("%d items of a caller were flushed, it was told of %d", len(flushed[c]), len(told[c]))
		}
		for i, n := range flushed[c] {
			if n != told[c][i] {
				t.Fatalf("a caller's item %d was flushed as %d", told[c][i], n)
			}
		}
		sum += len(flushed[c])
	}
	if sum != after || sum < endAt/2 {
		t.Fatalf("%d items were flushed, after saw %d", sum, after)
	}
}
