package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// redisLog receives messages of the Redis client about lost connections: by default it prints them to
// stderr in its own format. Users of the client log the consequences.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "message of the Redis client", "text", fmt.Sprintf(format, v...))
}

// logRedis sets the log of the Redis client for the whole process.
func logRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }
