package amqp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
)

// ErrSetup means that a pool cannot be set up and retrying does not help: a permission is missing, a version
// is too old, or one of its names is already used for something else.
var ErrSetup = errors.New("the pool cannot be set up")

// policyPriority is the priority of the pool's policies. Of several that match a queue, only the one with the
// highest priority applies.
const policyPriority = 10

// setUpPolicies writes the policies of the pool, before the first queue is declared: a time to live that is
// set later does not apply to existing requests, and those keep younger ones behind them from expiring.
func (c *Controller) setUpPolicies(ctx context.Context) error {
	v, text, err := c.api.fetchVersion(ctx)
	switch refusalStatus(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf(
			"%w: %w; give the user of management the tag policymaker (rabbitmqctl set_user_tags USER policymaker)",
			ErrSetup, err)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w; is that the management plugin?", ErrSetup, err)
	}
	if err != nil {
		return err
	}
	if !v.atLeast(3, 10) {
		return fmt.Errorf("%w: RabbitMQ at %s is %s, and pools need 3.10 for times to live in quorum queues", ErrSetup,
			c.host, text)
	}
	if c.config.ConsumerTimeout > 0 && !v.atLeast(3, 12) {
		return fmt.Errorf(
			"%w: consumer_timeout is a policy from RabbitMQ 3.12 on, and this is %s: leave it out, and set consumer_timeout "+
				"of the broker", ErrSetup, text)
	}
	ours := c.poolPolicies(v)
	for _, p := range ours {
		err := c.api.putPolicy(ctx, c.vhost, p)
		switch refusalStatus(err) {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf(
				"%w: the policy %s: %w; give the user of management the tag policymaker, and all rights to the virtual host %q",
				ErrSetup, p.Name, err, c.vhost)
		case http.StatusBadRequest:
			return fmt.Errorf("%w: RabbitMQ %s does not take the policy %s: %w", ErrSetup, text, p.Name, err)
		}
		if err != nil {
			return err
		}
	}
	return c.checkPolicies(ctx, ours)
}

// endDeliveries is the delivery limit of orphans and dead letters. More than one delivery is rare: it means
// that connections broke.
const endDeliveries = 20

// poolPolicies returns the policies of the pool.
func (c *Controller) poolPolicies(v version) []policy {
	requests := map[string]any{"dead-letter-exchange": c.names.deadLetterExchange(),
		"message-ttl": c.config.MessageTTL.Milliseconds()}
	orphans := map[string]any{"dead-letter-exchange": c.names.deadLetterExchange(),
		"message-ttl": c.config.MessageTTL.Milliseconds()}
	poison := map[string]any{"max-length": c.config.PoisonLimit}
	// Unread reports are obsolete after a while.
	activity := map[string]any{"message-ttl": time.Minute.Milliseconds(), "max-length": 100_000}
	// With at-least-once, a quorum queue keeps dead letters until the queue of dead letters has accepted
	// them. Otherwise those that arrive while that queue has no leader yet would be lost, for example at the
	// start of the broker. RabbitMQ allows it only if the overflow is not drop-head.
	const strategy, certain = "dead-letter-strategy", "at-least-once"
	orphans[strategy], orphans["overflow"] = certain, "reject-publish"
	aside := map[string]any{"dead-letter-exchange": c.names.orphanExchange(), "message-ttl": asideTime.Milliseconds(),
		strategy: certain, "overflow": "reject-publish"}
	// A message that ends sessions reaches the inventory in the end, without a manager that has to receive
	// it.
	orphans["delivery-limit"] = endDeliveries
	letters := map[string]any{"delivery-limit": endDeliveries, "dead-letter-exchange": "",
		"dead-letter-routing-key": c.names.poisonQueue()}
	if !c.config.Classic {
		requests["delivery-limit"] = c.config.DeliveryLimit
	}
	switch {
	case c.config.MaxLength > 0:
		requests["max-length"] = c.config.MaxLength
		requests["overflow"] = "drop-head" // dropped requests are dead-lettered, and so answered
	case !c.config.Classic:
		requests[strategy], requests["overflow"] = certain, "reject-publish"
	}
	if c.config.ConsumerTimeout > 0 {
		requests["consumer-timeout"] = c.config.ConsumerTimeout.Milliseconds()
	}
	list := []policy{
		{Name: c.names.pool + "-req-queues", Pattern: prefixPattern(c.names.requestPrefix()), Definition: requests},
		{Name: c.names.pool + "-orphan", Pattern: exactPattern(c.names.orphanQueue()), Definition: orphans},
		{Name: c.names.pool + "-poison", Pattern: exactPattern(c.names.poisonQueue()), Definition: poison},
		{Name: c.names.pool + "-aside", Pattern: exactPattern(c.names.asideQueue()), Definition: aside},
		{Name: c.names.pool + "-dl", Pattern: exactPattern(c.names.deadLetters()), Definition: letters},
		{Name: c.names.pool + "-activity", Pattern: exactPattern(c.names.activityQueue()), Definition: activity},
	}
	if v.atLeast(4, 0) { // there quorum queues have a default limit, and reading poison counts as a delivery
		poison["delivery-limit"], aside["delivery-limit"] = -1, -1
	}
	for i := range list {
		list[i].Priority, list[i].ApplyTo = policyPriority, "queues"
	}
	return list
}

// checkPolicies fails if foreign policies would override those of the pool.
func (c *Controller) checkPolicies(ctx context.Context, ours []policy) error {
	all, err := c.api.listPolicies(ctx, c.vhost)
	if err != nil {
		return err
	}
	mine := map[string]bool{}
	for _, p := range ours {
		mine[p.Name] = true
	}
	examples := []string{c.names.requestQueue("42"), c.names.orphanQueue(), c.names.poisonQueue(), c.names.activityQueue(),
		c.names.deadLetters(), c.names.asideQueue()}
	for _, p := range all {
		matches, err := regexp.Compile(p.Pattern)
		if mine[p.Name] || p.Priority < policyPriority || p.ApplyTo == "exchanges" || err != nil {
			continue
		}
		for _, queue := range examples {
			if matches.MatchString(queue) {
				return fmt.Errorf(
					"%w: the policy %q of the virtual host %q, of priority %d, counts for the queue %s instead of the pool's: give it a "+
						"priority below %d, or a pattern that leaves the pool out", ErrSetup, p.Name, c.vhost, p.Priority, queue,
					policyPriority)
			}
		}
	}
	return nil
}

// setUp declares and binds the exchanges and queues of the pool, which may exist already.
func (c *Controller) setUp(ctx context.Context, conn *amqplink.Conn) error {
	ch, err := conn.OpenChannel(ctx)
	if err != nil {
		return err
	}
	defer conn.Limit(ctx)()
	quorum := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum}
	classic := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeClassic}
	var what string
	exchange := func(name, kind string, args amqp091.Table) func() error {
		return func() error {
			what = "exchange " + name
			return ch.ExchangeDeclare(name, kind, true, false, false, false, args)
		}
	}
	queue := func(name string, args amqp091.Table, from string) func() error {
		return func() error {
			what = "queue " + name
			_, err := ch.QueueDeclare(name, true, false, false, false, args)
			if err == nil && from != "" {
				err = ch.QueueBind(name, "", from, false, nil)
			}
			return err
		}
	}
	steps := []func() error{ // destinations before sources
		exchange(c.names.deadLetterExchange(), amqp091.ExchangeFanout, nil),
		queue(c.names.deadLetters(), quorum, c.names.deadLetterExchange()),
		queue(c.names.poisonQueue(), quorum, ""),
		exchange(c.names.activityExchange(), amqp091.ExchangeFanout, nil),
		queue(c.names.activityQueue(), classic, c.names.activityExchange()),
		exchange(c.names.orphanExchange(), amqp091.ExchangeFanout, nil),
		queue(c.names.orphanQueue(), quorum, c.names.orphanExchange()),
		exchange(c.names.asideExchange(), amqp091.ExchangeFanout, nil),
		queue(c.names.asideQueue(), quorum, c.names.asideExchange()),
		exchange(c.names.requestExchange(), amqp091.ExchangeDirect,
			amqp091.Table{"alternate-exchange": c.names.orphanExchange()}),
	}
	for _, step := range steps {
		err := step()
		var answer *amqp091.Error
		switch {
		case errors.As(err, &answer) && answer.Code == amqp091.PreconditionFailed:
			return fmt.Errorf("%w: the %s exists with other settings: %s; delete it, or give the pool another name", ErrSetup,
				what, answer.Reason)
		case errors.As(err, &answer) && answer.Code == amqp091.AccessRefused:
			return fmt.Errorf(
				"%w: the %s: %s; give the user of amqp the rights to configure, write and read what begins with %q",
				ErrSetup, what, answer.Reason, c.names.pool+"-")
		case err != nil:
			return fmt.Errorf("set up the %s: %w", what, err)
		}
	}
	return ch.Close()
}
