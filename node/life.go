package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rousehq/rouse"
)

// life is how far a node is in its life.
type life struct {
	endEngine context.CancelFunc // nil: there is no engine
	engineErr error              // of the engine; set when ended is closed
	ended     chan struct{}      // closed when the engine has ended

	endServing context.CancelFunc // ends Part.Serve of all parts
	serving    sync.WaitGroup     // of them, and of Part.Work

	mu     sync.Mutex
	begun  bool               // Run, or Close, was called
	stop   context.CancelFunc // ends Run
	errs   []error            // of parts that broke
	closed chan struct{}      // closed when Run has ended
}

func newLife() life {
	return life{ended: make(chan struct{}), closed: make(chan struct{}), endServing: func() {}}
}

// startParts calls the Start of the parts, which need the engine.
func (n *Node) startParts() error {
	for i := range n.parts {
		if start := n.parts[i].Start; start != nil {
			if err := start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// startEngine returns when the engine takes calls.
func (n *Node) startEngine(ctx context.Context) error {
	engineCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	n.endEngine = end
	go func() {
		defer close(n.ended)
		n.engineErr = n.timers.Run(engineCtx)
	}()
	began := make(chan error, 1)
	waiting, stopWaiting := context.WithCancel(ctx)
	defer stopWaiting()
	go func() { began <- n.timers.ClockMoved(waiting) }() // returns when the engine takes calls
	select {
	case err := <-began:
		return err
	case <-n.ended:
		return cmp.Or(n.engineErr, rouse.ErrClosed)
	}
}

// Run fires until ctx ends, or Close is called; then it waits for fires in progress (Config.Grace), closes
// the store, and returns; nil if that went well. It is called once.
func (n *Node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !n.beginOnce(stop) {
		return fmt.Errorf("a node runs once: %w", rouse.ErrClosed)
	}
	n.runParts(ctx, stop)
	err := errors.Join(append([]error{n.endParts(), n.engineErr}, n.errs...)...)
	close(n.closed)
	return err
}

// runParts runs the parts until ctx ends.
func (n *Node) runParts(ctx context.Context, stop context.CancelFunc) {
	broke := func(name string, err error) {
		if err != nil {
			n.mu.Lock()
			n.errs = append(n.errs, fmt.Errorf("%s: %w", name, err))
			n.mu.Unlock()
			stop() // a part that broke stops the others too
		}
	}
	for i := range n.parts {
		if p := &n.parts[i]; p.Begin != nil {
			broke(p.Name, p.Begin(ctx))
		}
	}
	if n.timers != nil {
		n.gate.openGate()
		_ = n.timers.ClockMoved(ctx) // reads due timers at once, rather than in a moment
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	n.endServing = end
	for i := range n.parts {
		p := &n.parts[i]
		if p.Serve != nil {
			n.serving.Go(func() { broke(p.Name, p.Serve(serving)) })
		}
		if p.Work != nil {
			n.serving.Go(func() { broke(p.Name, p.Work(ctx)) })
		}
	}
	<-ctx.Done()
}

// endParts ends a node, whatever it has begun: it drains the parts, stops the engine and then the servers,
// and closes the parts, in the reverse order.
func (n *Node) endParts() error {
	var errs []error
	for _, p := range slices.Backward(n.parts) {
		if p.Drain != nil {
			p.Drain()
		}
	}
	if n.endEngine != nil {
		n.endEngine()
		<-n.ended
	}
	for _, p := range slices.Backward(n.parts) {
		if p.Leave != nil {
			errs = append(errs, p.Leave())
		}
	}
	n.endServing()
	n.serving.Wait()
	for _, p := range slices.Backward(n.parts) {
		if p.Close != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// beginOnce reports whether the node may begin to run, or to close without having run. It may once.
func (n *Node) beginOnce(stop context.CancelFunc) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begun {
		return false
	}
	n.begun, n.stop = true, stop
	return true
}

// notFiringReason returns why the node does not fire, or nil.
func (n *Node) notFiringReason() error {
	select {
	case <-n.ended:
		return rouse.ErrClosed
	default:
	}
	if !n.gate.open.Load() {
		return fmt.Errorf("the node does not run yet: %w", rouse.ErrUnavailable)
	}
	return nil
}

// Close ends Run, if it was called, and waits for it, or closes a node that was never run. It may be called
// several times, from anywhere but a function that the node calls.
func (n *Node) Close() error {
	if n.beginOnce(func() {}) {
		err := n.endParts()
		close(n.closed)
		return err
	}
	n.mu.Lock()
	stop := n.stop
	n.mu.Unlock()
	stop()
	<-n.closed
	return nil
}
