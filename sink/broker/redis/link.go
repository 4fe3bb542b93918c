package redis

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"time"
)

const (
	firstWait   = 50 * time.Millisecond // between two tries to connect, at first
	longestWait = 5 * time.Second       // and at most
	checkUp     = 10 * time.Second      // between looks at a Redis that seems to be there
)

// run asks whether Redis can be reached, again and again while it cannot.
func (p *Publisher) run() {
	for wait := firstWait; p.life.Err() == nil; {
		err := p.ping()
		if p.life.Err() != nil {
			return
		}
		if err != nil {
			p.away.Lost(err)
			p.pause(wait/2+rand.N(wait/2), nil)
			wait = min(2*wait, longestWait)
			continue
		}
		wait = firstWait
		p.away.Back()
		p.pause(checkUp, p.suspect)
	}
}

func (p *Publisher) ping() error {
	ctx, cancel := context.WithTimeout(p.life, p.c.Timeout)
	defer cancel()
	return p.client.Ping(ctx).Err()
}

// pause waits for d, for a signal, or until the publisher is closed.
func (p *Publisher) pause(d time.Duration, signal <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-signal:
	case <-p.life.Done():
	}
}

// doubt notes that a connection was not to be had.
func (p *Publisher) doubt(err error) {
	p.away.Lost(err)
	select {
	case p.suspect <- struct{}{}:
	default:
	}
}

// dial connects, and reads the files of certificates each time.
func (p *Publisher) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.c.Timeout)
	defer cancel()
	raw, err := (&net.Dialer{KeepAlive: time.Minute}).DialContext(ctx, network, addr)
	if err != nil || !p.c.Secure() {
		return raw, err
	}
	config, err := p.c.TLS()
	if err != nil {
		_ = raw.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: err} // nothing was sent
	}
	return conn, nil
}
