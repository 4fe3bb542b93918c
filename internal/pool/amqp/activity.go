package amqp

import (
	"context"

	amqp091 "github.com/rabbitmq/amqp091-go"

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

// reportWindow is how many reports are unacknowledged at a time.
const reportWindow = 1000

// noteActivity passes reports of workers to the term until ctx ends. It uses a separate connection: a report
// whose headers do not fit into a frame ends only that connection. Then it is removed.
func (c *Controller) noteActivity(ctx context.Context, term *pool.Term) error {
	for {
		err := c.receiveReports(ctx, term)
		if ctx.Err() != nil {
			return nil
		}
		if !isFrameError(err) {
			return err
		}
		c.log.Warn("the connection for reports of workers ended; reconnecting", "error", err)
		if err := c.takeReports(ctx, term); err != nil && !isFrameError(err) {
			return err
		}
	}
}

// receiveReports passes on reports until its connection ends. There may be thousands a second, so they are
// acknowledged in bulk. Reports of a broken connection are delivered again, which is harmless.
func (c *Controller) receiveReports(ctx context.Context, term *pool.Term) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := c.dialBroker(ctx, "reports")
	if err != nil {
		return err
	}
	defer conn.Guard(cancel)()
	deliveries, err := c.consumeQueue(ctx, conn, c.names.activityQueue(), reportWindow)
	if err != nil {
		return waitCause(ctx, err)
	}
	unsettled := 0
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return waitCause(ctx, errConsumer(c.names.activityQueue()))
			}
			c.noteDelivery(term, &d)
			if unsettled++; unsettled < reportWindow/4 && len(deliveries) > 0 {
				continue
			}
			if err := d.Ack(true); err != nil {
				return waitCause(ctx, err)
			}
			unsettled = 0
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// takeReports takes reports one by one, without acknowledgement. So one that ends the connection does not
// come again.
func (c *Controller) takeReports(ctx context.Context, term *pool.Term) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := c.dialBroker(ctx, "reports")
	if err != nil {
		return err
	}
	defer conn.Guard(cancel)()
	ch, err := conn.OpenChannel(ctx)
	if err != nil {
		return waitCause(ctx, err)
	}
	for range reportWindow {
		done := conn.Limit(ctx)
		d, ok, err := ch.Get(c.names.activityQueue(), true)
		done()
		if err != nil {
			return waitCause(ctx, err)
		}
		if !ok {
			return nil
		}
		c.noteDelivery(term, &d)
	}
	return nil
}

func (c *Controller) noteDelivery(term *pool.Term, d *amqp091.Delivery) {
	switch event := d.Headers[eventHeader].(type) {
	case string:
		c.noteReport(term, d.RoutingKey, event)
	case []byte:
		c.noteReport(term, d.RoutingKey, string(event))
	}
}
