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
	firstWait   = 50 * time.Millisecond // first pause between attempts to reach Redis
	longestWait = 5 * time.Second       // longest pause
	checkUp     = 10 * time.Second      // interval of checks while Redis seems available
)

// watchServer checks whether Redis is available, repeatedly while it is not.
func (p *Publisher) watchServer() {
	for b := backoff.New(firstWait, longestWait); p.life.Err() == nil; {
		err := p.pingServer()
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

func (p *Publisher) pingServer() error {
	ctx, cancel := context.WithTimeout(p.life, p.c.Timeout)
	defer cancel()
	return p.client.Ping(ctx).Err()
}

// reportUnreachable reports that a connection could not be made.
func (p *Publisher) reportUnreachable(err error) {
	p.away.Lost(err)
	notify.Send(p.suspect)
}

// dialServer connects. It reads the certificate files each time.
func (p *Publisher) dialServer(ctx context.Context, network, addr string) (net.Conn, error) {
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
