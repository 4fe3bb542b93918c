package amqp

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// statusHeader says in an answer how the request went: ok in those of workers, the reason why it was given up in error answers.
const statusHeader = "x-status"

// reasonPoison is the reason of requests that workers gave back, or died with, too often.
const reasonPoison = "delivery_limit"

// answerDeadLetters answers what request queues gave up, and keeps what is poison, until ctx ends.
func (c *Controller) answerDeadLetters(ctx context.Context, conn *connection, out *publisher) error {
	deliveries, err := c.consume(ctx, conn, c.names.deadLetters(), 100)
	if err != nil {
		return err
	}
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errConsumer(c.names.deadLetters())
			}
			// What else is there comes along, so that they wait for the disk together.
			batch := []amqp091.Delivery{d}
			for more := true; more && len(batch) < 100; {
				select {
				case d, ok := <-deliveries:
					if more = ok; ok {
						batch = append(batch, d)
					}
				default:
					more = false
				}
			}
			if err := c.answer(ctx, out, batch); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// answer answers dead letters, in steps that may all be taken again: first what is poison is kept, then clients are answered, and
// then the dead letters are gone.
func (c *Controller) answer(ctx context.Context, out *publisher, batch []amqp091.Delivery) error {
	type letter struct {
		reason string
		kept   *sent
		answer *sent
	}
	letters := make([]letter, len(batch))
	var err error
	for i := range batch {
		d, l := &batch[i], &letters[i]
		l.reason = c.reason(d.Headers)
		if l.reason != reasonPoison {
			continue
		}
		m := again(d)
		m.Expiration = ""
		m.DeliveryMode = amqp091.Persistent
		m.Headers[idHeader], m.Headers[keyHeader], m.Headers[whenHeader] = strings.ToLower(rand.Text()[:16]), d.RoutingKey, time.Now().UTC()
		if l.kept, err = out.send("", c.names.poison(), m); err != nil {
			return err
		}
	}
	for i := range batch {
		d, l := &batch[i], &letters[i]
		if l.kept != nil {
			if _, err := l.kept.wait(ctx); err != nil {
				return err
			}
			c.log.Warn("a request is poison: it was given back, or its worker died with it, too often", "key", d.RoutingKey)
		}
		if d.ReplyTo == "" {
			continue
		}
		m := amqp091.Publishing{CorrelationId: d.CorrelationId, DeliveryMode: d.DeliveryMode, Headers: amqp091.Table{statusHeader: l.reason}}
		if l.answer, err = out.send("", d.ReplyTo, m); err != nil {
			return err
		}
	}
	for i := range batch {
		outcome := "unwanted"
		if l := &letters[i]; l.answer != nil {
			returned, err := l.answer.wait(ctx)
			if err != nil {
				return err
			}
			if outcome = "sent"; returned {
				outcome = "client gone"
			}
		}
		c.manager.Metrics().DeadLetter(letters[i].reason, outcome)
		if err := batch[i].Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// reason is why a request was given up: the newest event that the broker wrote down of a queue of ours. What else the headers say
// may be the client's, or about what happened elsewhere before.
func (c *Controller) reason(headers amqp091.Table) string {
	events, _ := headers["x-death"].([]any)
	for _, e := range events { // the newest is the first
		event, ok := e.(amqp091.Table)
		if !ok {
			continue
		}
		queue, _ := event["queue"].(string)
		if reason, _ := event["reason"].(string); c.names.own(queue) && known[reason] {
			return reason
		}
	}
	return "unknown"
}

// known are the reasons that RabbitMQ has.
var known = map[string]bool{"rejected": true, "expired": true, "maxlen": true, reasonPoison: true}
