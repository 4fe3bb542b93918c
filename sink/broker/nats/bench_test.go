package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// BenchmarkPublish publishes to a stream in a file. The bare client publishes asynchronously, without headers
// and so without ids.
func BenchmarkPublish(b *testing.B) {
	url := servers.NATS(b)
	conn, js := admin(b, url)
	defer conn.Close()
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "bench", Subjects: []string{"bench"}, MaxMsgs: 10_000}); err != nil {
		b.Fatal(err)
	}
	p, err := Open(broker.Connection{Name: "there", URL: url}, nil)
	if err != nil {
		b.Fatal(err)
	}
	places := make(chan jetstream.PubAckFuture, 1024)
	brokertest.Benchmark(b, p, url, "nats:there/bench", func(n int) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range n {
				f := <-places
				select {
				case <-f.Ok():
				case err := <-f.Err():
					b.Error(err)
				}
			}
		}()
		for range n {
			f, err := js.PublishAsync("bench", brokertest.Payload, jetstream.WithStallWait(time.Minute))
			if err != nil {
				b.Fatal(err)
			}
			places <- f
		}
		<-done
	})
}
