package storekit

import (
	"context"
	"sync"

	"github.com/rousehq/rouse"
)

// Guard keeps calls and the end of a part apart. Calls hold it for reading. The zero value is open.
type Guard struct {
	sync.RWMutex
	closed bool
	once   sync.Once
}

// Begin starts a call. If it succeeds, the caller must call RUnlock at the end.
func (g *Guard) Begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.RLock()
	if g.closed {
		g.RUnlock()
		return rouse.ErrClosed
	}
	return nil
}

// Close waits for running calls and then calls end, once; from then on calls fail with rouse.ErrClosed. It
// returns the error of end, or nil if the part was closed before.
func (g *Guard) Close(end func() error) (err error) {
	g.once.Do(func() {
		g.Lock()
		g.closed = true
		g.Unlock()
		err = end()
	})
	return err
}
