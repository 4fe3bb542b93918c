package matrix

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
)

// node is one life of an engine over a store that outlives it.
type node struct {
	*timers.Timers
	cancel func()
	ended  chan struct{}
}

// startNode begins an engine's life. It calls failed, once, if the engine ends with an error.
func startNode(store rouse.Store, s rouse.Strategy, sink rouse.Sink, o engine.Options, failed func(error)) *node {
	o.Look = -1
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{
		Timers: timers.New(store, s, sink, timers.Options{Compile: schedule.Compile, Engine: o}),
		cancel: cancel,
		ended:  make(chan struct{}),
	}
	go func() {
		defer close(n.ended)
		if err := n.Run(ctx); err != nil {
			failed(err)
		}
	}()
	return n
}

// stop ends the life in an orderly way.
func (n *node) stop() {
	n.cancel()
	<-n.ended
}
