package node

import (
	"context"
	"errors"
	"log/slog"
)

// Serve is Run for whoever needs the node itself: ready is called once, with the node, when it listens. What the node is asked after
// Serve has returned, it answers as one that is closed. While the store, the broker of the queue or the trust anchors are away, the node
// listens, answers 503, reports on /readyz what it waits for, and tries again; ready is called after that.
func Serve(ctx context.Context, cfg Config, log *slog.Logger, ready func(*Node)) error {
	cfg.Log, cfg.embedded = log, false
	n, err := start(ctx, cfg)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // it was told to end while it waited for what it needs
	}
	if err != nil {
		return err
	}
	ready(n)
	return n.Run(ctx)
}

// AdminAddr returns the address of metrics, health and profiles, "" if there is none.
func (n *Node) AdminAddr() string { return address(n.admin) }
