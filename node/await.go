package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
)

// await is how a server starts while something that it needs is away: it listens, answers that it is not
// ready and why, and tries again.
type await struct {
	n    *Node
	stop func() // ends the answers

	mu  sync.Mutex
	why error
}

// awaitEvery and awaitMost are the first and the longest pause between two attempts.
const (
	awaitEvery = 100 * time.Millisecond
	awaitMost  = 2 * time.Second
)

// newAwait answers on the node's listeners until stop is called. A node that a program opens waits for
// nothing: its caller does.
func (n *Node) newAwait() *await {
	a := &await{n: n, why: errors.New("the server is starting"), stop: func() {}}
	if k, _ := linkedKind("api"); k.Await != nil && !n.cfg.embedded {
		a.stop = k.Await(core{n}, a.awaitReason)
	}
	return a
}

func (a *await) awaitReason() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// openWithRetry opens a part, and retries while something it needs is unavailable.
func (a *await) openWithRetry(ctx context.Context, what string, open func() error) error {
	told := time.Time{}
	for b := backoff.New(awaitEvery, awaitMost); b.Wait(ctx); {
		err := open()
		if err == nil || a.n.cfg.embedded || !isUnavailable(err) {
			return err
		}
		err = fmt.Errorf("waiting for %s: %w", what, err)
		a.mu.Lock()
		a.why = err
		a.mu.Unlock()
		if time.Since(told) >= 30*time.Second {
			a.n.cfg.Log.Warn("not ready", "error", err)
			told = time.Now()
		}
	}
	return ctx.Err()
}

// isUnavailable reports whether an error means that something does not answer yet, or is not there yet, so
// that waiting helps. A refusal by a server, or a damaged store, is no such error.
func isUnavailable(err error) bool {
	if errors.Is(err, rouse.ErrCorrupt) {
		return false
	}
	var refused interface{ SQLState() string } // by a PostgreSQL
	if errors.As(err, &refused) {
		switch refused.SQLState()[:2] {
		case "08", "53", "57", "58": // connections, resources, starting or stopping, the system
			return true
		}
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op != "listen"
	}
	for _, is := range []error{rouse.ErrUnavailable, queue.ErrUnavailable, context.DeadlineExceeded, io.EOF,
		io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*net.DNSError))
}
