package amqp

import (
	"context"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/pool"
)

// eventHeader is the header with the event in a report of a worker. The routing key is the worker's key.
const eventHeader = "x-event"

// noteReport passes a report to the term, or writes that it names no group.
func (c *Controller) noteReport(term *pool.Term, name, event string) {
	if err := term.NoteNamed(name, event); err != nil {
		c.lines.Warn(c.log, "a report of a worker is ignored", "event", event, "error", err)
	}
}

// noteActivity passes reports of workers to the term until ctx ends. There may be thousands a second, so they
// are acknowledged in bulk. Reports of a broken connection are delivered again, which is harmless.
func (c *Controller) noteActivity(ctx context.Context, conn *amqplink.Conn, term *pool.Term) error {
	const window = 1000
	deliveries, err := c.consume(ctx, conn, c.names.activity(), window)
	if err != nil {
		return err
	}
	unsettled := 0
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errConsumer(c.names.activity())
			}
			switch event := d.Headers[eventHeader].(type) {
			case string:
				c.noteReport(term, d.RoutingKey, event)
			case []byte:
				c.noteReport(term, d.RoutingKey, string(event))
			}
			if unsettled++; unsettled < window/4 && len(deliveries) > 0 {
				continue
			}
			if err := d.Ack(true); err != nil {
				return err
			}
			unsettled = 0
		case <-ctx.Done():
			return nil
		}
	}
}
