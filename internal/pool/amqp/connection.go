package amqp

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
)

// dialBroker opens a connection for a purpose, which is part of its name.
func (c *Controller) dialBroker(ctx context.Context, purpose string) (*amqplink.Conn, error) {
	conn, err := amqplink.Dial(ctx, amqplink.Options{URL: c.config.URL, Name: "rouse pool " + c.names.pool + " " + purpose,
		Timeout: c.config.Timeout})
	var refused *amqp091.Error
	switch {
	case errors.As(err, &refused) && (refused.Code == amqp091.AccessRefused || refused.Code == amqp091.NotAllowed):
		return nil,
			fmt.Errorf("%w: RabbitMQ at %s does not let the user of amqp in: %s; look at its name, password and virtual host",
				ErrSetup, c.host, refused.Reason)
	case err != nil:
		return nil, fmt.Errorf("connect to RabbitMQ at %s: %w", c.host, err)
	}
	return conn, nil
}
