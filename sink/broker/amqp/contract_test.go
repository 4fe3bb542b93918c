package amqp

import (
	"fmt"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/sink/sinktest"
)

var wrongTargets = []string{"", "amqp", "amqp:", "amqp:there", "amqp:there/", "amqp:there//", "amqp:there/events", "amqp:none/events/x", "amqp://there/events/x",
	"amqps:there/events/x", "nats:there/x", "amqp:there/events/%zz", "amqp:there/events/%00", "amqp:there/events/%ff", "amqp:there/events/x?mode=xml",
	"amqp:there/events/x?via=core", "amqp:there/" + string(make([]byte, 256)) + "/x"}

func contract(t *testing.T, url string) {
	for name, options := range map[string]string{"binary": "", "structured": "?mode=structured"} {
		t.Run(name, func(t *testing.T) {
			h := sinktest.Harness{Open: func(t *testing.T) *sinktest.Peer { return openPeer(t, url, options) }, NoReject: true,
				Wrong: []rouse.Spec{{Target: "amqp:there//q", Webhook: rouse.Webhook{Method: "PUT"}}, {Target: "amqp:there//q", Webhook: rouse.Webhook{Batch: 2}}}}
			for _, target := range wrongTargets {
				h.Wrong = append(h.Wrong, rouse.Spec{Target: target})
			}
			sinktest.Run(t, h)
		})
	}
}

// peer is a consumer of a queue, and the relay that confirms to the sink what the consumer has taken.
type peer struct {
	relay    *relay
	conn     *amqp091.Connection
	arrivals chan *sinktest.Arrival
	reading  sync.WaitGroup
}

func openPeer(t *testing.T, url, options string) *sinktest.Peer {
	t.Helper()
	p := &peer{relay: newRelay(t, url), arrivals: make(chan *sinktest.Arrival, 1000)}
	conn, err := amqp091.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	p.conn = conn
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.reading.Go(func() { p.read(t, deliveries) })
	c := broker.Connection{Name: "there", URL: p.relay.URL(url), Timeout: 5 * time.Second}
	publisher, err := Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !publisher.away.Await(t.Context()) { // the contract allows no time for connecting
	}
	s := broker.New()
	s.Add(c, publisher)
	return &sinktest.Peer{
		Sink: s, Spec: rouse.Spec{Target: "amqp:there//" + q.Name + options},
		Next:   sinktest.From(p.arrivals),
		Vanish: p.relay.Close,
		Close: sync.OnceFunc(func() {
			p.relay.Close()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			p.reading.Wait()
		}),
	}
}

func (p *peer) read(t *testing.T, deliveries <-chan amqp091.Delivery) {
	for d := range deliveries {
		h := map[string]string{}
		for k, v := range d.Headers {
			h[k] = fmt.Sprint(v)
		}
		f, err := brokertest.Facts(h, d.ContentType, d.Body)
		if d.ContentType == "application/cloudevents+json" {
			f, err = brokertest.Event(d.Body)
		}
		if err != nil {
			t.Errorf("a message of %v and %q: %v", d.Headers, d.Body, err)
		}
		p.arrivals <- &sinktest.Arrival{Fire: f, Answer: func(a sinktest.Answer) { p.relay.answer(f.ID, a == sinktest.Take) }}
	}
}
