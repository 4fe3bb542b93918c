package batch

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rousehq/rouse"
)

// batch is one flush.
type batch[T, R any] struct {
	chunks   []chunk[T, R]
	items    []T
	finished []*call[T, R]
}

// Run flushes until ctx ends. Then it accepts no more, flushes accepted items, and returns: every Do gets
// its answer. It is called once.
func (w *Writer[T, R]) Run(ctx context.Context) {
	w.mu.Lock()
	w.running = true
	w.admitCalls()
	w.mu.Unlock()
	patience := time.NewTimer(forever)
	defer patience.Stop()
	for {
		if ctx.Err() != nil {
			w.closeWriter()
		}
		w.mu.Lock()
		wait := w.flushDelay()
		w.idle = wait != 0 && !w.closed
		ended := w.closed && w.queued == 0
		w.mu.Unlock()
		switch {
		case ended:
			return
		case wait == 0:
			if w.takeBatch() {
				w.flushBatch(context.WithoutCancel(ctx))
			}
			continue
		}
		if wait == forever {
			patience.Stop()
		} else {
			patience.Reset(wait)
		}
		select {
		case <-w.wake:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
}

// forever is the wait of an empty queue.
const forever time.Duration = math.MaxInt64

// flushDelay returns how long the queue may wait for more: 0 if it is to be flushed now.
func (w *Writer[T, R]) flushDelay() time.Duration {
	switch {
	case w.queued == 0:
		return forever
	case w.queued > w.patient || w.closed || w.hurried || w.queued >= w.opts.MaxItems:
		return 0
	}
	return max(0, time.Until(w.by))
}

// closeWriter stops accepting, and rejects the calls in line.
func (w *Writer[T, R]) closeWriter() {
	b := &w.batch
	w.mu.Lock()
	w.closed, w.idle = true, false
	for c := w.line.first; c != nil; c = w.line.first {
		if w.withdrawCall(c, rouse.ErrClosed) {
			b.finished = append(b.finished, c)
		}
	}
	w.mu.Unlock()
	w.wakeCallers()
}

// takeBatch makes up the next batch from the front of the queue. A call goes in whole or waits for the next
// flush, unless it was cut into chunks, which then go one by one. It is false if there is nothing to flush.
func (w *Writer[T, R]) takeBatch() bool {
	b := &w.batch
	count, bytes := 0, 0
	w.mu.Lock()
	for w.head < len(w.queue) {
		next := &w.queue[w.head]
		n := len(next.items)
		if c := next.call; c.failed {
			w.queued -= n
			w.finishChunk(c)
		} else {
			if count > 0 && (count+n > w.opts.MaxItems || w.opts.MaxBytes > 0 && bytes+next.bytes > w.opts.MaxBytes) {
				break
			}
			b.chunks = append(b.chunks, *next)
			count, bytes = count+n, bytes+next.bytes
		}
		*next = chunk[T, R]{}
		w.head++
	}
	w.queued -= count
	w.patient = 0 // items that do not fit one flush go into the next one at once
	switch {
	case w.head == len(w.queue):
		w.queue, w.head = w.queue[:0], 0
	case w.head > len(w.queue)/2:
		rest := copy(w.queue, w.queue[w.head:])
		clear(w.queue[rest:])
		w.queue, w.head = w.queue[:rest], 0
	}
	w.admitCalls()
	w.mu.Unlock()
	w.wakeCallers()
	for i := range b.chunks {
		b.items = append(b.items, b.chunks[i].items...)
	}
	return len(b.chunks) > 0
}

// flushBatch flushes the batch and hands the results out.
func (w *Writer[T, R]) flushBatch(ctx context.Context) {
	b := &w.batch
	results, err := w.flush(ctx, b.items)
	if err == nil && len(results) != len(b.items) {
		err = fmt.Errorf("batch: a flush of %d items returned %d results", len(b.items), len(results))
	}
	if err == nil && w.after != nil {
		w.after(b.items, results)
	}
	w.mu.Lock()
	from := 0
	for i := range b.chunks {
		c, to := b.chunks[i].call, from+len(b.chunks[i].items)
		switch {
		case err != nil:
			if c.waiting {
				w.line.removeCall(c)
			}
			c.rest, c.err, c.failed = nil, err, true
		case c.results == nil:
			c.results = results[from:to:to]
		default:
			c.results = append(c.results, results[from:to]...)
		}
		from = to
		w.finishChunk(c)
	}
	w.mu.Unlock()
	clear(b.chunks)
	clear(b.items)
	b.chunks, b.items = b.chunks[:0], b.items[:0]
	w.wakeCallers()
}

// finishChunk notes that a chunk of a call has ended.
func (w *Writer[T, R]) finishChunk(c *call[T, R]) {
	if c.open--; c.open == 0 && len(c.rest) == 0 {
		w.batch.finished = append(w.batch.finished, c)
	}
}

// wakeCallers wakes the callers of calls that have ended; from then on the callers own them.
func (w *Writer[T, R]) wakeCallers() {
	b := &w.batch
	for i, c := range b.finished {
		b.finished[i] = nil
		c.done <- struct{}{}
	}
	b.finished = b.finished[:0]
}
