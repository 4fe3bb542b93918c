package redis

import (
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// BenchmarkPublish adds to a stream. The bare client does so in pipelines of 128, eight at a time, with one
// field an entry.
func BenchmarkPublish(b *testing.B) {
	url := servers.Redis(b)
	client := admin(b, url)
	defer client.Close() //nolint:errcheck // of a benchmark
	c := broker.Connection{Name: "there", URL: url, MaxLength: 10_000}
	p, err := Open(c, nil)
	if err != nil {
		b.Fatal(err)
	}
	places := make(chan struct{}, 8)
	brokertest.Benchmark(b, p, url, "redis:there/bench", func(n int) {
		var sending sync.WaitGroup
		for left := n; left > 0; left -= 128 {
			places <- struct{}{}
			sending.Go(func() {
				pipe := client.Pipeline()
				for range min(left, 128) {
					pipe.XAdd(b.Context(), &goredis.XAddArgs{Stream: "bench", MaxLen: 10_000, Approx: true, Values: []any{"data", brokertest.Payload}})
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Error(err)
				}
				<-places
			})
		}
		sending.Wait()
	})
}
