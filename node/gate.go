package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// gate is a strategy that grants nothing, and takes no part among other nodes, until it is open: so a node
// takes calls between Open and Run, and fires nothing.
type gate struct {
	rouse.Strategy
	open   atomic.Bool
	opened chan struct{}
	once   sync.Once
}

func newGate(s rouse.Strategy) *gate { return &gate{Strategy: s, opened: make(chan struct{})} }

func (g *gate) openGate() {
	g.once.Do(func() {
		g.open.Store(true)
		close(g.opened)
	})
}

// Grant returns the grant of the strategy behind the gate.
func (g *gate) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	if !g.open.Load() {
		return rouse.Grant{}, func(bool) {}, nil
	}
	return g.Strategy.Grant(ctx)
}

// Run runs the strategy behind the gate while that is open.
func (g *gate) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-g.opened:
	}
	if r, ok := g.Strategy.(rouse.Runner); ok {
		r.Run(ctx)
	}
	<-ctx.Done()
}

// Changed is that of the strategy.
func (g *gate) Changed() <-chan struct{} {
	if r, ok := g.Strategy.(rouse.Runner); ok {
		return r.Changed()
	}
	return nil
}

// Left passes the buckets to the strategy.
func (g *gate) Left(buckets []uint32) {
	if r, ok := g.Strategy.(rouse.Runner); ok {
		r.Left(buckets)
	}
}

// Healthy asks the strategy, once the gate is open.
func (g *gate) Healthy() error {
	if r, ok := g.Strategy.(rouse.Runner); ok && g.open.Load() {
		return r.Healthy()
	}
	return nil
}
