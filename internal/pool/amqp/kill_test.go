package amqp

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/test/servers"
)

// TestWhatAKilledBrokerLoses checks the statement of docs/pools.md about a killed RabbitMQ: classic queues
// keep all confirmed persistent messages; so do quorum queues, except for those that were declared some
// seconds before. No rouse code takes part. It logs the age of the queues that lost messages.
func TestWhatAKilledBrokerLoses(t *testing.T) {
	if os.Getenv("ROUSE_SOAK_KILL") == "" {
		t.Skip("it tests RabbitMQ, not rouse: set ROUSE_SOAK_KILL to run it")
	}
	const queues, writers, old = 300, 4, 5 * time.Second
	for _, kind := range []string{amqp091.QueueTypeQuorum, amqp091.QueueTypeClassic} {
		t.Run(kind, func(t *testing.T) {
			broker := servers.StartRabbitMQ(t)
			h := &harness{t: t, url: broker.URL()}
			declared := make([]time.Time, queues)
			confirmed := make([]time.Time, queues)
			name := func(i int) string { return fmt.Sprint(kind, i) }
			var making sync.WaitGroup
			for w := range writers {
				making.Go(func() {
					if err := h.try(func(ch *amqp091.Channel) error {
						if err := ch.Confirm(false); err != nil {
							return err
						}
						for i := w; i < queues; i += writers {
							if _, err := ch.QueueDeclare(name(i), true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: kind}); err != nil {
								return err
							}
							declared[i] = time.Now()
							confirm, err := ch.PublishWithDeferredConfirm("", name(i), true, false,
								amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte("x")})
							if err != nil {
								return err
							}
							if ok, err := confirm.WaitContext(t.Context()); err != nil || !ok {
								return fmt.Errorf("not confirmed: %v, %w", ok, err)
							}
							confirmed[i] = time.Now()
						}
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
			making.Wait()
			killed := time.Now()
			broker.Kill()
			broker.Start()
			for i := range queues {
				age := killed.Sub(declared[i]).Round(time.Millisecond)
				what := ""
				for deadline := time.Now().Add(30 * time.Second); ; {
					err := h.try(func(ch *amqp091.Channel) error {
						d, ok, err := ch.Get(name(i), true)
						switch {
						case err != nil:
							what = "cannot be read: " + err.Error()
						case !ok:
							what = "is empty"
						case string(d.Body) == "x":
							what = ""
						}
						return err
					})
					if err == nil || time.Now().After(deadline) {
						break
					}
				}
				if what == "" {
					continue
				}
				t.Logf("the queue that was declared %v before the kill, and whose message was confirmed %v before, %s", age,
					killed.Sub(confirmed[i]).Round(time.Millisecond), what)
				if kind == amqp091.QueueTypeClassic || age > old {
					t.Errorf("so more is lost than is documented")
				}
			}
		})
	}
}
