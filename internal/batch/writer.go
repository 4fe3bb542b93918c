// Package batch is group commit: many callers hand in items, one goroutine writes them together, and each
// caller gets the results of its own.
//
//	Do ─► line ─► queue ─► flush ─► after ─► Do returns
//	Do ─┘ (full)   bounded   one at a time
//
// Items that arrive during a flush form the next one, so batches grow with the load and a lone item does not
// wait. Only items of a DoBy wait for company: until a time that their caller gives, or until a Do comes,
// whose flush they join.
//
// It promises that flushes are strictly one after another, that items are flushed in the order in which they
// were accepted, those of one Do in their order, and that no call overtakes a Do that waits for room.
package batch

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Options bound a Writer.
type Options struct {
	MaxItems int // in one flush; default 4096
	MaxBytes int // in one flush, by the sizes of its items; a single item may be larger; 0 is no bound
	Queue    int // accepted items that wait for their flush; at least MaxItems; default four times that
}

// Writer commits in groups. It is made by New, works while Run does, and is safe for concurrent use.
type Writer[T, R any] struct {
	opts  Options
	size  func(T) int
	flush func(context.Context, []T) ([]R, error)
	after func([]T, []R)
	calls sync.Pool     // of *call[T, R]
	wake  chan struct{} // the queue is not empty any more

	mu      sync.Mutex
	queue   []chunk[T, R] // accepted, from head on
	head    int
	queued  int        // items in queue
	patient int        // of these, items that may wait
	by      time.Time  // until when they may, if there are any
	hurried bool       // they may not
	line    line[T, R] // of calls that are not wholly accepted
	running bool       // Run has begun: items are accepted
	closed  bool       // Run's context has ended: no more are
	idle    bool       // Run waits for wake

	batch batch[T, R] // of the flush under way; Run's own
}

// call is a Do in progress. The writer's mutex guards it until done is sent; then it is the Do's.
type call[T, R any] struct {
	done    chan struct{}
	rest    []T       // not accepted yet
	n       int       // of rest, the next chunk: so many items
	bytes   int       // of so many bytes
	by      time.Time // the items may wait until then; zero: they may not
	open    int       // chunks that are accepted and not finished
	results []R
	err     error // why there are no more results
	failed  bool  // err is a flush's: items still queued are dropped

	waiting    bool // in line
	next, prev *call[T, R]
}

// chunk is the part of a call that goes into one flush.
type chunk[T, R any] struct {
	call  *call[T, R]
	items []T
	bytes int
}

// New returns a writer that flushes with the given function, which returns a result for each item, in their
// order. The writer may keep the results; it reuses the items' slice once flush and after have returned. A
// flush is not interrupted when Run's context ends, so it bounds its own time. If after is not nil, it is
// called by the flushing goroutine after each flush without error, before a Do returns whose items were in
// it. size may be nil if MaxBytes is 0.
func New[T, R any](opts Options, size func(T) int, flush func(ctx context.Context, items []T) ([]R, error),
	after func(items []T, results []R)) *Writer[T, R] {
	opts.MaxItems = cmp.Or(max(opts.MaxItems, 0), 4096)
	opts.Queue = cmp.Or(max(opts.Queue, 0), 4*opts.MaxItems)
	opts.Queue = max(opts.Queue, opts.MaxItems)
	w := &Writer[T, R]{opts: opts, size: size, flush: flush, after: after, wake: make(chan struct{}, 1)}
	w.calls.New = func() any { return &call[T, R]{done: make(chan struct{}, 1)} }
	return w
}

// Do writes the items and returns their results. Those of one Do are in one flush if they fit MaxItems and
// MaxBytes; otherwise they are split in order.
//
// The context counts as long as there is no room in the queue, or no Run: when it ends, or Run does
// (rouse.ErrClosed), no more of the items are accepted. Do always waits for accepted items. An error comes
// with the results of the items before it: those without a result were not written if it is the context's or
// rouse.ErrClosed; if it is a flush's, the items of that flush may have been written, and the later ones were
// not. The items are the writer's until Do returns.
func (w *Writer[T, R]) Do(ctx context.Context, items []T) ([]R, error) {
	return w.DoBy(ctx, items, time.Time{})
}

// DoBy is Do for items that may wait in the queue until a time, to be flushed together with others. They are
// flushed before it with the items of the next Do, when they fill a flush, and when Hurry is called or Run
// ends.
func (w *Writer[T, R]) DoBy(ctx context.Context, items []T, by time.Time) ([]R, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := w.calls.Get().(*call[T, R])
	c.rest, c.by = items, by
	w.measureChunk(c)

	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.releaseCall(c)
		return nil, rouse.ErrClosed
	}
	all := w.line.first == nil && w.acceptChunks(c)
	if !all {
		w.line.appendCall(c)
	}
	w.wakeIfIdle()
	w.mu.Unlock()

	if !all {
		select {
		case <-c.done:
			return w.callOutcome(c)
		case <-ctx.Done():
			w.mu.Lock()
			if c.waiting && w.withdrawCall(c, ctx.Err()) {
				w.mu.Unlock()
				return w.callOutcome(c)
			}
			w.mu.Unlock()
		}
	}
	<-c.done
	return w.callOutcome(c)
}

// Hurry flushes items that wait for company. From then on none waits.
func (w *Writer[T, R]) Hurry() {
	w.mu.Lock()
	w.hurried = true
	w.wakeIfIdle()
	w.mu.Unlock()
}

// wakeIfIdle wakes Run if it is idle and there is something in the queue: to flush it, or to know until when
// to wait.
func (w *Writer[T, R]) wakeIfIdle() {
	if !w.idle || w.queued == 0 {
		return
	}
	w.idle = false
	select {
	case w.wake <- struct{}{}:
	default: // Run left its wait by itself, and has not looked at an earlier signal
	}
}

// callOutcome returns the outcome of a call that the writer no longer refers to.
func (w *Writer[T, R]) callOutcome(c *call[T, R]) ([]R, error) {
	results, err := c.results, c.err
	w.releaseCall(c)
	return results, err
}

func (w *Writer[T, R]) releaseCall(c *call[T, R]) {
	*c = call[T, R]{done: c.done}
	w.calls.Put(c)
}
