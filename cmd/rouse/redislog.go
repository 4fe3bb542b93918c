package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// redisLog is where the client of Redis tells of connections that it has lost: by itself it would print to stderr, in a form of its
// own. What that leads to is logged by who uses the client.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "the client of Redis says", "text", fmt.Sprintf(format, v...))
}

// logRedis has the client of Redis write to a log, for the whole process.
func logRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }
