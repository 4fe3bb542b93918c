package node

import (
	"context"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// gate is a strategy that grants nothing until it is open: so a node takes calls between Open and Run, and fires nothing.
type gate struct {
	rouse.Strategy
	open atomic.Bool
}

func (g *gate) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	if !g.open.Load() {
		return rouse.Grant{}, func(bool) {}, nil
	}
	return g.Strategy.Grant(ctx)
}
