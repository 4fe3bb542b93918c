package amqp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	heartbeat   = 10 * time.Second      // how often each side shows that it lives; twice that without a sign ends a connection
	firstWait   = 50 * time.Millisecond // between two tries to connect, at first
	longestWait = 5 * time.Second       // and at most
)

// link is a connection to the broker, from when it stands until it breaks.
type link struct {
	p    *Publisher
	conn *amqp091.Connection
	wire net.Conn
	gone chan struct{} // closed when it has ended

	mu       sync.Mutex
	channels map[channelKey]*channel // those that take messages
	open     int                     // channels, those included that take no more
}

// wire gives up writing to a broker that does not read.
type wire struct {
	net.Conn
	patience time.Duration
}

func (w *wire) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// run keeps a connection until the publisher is closed.
func (p *Publisher) run() {
	for wait := firstWait; p.life.Err() == nil; {
		l, err := p.dial()
		if err != nil {
			p.away.Lost(err)
			pause(p.life, wait/2+rand.N(wait/2))
			wait = min(2*wait, longestWait)
			continue
		}
		wait = firstWait
		p.set(l)
		p.away.Back()
		why := l.watch()
		p.set(nil)
		p.blocks.Back()
		if p.life.Err() == nil {
			p.away.Lost(why)
		}
	}
}

func (p *Publisher) set(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
}

// get returns the link, or nil if there is none in a moment.
func (p *Publisher) get(ctx context.Context) *link {
	if !p.away.Await(ctx) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// dial connects.
func (p *Publisher) dial() (*link, error) {
	ctx, cancel := context.WithTimeout(p.life, p.c.Timeout)
	defer cancel()
	l := &link{p: p, gone: make(chan struct{}), channels: map[channelKey]*channel{}}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName("rouse broker " + p.c.Name)
	config := amqp091.Config{Heartbeat: heartbeat, Properties: properties, Locale: "en_US", Dial: func(network, addr string) (net.Conn, error) {
		raw, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l.wire = &wire{raw, p.c.Timeout}
		deadline, _ := ctx.Deadline()
		return l.wire, raw.SetReadDeadline(deadline) // of the handshake; the client takes it away afterwards
	}}
	if p.c.Secure() {
		var err error
		if config.TLSClientConfig, err = p.c.TLS(); err != nil {
			return nil, err
		}
	}
	conn, err := amqp091.DialConfig(p.c.URL, config)
	if err != nil {
		if l.wire != nil {
			_ = l.wire.Close() // it may have been closed already
		}
		return nil, err
	}
	l.conn = conn
	return l, nil
}

// watch waits for the end of the connection, ends what was on it, and says why it ended.
func (l *link) watch() error {
	closed := l.conn.NotifyClose(make(chan *amqp091.Error, 1))
	blocked := l.conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	why := errors.New("the connection broke")
	for ended := false; !ended; {
		select {
		case b, ok := <-blocked:
			switch {
			case !ok:
				blocked = nil
			case b.Active:
				l.p.blocks.Lost(errors.New("it blocks publishers: " + b.Reason))
			default:
				l.p.blocks.Back()
			}
		case err := <-closed:
			if err != nil {
				why = fmt.Errorf("the connection broke: %w", err)
			}
			ended = true
		case <-l.p.life.Done():
			ended = true
		}
	}
	close(l.gone)
	l.cut()
	return why
}

// cut ends the connection without a word, as nothing may wait for a broker that does not listen.
func (l *link) cut() {
	_ = l.wire.Close()
	_ = l.conn.CloseDeadline(time.Now()) // ends the client's goroutines
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
