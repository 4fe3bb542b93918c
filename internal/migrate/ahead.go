package migrate

import (
	"context"
	"sync"
)

// ahead reads a list page by page, one page ahead of its consumer, so that both stores work at the same time.
// One goroutine uses and closes it.
type ahead[T any] struct {
	pages  chan fetched[T]
	cancel context.CancelFunc
	reader sync.WaitGroup
	cut    error // why reading stopped before the end; set before pages is closed

	page []T
	err  error
}

type fetched[T any] struct {
	items []T
	err   error
}

// readAhead starts reading. fetch returns the next items, perhaps none, and whether there are more.
func readAhead[T any](ctx context.Context, fetch func(ctx context.Context) (items []T, more bool,
	err error)) *ahead[T] {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead[T]{pages: make(chan fetched[T]), cancel: cancel}
	a.reader.Go(func() {
		defer close(a.pages)
		for more := true; more; {
			var p fetched[T]
			if p.items, more, p.err = fetch(ctx); p.err != nil {
				more = false
			}
			if len(p.items) == 0 && p.err == nil {
				continue
			}
			select {
			case a.pages <- p:
			case <-ctx.Done():
				a.cut = ctx.Err()
				return
			}
		}
	})
	return a
}

// peekItem returns the next item; nil at the end.
func (a *ahead[T]) peekItem() (*T, error) {
	for len(a.page) == 0 && a.err == nil {
		p, ok := <-a.pages
		if !ok {
			return nil, a.cut // a false end would remove rows
		}
		a.page, a.err = p.items, p.err
	}
	if a.err != nil {
		return nil, a.err
	}
	return &a.page[0], nil
}

// advanceItem advances to the next item.
func (a *ahead[T]) advanceItem() { a.page = a.page[1:] }

// stopReading stops reading, and waits for it.
func (a *ahead[T]) stopReading() {
	a.cancel()
	a.reader.Wait()
}
