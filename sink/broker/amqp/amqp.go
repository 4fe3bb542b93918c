// Package amqp publishes fires to exchanges of RabbitMQ (3.8 or later), with AMQP 0.9.1. Import it to
// enable "amqp:" targets in a node:
//
//	import _ "github.com/rousehq/rouse/sink/broker/amqp"
//
// # Targets
//
//	amqp:CONNECTION/EXCHANGE/ROUTING.KEY
//	amqp:CONNECTION//QUEUE               the default exchange, which leads to the queue of that name
//
// Special characters in names are percent-encoded, including a slash in an exchange. The routing key may be
// empty. The operator creates exchanges and queues: rouse declares nothing.
//
// # Messages
//
// Messages are persistent. In binary mode the body is the payload. The headers, which consumers of AMQP 1.0
// see as the application properties of CloudEvents' AMQP binding, are
//
//	cloudEvents_specversion, cloudEvents_id, cloudEvents_source, cloudEvents_type, cloudEvents_time, cloudEvents_subject,
//	cloudEvents_attempt (an integer), cloudEvents_token, cloudEvents_generation
//	rouse-fire-id, rouse-namespace, rouse-timer, rouse-due, rouse-attempt (an integer), rouse-token, rouse-generation,
//	rouse-manual and rouse-last (booleans)
//
// In structured mode the body is the event as JSON, its content type is application/cloudevents+json, and
// only the rouse-… headers are set. In both modes the property message-id is the fire id, type the event's
// type, and app-id "rouse". Texts are UTF-8, and not percent-encoded.
//
// # Outcomes
//
// A message is done when RabbitMQ has confirmed and not returned it: a durable queue then has it on disk, a
// quorum queue on most replicas. A message without a queue is returned (mandatory), and fails with the code
// 312. A message that a full queue refuses fails; so does one for an exchange that does not exist or that
// the user may not write to, with RabbitMQ's code. A message that is too large is rejected. While RabbitMQ
// blocks publishers, because memory or disk space is low, fires wait.
//
// RabbitMQ reports such errors by closing the channel, with all messages in progress on it. So each exchange
// has its own channels for each namespace: mistakes of one client do not affect the messages of others. If
// the refusal is of one message, because of its size or its routing key, the messages in progress are sent
// again one at a time, and only that message fails.
//
//	amqp.go      the publisher, targets      link.go     a connection, which is restored when it breaks
//	publish.go   publishing                  channel.go  a channel, its confirms and returns
//	message.go   fires as messages
package amqp

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/sink/broker"
)

// maxName bounds an AMQP short string, in bytes.
const maxName = 255

// Publisher publishes to one RabbitMQ. It is safe for concurrent use.
type Publisher struct {
	c      broker.Connection
	away   broker.Availability // there is no connection
	blocks broker.Availability // connected, but RabbitMQ blocks publishers

	life context.Context // until Close
	end  context.CancelFunc
	uses sync.WaitGroup // goroutines

	mu   sync.Mutex
	link *link // nil while there is none
}

// Open returns a publisher, which connects and reconnects by itself. changed is called with the reason when
// the broker becomes unavailable, and with nil when it is back.
func Open(c broker.Connection, changed func(err error)) (*Publisher, error) {
	host, err := amqplink.Host(c.URL)
	if err != nil {
		return nil, rouse.Refuse("url", "", "is no URL of a RabbitMQ: "+err.Error(),
			"write one such as amqps://user:password@host:5671/vhost")
	}
	c = c.WithDefaults()
	p := &Publisher{c: c}
	p.away = broker.Availability{Broker: "RabbitMQ at " + host, Patience: c.Patience, Changed: changed}
	p.blocks = broker.Availability{Broker: p.away.Broker, Patience: c.Patience, Changed: changed}
	p.blocks.Back()
	p.life, p.end = context.WithCancel(context.Background())
	p.uses.Go(p.keepConnected)
	return p, nil
}

// Check returns the fault of the exchange or the routing key, and the cure.
func (p *Publisher) Check(t *broker.Target) (wrong, cure string) {
	_, _, wrong = exchangeAndKey(t)
	return wrong, "write amqp:" + t.Connection + "/EXCHANGE/ROUTING.KEY, or amqp:" + t.Connection +
		"//QUEUE, with what is special percent-encoded"
}

// exchangeAndKey parses the exchange and the routing key of a target.
func exchangeAndKey(t *broker.Target) (exchange, key, wrong string) {
	exchange, key, ok := strings.Cut(t.Path, "/")
	if !ok {
		return "", "", "names an exchange and no routing key"
	}
	for _, part := range []*string{&exchange, &key} {
		if *part, wrong = broker.Name(*part); wrong != "" {
			return "", "", wrong
		}
		if len(*part) > maxName {
			return "", "", fmt.Sprintf("has a name of %d bytes, and AMQP takes %d", len(*part), maxName)
		}
	}
	if exchange == "" && key == "" {
		return "", "", "names neither an exchange nor a queue"
	}
	return exchange, key, ""
}

// Obstacle returns the reason why publishing is impossible now.
func (p *Publisher) Obstacle() string {
	return cmp.Or(p.blocks.Obstacle(), p.away.Obstacle())
}

// Close closes the connection. Messages in progress fail.
func (p *Publisher) Close() error {
	p.end()
	p.uses.Wait()
	return nil
}

var _ broker.Publisher = (*Publisher)(nil)
