package node

import (
	"context"
	"log/slog"
)

// Serve is Run for whoever needs the node itself: ready is called once, with the node, when it listens. What the node is asked after
// Serve has returned, it answers as one that is closed.
func Serve(ctx context.Context, cfg Config, log *slog.Logger, ready func(*Node)) error {
	cfg.Log, cfg.embedded = log, false
	n, err := start(ctx, cfg)
	if err != nil {
		return err
	}
	ready(n)
	return n.Run(ctx)
}

// AdminAddr returns the address of metrics, health and profiles, "" if there is none.
func (n *Node) AdminAddr() string { return address(n.admin) }
