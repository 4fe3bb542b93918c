package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/queuetest"
	"github.com/rousehq/rouse/test/servers"
)

func TestContract(t *testing.T) {
	s := servers.StartNATS(t)
	queuetest.Run(t, queuetest.Harness{
		Broker: s,
		Open: func(ctx context.Context, o queue.Options) (queue.Queue, error) {
			return Open(ctx, s.URL(), Options{Options: o, Visibility: time.Second})
		},
		Limit: func(t *testing.T, name string) string {
			conn, err := nats.Connect(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			js, err := jetstream.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			c := stream.CachedInfo().Config
			c.MaxMsgSize = 50_000
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			return "message size exceeds maximum allowed"
		},
		Spoil: func(t *testing.T, name string) {
			conn, err := nats.Connect(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			js, err := jetstream.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			// A stream in memory does not survive.
			c := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".fires"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage}
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func BenchmarkQueue(b *testing.B) {
	s := servers.StartNATS(b)
	queuetest.Benchmark(b, func(ctx context.Context, o queue.Options) (queue.Queue, error) {
		return Open(ctx, s.URL(), Options{Options: o})
	})
}
