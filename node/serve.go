package node

import (
	"context"
	"errors"
	"log/slog"
)

// Serve is Run for callers that need the node itself: it calls ready once, with the node, when the node
// listens. After Serve returns, the node's methods fail as those of a closed node. While the store, the
// broker of the queue or the trust anchors are unavailable, the node listens, answers 503, reports the cause
// on /readyz, and retries; ready is called after that.
func Serve(ctx context.Context, cfg Config, log *slog.Logger, ready func(*Node)) error {
	cfg.Log, cfg.embedded = log, false
	n, err := assembleNode(ctx, cfg)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // it was stopped while it waited
	}
	if err != nil {
		return err
	}
	ready(n)
	return n.Run(ctx)
}

// AdminAddr returns the address of metrics, health and profiles, "" if there is none.
func (n *Node) AdminAddr() string { return listenerAddress(n.admin) }
