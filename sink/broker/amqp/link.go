package amqp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/backoff"
)

const (
	firstWait   = 50 * time.Millisecond // first pause before reconnecting
	longestWait = 5 * time.Second       // longest pause before reconnecting
)

// link is a connection to the broker until it breaks.
type link struct {
	p    *Publisher
	conn *amqplink.Conn

	mu       sync.Mutex
	channels map[channelKey]*channel // those that accept messages
	open     int                     // all open channels, including retired ones
}

// keepConnected keeps a connection open until the publisher is closed.
func (p *Publisher) keepConnected() {
	for b := backoff.New(firstWait, longestWait); b.Wait(p.life); {
		l, err := p.dialBroker()
		if err != nil {
			p.away.Lost(err)
			continue
		}
		b.Reset()
		p.setLink(l)
		p.away.Back()
		why := l.awaitClosed()
		p.setLink(nil)
		p.blocks.Back()
		if p.life.Err() == nil {
			p.away.Lost(why)
		}
	}
}

func (p *Publisher) setLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
}

// awaitLink waits a moment for the link, and returns nil if it is not established.
func (p *Publisher) awaitLink(ctx context.Context) *link {
	if !p.away.Await(ctx) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// dialBroker connects.
func (p *Publisher) dialBroker() (*link, error) {
	o := amqplink.Options{URL: p.c.URL, Name: "rouse broker " + p.c.Name, Timeout: p.c.Timeout}
	if p.c.Secure() {
		var err error
		if o.TLS, err = p.c.TLS(); err != nil {
			return nil, err
		}
	}
	conn, err := amqplink.Dial(p.life, o)
	if err != nil {
		return nil, err
	}
	return &link{p: p, conn: conn, channels: map[channelKey]*channel{}}, nil
}

// awaitClosed waits until the connection ends, and returns the reason.
func (l *link) awaitClosed() error {
	return l.conn.Watch(l.p.life, func(reason string) {
		if reason == "" {
			l.p.blocks.Back()
		} else {
			l.p.blocks.Lost(errors.New("it blocks publishers: " + reason))
		}
	})
}
