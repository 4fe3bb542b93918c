package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// rig is a writer whose flushes the test lets through one by one. An item's result is the item as a text.
type rig struct {
	*Writer[int, string]
	t       *testing.T
	gate    chan error // an answer for each flush
	mu      sync.Mutex
	flushed [][]int // as they began
	done    []int   // items of successful flushes, as after saw them
	end     context.CancelFunc
	run     sync.WaitGroup
}

var errFlush = errors.New("the disk is on fire")

// newRig returns a rig in whose writer an item's size is its value. The writer runs if start is true.
func newRig(t *testing.T, opts Options, start bool) *rig {
	r := &rig{t: t, gate: make(chan error)}
	r.Writer = New(opts, func(item int) int { return item }, func(ctx context.Context, items []int) ([]string, error) {
		r.mu.Lock()
		r.flushed = append(r.flushed, slices.Clone(items))
		r.mu.Unlock()
		if err := <-r.gate; err != nil {
			return nil, err
		}
		return texts(items), ctx.Err()
	}, func(items []int, results []string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.Equal(results, texts(items)) {
			t.Errorf("after got %q for %d", results, items)
		}
		r.done = append(r.done, items...)
	})
	if start {
		r.start()
	}
	return r
}

func texts(items []int) (out []string) {
	for _, i := range items {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func (r *rig) start() {
	ctx, end := context.WithCancel(r.t.Context())
	r.end = end
	r.run.Go(func() { r.Run(ctx) })
	synctest.Wait()
}

// stop ends the writer; all its flushes must have been let through.
func (r *rig) stop() {
	r.end()
	r.run.Wait()
}

// pending is a Do in another goroutine.
type pending struct {
	sync.WaitGroup
	results []string
	err     error
	ended   bool
}

// do begins a Do and waits until it blocks or has ended.
func (r *rig) do(ctx context.Context, items ...int) *pending {
	p := &pending{}
	p.Go(func() {
		p.results, p.err = r.Do(ctx, items)
		r.mu.Lock()
		defer r.mu.Unlock()
		p.ended = true
		if p.err == nil && !containsAll(r.done, items) {
			r.t.Errorf("Do(%d) returned before after was called", items)
		}
	})
	synctest.Wait()
	return p
}

func containsAll(all, some []int) bool {
	return !slices.ContainsFunc(some, func(i int) bool { return !slices.Contains(all, i) })
}

// pass lets the flush under way end.
func (r *rig) pass(err error) {
	r.gate <- err
	synctest.Wait()
}

// passAll lets n flushes end and stops the writer.
func (r *rig) passAll(n int) {
	for range n {
		r.pass(nil)
	}
	r.stop()
}

func (r *rig) wantFlushes(want ...[]int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.flushed, want, slices.Equal) {
		r.t.Fatalf("flushes are %d, want %d", r.flushed, want)
	}
}

func (p *pending) want(t *testing.T, err error, items ...int) {
	t.Helper()
	p.Wait()
	if !errors.Is(p.err, err) || !slices.Equal(p.results, texts(items)) {
		t.Fatalf("Do returned %q, %v; want %d, %v", p.results, p.err, items, err)
	}
}

func (p *pending) blocked(t *testing.T, r *rig) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.ended {
		t.Fatalf("Do has returned %q, %v", p.results, p.err)
	}
}

func TestALoneItemIsFlushedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, true)
		p := r.do(t.Context(), 1)
		r.wantFlushes([]int{1})
		p.blocked(t, r)
		r.pass(nil)
		p.want(t, nil, 1)
		if results, err := r.Do(t.Context(), nil); results != nil || err != nil {
			t.Fatal("nothing gave", results, err)
		}
		r.stop()
	})
}

func TestWhatArrivesDuringAFlushFormsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, true)
		a, b, c := r.do(t.Context(), 1), r.do(t.Context(), 2, 3), r.do(t.Context(), 4)
		r.wantFlushes([]int{1})
		r.pass(nil)
		a.want(t, nil, 1)
		b.blocked(t, r)
		r.wantFlushes([]int{1}, []int{2, 3, 4})
		r.pass(nil)
		b.want(t, nil, 2, 3)
		c.want(t, nil, 4)
		r.stop()
		if !slices.Equal(r.done, []int{1, 2, 3, 4}) {
			t.Fatal("after saw", r.done)
		}
	})
}

func TestADoIsInOneFlushIfItFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 4, Queue: 100}, true)
		r.do(t.Context(), 1)
		ps := []*pending{r.do(t.Context(), 2, 3, 4), r.do(t.Context(), 5, 6), r.do(t.Context(), 7, 8), r.do(t.Context(), 9)}
		r.passAll(4)
		r.wantFlushes([]int{1}, []int{2, 3, 4}, []int{5, 6, 7, 8}, []int{9})
		ps[1].want(t, nil, 5, 6)
	})
}

func TestALargeDoIsSplitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 3, Queue: 4}, true)
		p := r.do(t.Context(), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		q := r.do(t.Context(), 11)
		r.passAll(4)
		r.wantFlushes([]int{1, 2, 3}, []int{4, 5, 6}, []int{7, 8, 9}, []int{10, 11})
		p.want(t, nil, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		q.want(t, nil, 11)
	})
}

func TestBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 10, MaxBytes: 100, Queue: 100}, true)
		r.do(t.Context(), 1)
		p := r.do(t.Context(), 40, 60, 50, 200, 7) // 200 alone is more than a flush may have
		q := r.do(t.Context(), 93)
		u := r.do(t.Context(), 2)
		r.passAll(6)
		r.wantFlushes([]int{1}, []int{40, 60}, []int{50}, []int{200}, []int{7, 93}, []int{2})
		p.want(t, nil, 40, 60, 50, 200, 7)
		q.want(t, nil, 93)
		u.want(t, nil, 2)
	})
}

func TestAFlushErrorGoesToTheDosOfThatFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxItems: 3, Queue: 100}, true)
		a := r.do(t.Context(), 1)
		b, c, d := r.do(t.Context(), 2), r.do(t.Context(), 3, 4), r.do(t.Context(), 5)
		r.pass(nil)
		r.pass(errFlush)
		r.passAll(1)
		a.want(t, nil, 1)
		b.want(t, errFlush)
		c.want(t, errFlush)
		d.want(t, nil, 5)
		if !slices.Equal(r.done, []int{1, 5}) {
			t.Fatal("after saw", r.done)
		}
	})
}

func TestAfterAFlushErrorTheRestOfASplitDoIsDropped(t *testing.T) {
	for _, queue := range []int{2, 100} { // the rest is in line, or in the queue
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{MaxItems: 2, Queue: queue}, true)
			p := r.do(t.Context(), 1, 2, 3, 4, 5, 6, 7)
			q := r.do(t.Context(), 8)
			r.pass(nil)
			r.pass(errFlush)
			p.want(t, errFlush, 1, 2)
			r.passAll(1)
			q.want(t, nil, 8)
			r.wantFlushes([]int{1, 2}, []int{3, 4}, []int{8})
			if r.queued != 0 || r.head != 0 || r.line.first != nil {
				t.Fatal("something is left behind")
			}
		})
	}
}

func TestTooFewResultsAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{}, nil, func(context.Context, []int) ([]string, error) { return []string{"a"}, nil },
			func([]int, []string) { t.Error("after was called") })
		ctx, end := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { w.Run(ctx) })
		if results, err := w.Do(ctx, []int{1, 2}); err == nil || results != nil {
			t.Fatal("got", results, err)
		}
		end()
		run.Wait()
	})
}

func TestSuccessfulFlushesShareNothingWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, true)
		r.do(t.Context(), 1)
		a, b := r.do(t.Context(), 2), r.do(t.Context(), 3)
		r.passAll(2)
		a.Wait()
		_ = append(a.results, "mine") // must not write over b's
		b.want(t, nil, 3)
	})
}
