package jetstream

import (
	"context"

	"github.com/rousehq/rouse/internal/queue"
)

func init() {
	queue.Register("jetstream", func(ctx context.Context, url string, o queue.Options, _ bool) (queue.Queue, error) {
		return Open(ctx, url, Options{Options: o})
	})
}
