package amqp

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// BenchmarkPublish publishes to a durable classic queue. The bare client's messages are persistent and
// confirmed, and have no headers.
func BenchmarkPublish(b *testing.B) {
	url := servers.RabbitMQ(b)
	ch := dial(b, url)
	declare(b, ch, "bench", amqp091.Table{"x-max-length": int32(10_000)})
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	p, err := Open(broker.Connection{Name: "there", URL: url}, nil)
	if err != nil {
		b.Fatal(err)
	}
	places := make(chan *amqp091.DeferredConfirmation, 1024)
	brokertest.Benchmark(b, p, url, "amqp:there//bench", func(n int) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range n {
				if !(<-places).Wait() {
					b.Error("refused")
				}
			}
		}()
		for range n {
			c, err := ch.PublishWithDeferredConfirm("", "bench", true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent, ContentType: "text/plain", Body: brokertest.Payload})
			if err != nil {
				b.Fatal(err)
			}
			places <- c
		}
		<-done
	})
}
