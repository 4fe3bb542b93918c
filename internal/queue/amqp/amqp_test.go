package amqp

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/queuetest"
	"github.com/rousehq/rouse/test/servers"
)

func TestContract(t *testing.T) {
	s := servers.StartRabbitMQ(t)
	queuetest.Run(t, queuetest.Harness{
		Broker: s,
		Open: func(ctx context.Context, o queue.Options) (queue.Queue, error) {
			return Open(ctx, s.URL(), Options{Options: o})
		},
		// Ra, which replicates quorum queues, persists the names of its members with a delay. After a crash
		// before that, the queue has a new, empty member under its name, which finds no leader.
		Settled: func(t *testing.T, name string) {
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				tables, err := filepath.Glob(filepath.Join(s.Dir(), "mnesia/*/quorum/*/names.dets"))
				if err != nil || len(tables) != 1 {
					t.Fatalf("the tables of names are %q: %v", tables, err)
				}
				if table, err := os.ReadFile(tables[0]); err == nil && bytes.Contains(table, []byte("%2F_"+name)) {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("the broker does not write down the name of a new queue")
				}
			}
		},
		Limit: func(t *testing.T, _ string) string {
			s.Eval(`application:set_env(rabbit, max_message_size, 50000)`)
			t.Cleanup(func() { s.Eval(`application:unset_env(rabbit, max_message_size)`) })
			return "RabbitMQ accepts 50000 bytes (max_message_size), and it has 100000"
		},
		Spoil: func(t *testing.T, name string) {
			conn, err := amqp091.Dial(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // of a test
			ch, err := conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			// A classic queue, whose messages are in memory.
			if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func BenchmarkQueue(b *testing.B) {
	s := servers.StartRabbitMQ(b)
	queuetest.Benchmark(b, func(ctx context.Context, o queue.Options) (queue.Queue, error) {
		return Open(ctx, s.URL(), Options{Options: o})
	})
}
