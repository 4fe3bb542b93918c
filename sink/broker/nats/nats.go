// Package nats publishes fires to subjects of NATS (2.2 or later): to streams of JetStream, or with
// "?via=core" to the current subscribers. Import it to enable "nats:" targets in a node:
//
//	import _ "github.com/rousehq/rouse/sink/broker/nats"
//
// # Targets
//
//	nats:CONNECTION/SUBJECT             a stream of JetStream has the subject
//	nats:CONNECTION/SUBJECT?via=core    the current subscribers get it; it is not stored
//
// Subjects have no wildcards, and do not begin with '$' or "_INBOX.", which are NATS's own. The operator
// creates streams.
//
// # Messages
//
// In binary mode the body is the payload, and the headers are those of the NATS binding of CloudEvents,
//
//	ce-specversion, ce-id, ce-source, ce-type, ce-time, ce-subject, ce-datacontenttype, ce-attempt, ce-token, ce-generation
//
// in addition to content-type, rouse-fire-id, rouse-namespace, rouse-timer, rouse-due, rouse-attempt,
// rouse-token, rouse-generation, rouse-manual and rouse-last. Values are percent-encoded as in webhooks. In
// structured mode the body is the event as JSON, content-type application/cloudevents+json, and only the
// rouse-… headers are set. Nats-Msg-Id is the fire id: a stream drops duplicates within its
// duplicate_window (two minutes by default).
//
// # Outcomes
//
// A message is done when JetStream has acknowledged it. If no stream has the subject, the attempt fails
// immediately with the code 503; a stream that refuses reports the reason. With core NATS, done only means
// that the subject had a subscriber. A message that is too large is rejected.
//
//	nats.go      the publisher, targets    link.go    the connection
//	publish.go   publishing, answers       message.go fires as messages
package nats

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unicode"

	natsgo "github.com/nats-io/nats.go"

	"github.com/rousehq/rouse/sink/broker"
)

// maxSubject bounds a subject, in bytes.
const maxSubject = 512

// Publisher publishes to one NATS. It is safe for concurrent use.
type Publisher struct {
	c     broker.Connection
	away  broker.Availability
	inbox string // subject of answers, without the message's number

	life context.Context // until Close
	end  context.CancelFunc
	uses sync.WaitGroup // goroutines

	mu      sync.Mutex
	conn    *natsgo.Conn // nil before the first
	wire    int          // number of the last connection to a server
	sent    uint64       // number of the last published message
	pending map[uint64]*sent
	deaf    string // why no answers arrive on the current connection; empty if they do
}

// Open returns a publisher, which connects and reconnects by itself. changed is called with the reason when
// the broker becomes unavailable, and with nil when it is back.
func Open(c broker.Connection, changed func(err error)) (*Publisher, error) {
	c = c.WithDefaults()
	p := &Publisher{c: c, inbox: natsgo.NewInbox() + ".", pending: map[uint64]*sent{}}
	p.away = broker.Availability{Broker: "NATS at " + c.Host(), Patience: c.Patience, Changed: changed}
	p.life, p.end = context.WithCancel(context.Background())
	p.uses.Go(p.keepClient)
	return p, nil
}

// Check returns the fault of a subject, and the cure.
func (p *Publisher) Check(t *broker.Target) (wrong, cure string) {
	_, wrong = parseSubject(t)
	return wrong, "write nats:" + t.Connection + "/SUBJECT, with words and dots between, such as orders.due"
}

// parseSubject parses the subject of a target.
func parseSubject(t *broker.Target) (name, wrong string) {
	name, wrong = broker.Name(t.Path)
	switch {
	case wrong != "":
		return "", wrong
	case len(name) > maxSubject:
		return "", fmt.Sprintf("has a subject of %d bytes, and %d is the most", len(name), maxSubject)
	case strings.ContainsAny(name, "*>"):
		return "", "has a subject with a wildcard, and a message has one subject"
	case strings.ContainsFunc(name, unicode.IsSpace):
		return "", "has a subject with a space"
	case strings.HasPrefix(name, "$") || strings.HasPrefix(name, "_INBOX."):
		return "", "has a subject of NATS's own"
	case strings.Contains("."+name+".", ".."):
		return "", "has a subject with an empty word"
	}
	return name, ""
}

// Obstacle returns the reason why publishing is impossible now.
func (p *Publisher) Obstacle() string {
	p.mu.Lock()
	deaf := p.deaf
	p.mu.Unlock()
	if deaf != "" {
		return deaf
	}
	return p.away.Obstacle()
}

// Close closes the connection. Messages in progress fail.
func (p *Publisher) Close() error {
	p.end()
	p.uses.Wait()
	return nil
}

var _ broker.Publisher = (*Publisher)(nil)
