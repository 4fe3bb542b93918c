package redisstream

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/queuetest"
	"github.com/rousehq/rouse/test/servers"
)

func TestContract(t *testing.T) {
	// The smallest limits that Redis allows: they refuse no message.
	s := servers.StartRedis(t, "proto-max-bulk-len=1mb", "client-query-buffer-limit=1mb")
	queuetest.Run(t, queuetest.Harness{
		Broker: s,
		Open: func(ctx context.Context, o queue.Options) (queue.Queue, error) {
			return Open(ctx, s.URL(), Options{Options: o, Visibility: time.Second})
		},
		Spoil: func(t *testing.T, name string) {
			ro, err := redis.ParseURL(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			c := redis.NewClient(ro)
			defer c.Close() //nolint:errcheck // of a test
			if err := c.Set(t.Context(), "rouse:queue:"+name, "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func BenchmarkQueue(b *testing.B) {
	s := servers.StartRedis(b)
	queuetest.Benchmark(b, func(ctx context.Context, o queue.Options) (queue.Queue, error) {
		return Open(ctx, s.URL(), Options{Options: o})
	})
}
