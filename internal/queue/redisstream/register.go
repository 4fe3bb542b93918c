package redisstream

import (
	"context"

	"github.com/rousehq/rouse/internal/queue"
)

func init() {
	queue.Register("redisstream", func(ctx context.Context, url string, o queue.Options,
		volatile bool) (queue.Queue, error) {
		return Open(ctx, url, Options{Options: o, Volatile: volatile})
	})
}
