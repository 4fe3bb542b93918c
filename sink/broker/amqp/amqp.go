// Package amqp publishes fires to exchanges of RabbitMQ (3.8 or later), by AMQP 0.9.1.
//
// # Targets
//
//	amqp:CONNECTION/EXCHANGE/ROUTING.KEY
//	amqp:CONNECTION//QUEUE               the default exchange, which leads to the queue of that name
//
// What is special in a name is percent-encoded, a slash in an exchange's too. The routing key may be empty, as for a fanout exchange.
// Exchanges and queues are the operator's to make: rouse declares nothing.
//
// # Messages
//
// Messages are persistent. In binary mode the body is the payload, and as the AMQP binding of CloudEvents has it in application
// properties, which RabbitMQ's headers are to consumers of AMQP 1.0, the headers are
//
//	cloudEvents_specversion, cloudEvents_id, cloudEvents_source, cloudEvents_type, cloudEvents_time, cloudEvents_subject,
//	cloudEvents_attempt (an integer), cloudEvents_token, cloudEvents_generation
//	rouse-fire-id, rouse-namespace, rouse-timer, rouse-due, rouse-attempt (an integer), rouse-token, rouse-generation,
//	rouse-manual and rouse-last (booleans)
//
// In structured mode the body is the event as JSON, its content type application/cloudevents+json, and only the rouse-… headers stay.
// In both the property message-id is the fire id, type the event's, app-id "rouse". Texts are UTF-8, and nothing is percent-encoded.
//
// # Outcomes
//
// Done is what RabbitMQ has confirmed and not returned: for a durable queue that means on disk, for a quorum queue on most of its
// replicas. A message that no queue takes is returned (mandatory), which is a failure with the code 312; one that a queue refuses, as
// it is full, is a failure. An exchange that does not exist, or that the user may not write to, is a failure with RabbitMQ's code. A
// message that is larger than RabbitMQ takes is rejected. While RabbitMQ blocks publishers, as it is short of memory or disk, fires wait.
//
// RabbitMQ answers such errors by closing the channel, and with it what else is under way on it. So each exchange has channels of its
// own, for each namespace: nobody's mistakes end what others are publishing.
//
//	amqp.go      the publisher, targets      link.go     a connection, made again whenever it breaks
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

// maxName bounds what AMQP has as a short string, in bytes.
const maxName = 255

// Publisher publishes to one RabbitMQ. It is safe for concurrent use.
type Publisher struct {
	c      broker.Connection
	away   broker.Away // there is no connection
	blocks broker.Away // there is, and RabbitMQ blocks who publishes on it

	life context.Context // until Close
	end  context.CancelFunc
	uses sync.WaitGroup // goroutines

	mu   sync.Mutex
	link *link // nil while there is none
}

// Open returns a publisher, which connects by itself, and again whenever the connection breaks. changed is told why the broker is away,
// and with nil that it is back.
func Open(c broker.Connection, changed func(err error)) (*Publisher, error) {
	host, err := amqplink.Host(c.URL)
	if err != nil {
		return nil, rouse.Refuse("url", "", "is no URL of a RabbitMQ: "+err.Error(), "write one such as amqps://user:password@host:5671/vhost")
	}
	c = c.WithDefaults()
	p := &Publisher{c: c}
	p.away = broker.Away{Broker: "RabbitMQ at " + host, Patience: c.Patience, Changed: changed}
	p.blocks = broker.Away{Broker: p.away.Broker, Patience: c.Patience, Changed: changed}
	p.blocks.Back()
	p.life, p.end = context.WithCancel(context.Background())
	p.uses.Go(p.run)
	return p, nil
}

// Check says what is wrong with exchange and routing key.
func (p *Publisher) Check(t *broker.Target) (wrong, cure string) {
	_, _, wrong = place(t)
	return wrong, "write amqp:" + t.Connection + "/EXCHANGE/ROUTING.KEY, or amqp:" + t.Connection + "//QUEUE, with what is special percent-encoded"
}

// place reads the exchange and the routing key of a target.
func place(t *broker.Target) (exchange, key, wrong string) {
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

// Obstacle says why nothing is published now.
func (p *Publisher) Obstacle() string {
	return cmp.Or(p.blocks.Obstacle(), p.away.Obstacle())
}

// Close ends the connection. What is under way on it fails.
func (p *Publisher) Close() error {
	p.end()
	p.uses.Wait()
	return nil
}

var _ broker.Publisher = (*Publisher)(nil)
