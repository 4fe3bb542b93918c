package redis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
)

const (
	firstWait   = 50 * time.Millisecond // between two tries to connect, at first
	longestWait = 5 * time.Second       // and at most
	checkUp     = 10 * time.Second      // between looks at a Redis that seems to be there
)

// run asks whether Redis can be reached, again and again while it cannot.
func (p *Publisher) run() {
	for b := backoff.New(firstWait, longestWait); p.life.Err() == nil; {
		err := p.ping()
		if p.life.Err() != nil {
			return
		}
		if err != nil {
			p.away.Lost(err)
			b.Pause(p.life)
			continue
		}
		b.Reset()
		p.away.Back()
		backoff.SleepOr(p.life, checkUp, p.suspect)
	}
}

func (p *Publisher) ping() error {
	ctx, cancel := context.WithTimeout(p.life, p.c.Timeout)
	defer cancel()
	return p.client.Ping(ctx).Err()
}

// doubt notes that a connection was not to be had.
func (p *Publisher) doubt(err error) {
	p.away.Lost(err)
	notify.Send(p.suspect)
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
