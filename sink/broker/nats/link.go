package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/natslink"
	"github.com/rousehq/rouse/sink/broker"
)

// keepClient keeps a client until the publisher is closed. The client reconnects by itself; a new one is
// needed only if it gives up.
func (p *Publisher) keepClient() {
	for b := backoff.New(natslink.FirstWait, natslink.LongestWait); b.Wait(p.life); {
		closed := make(chan struct{})
		conn, err := p.connectClient(closed)
		if err != nil {
			p.away.Lost(err)
			continue
		}
		b.Reset()
		p.mu.Lock()
		p.conn = conn
		p.mu.Unlock()
		if conn.IsConnected() {
			p.away.Back()
		}
		p.watchClient(conn, closed)
		p.failUpTo(p.lastWire())
	}
}

// connectClient returns a client that receives answers.
func (p *Publisher) connectClient(closed chan struct{}) (*natsgo.Conn, error) {
	conn, err := natsgo.Connect(p.c.URL, p.clientOptions(closed)...)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Subscribe(p.inbox+"*", p.handleAnswer); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// watchClient waits until a client has ended. It polls the client for the reason why it does not connect, as
// not every reason is reported.
func (p *Publisher) watchClient(conn *natsgo.Conn, closed <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-closed:
			return
		case <-p.life.Done():
			conn.Close()
			<-closed
			return
		case <-tick.C:
			if err := conn.LastError(); err != nil {
				p.markLost(conn, err)
			}
		}
	}
}

// lastWire returns the number of the last connection to a server.
func (p *Publisher) lastWire() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wire
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("it does not answer")
	}
	return err
}

// clientOptions are the options of the client; closed is closed when it has ended.
func (p *Publisher) clientOptions(closed chan struct{}) []natsgo.Option {
	o := append(natslink.Options("rouse broker "+p.c.Name, p.c.Timeout), natsgo.SetCustomDialer(dialer{p}),
		natsgo.SkipHostLookup(),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { p.away.Back() }),
		natsgo.DisconnectErrHandler(func(c *natsgo.Conn, err error) { p.markLost(c, err) }),
		natsgo.ReconnectErrHandler(func(c *natsgo.Conn, err error) { p.markLost(c, err) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { p.handleRefusal(err) }),
		natsgo.ClosedHandler(func(*natsgo.Conn) { close(closed) }))
	if p.c.Credentials != "" {
		o = append(o, natsgo.UserCredentials(p.c.Credentials))
	}
	if p.c.Secure() {
		// The certificate has to name the server, which may be another one of the cluster.
		o = append(o, natsgo.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if p.c.CA != "" || p.c.Cert != "" {
		o = append(o, p.certificateFiles())
	}
	return o
}

// certificateFiles makes the client read the certificate files for each connect.
func (p *Publisher) certificateFiles() natsgo.Option {
	read := func() (*tls.Config, error) { return p.c.TLS() }
	return func(o *natsgo.Options) error {
		if p.c.CA != "" {
			o.RootCAsCB = func() (*x509.CertPool, error) {
				config, err := read()
				if err != nil {
					return nil, err
				}
				return config.RootCAs, nil
			}
		}
		if p.c.Cert != "" {
			o.TLSCertCB = func() (tls.Certificate, error) {
				config, err := read()
				if err != nil {
					return tls.Certificate{}, err
				}
				return config.Certificates[0], nil
			}
		}
		return nil
	}
}

// markLost sets the reason why there is no connection, unless it is restored.
func (p *Publisher) markLost(c *natsgo.Conn, err error) {
	if p.life.Err() == nil && !c.IsConnected() {
		p.away.Lost(orUnknown(err))
	}
}

// dialer makes the client's connections to servers.
type dialer struct{ p *Publisher }

// Dial connects.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.p.life, d.p.c.Timeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	d.p.wire++
	d.p.deaf = ""
	return &wire{Conn: raw, p: d.p, number: d.p.wire}, nil
}

// wire is a connection to a server. When it closes, its messages in progress fail immediately: the client
// itself reports the end later, when there may be another connection.
type wire struct {
	net.Conn
	p      *Publisher
	number int
	once   sync.Once
}

// Close ends the connection.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.once.Do(func() { w.p.failUpTo(w.number) })
	return err
}

// failUpTo fails the messages in progress of a connection and of earlier ones.
func (p *Publisher) failUpTo(number int) {
	for _, s := range p.takeMatching(func(s *sent) bool { return s.wire <= number }) {
		s.reportSent(broker.Failed(0, "the connection broke before NATS acknowledged: it may have the message"))
	}
}

// takeMatching removes the messages in progress that match.
func (p *Publisher) takeMatching(match func(s *sent) bool) (taken []*sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for number, s := range p.pending {
		if match(s) {
			taken = append(taken, s)
			delete(p.pending, number)
		}
	}
	return taken
}

// takeAll removes the messages in progress with these numbers.
func (p *Publisher) takeAll(numbers []uint64) (taken []*sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range numbers {
		if s := p.pending[n]; s != nil {
			taken = append(taken, s)
			delete(p.pending, n)
		}
	}
	return taken
}

// handleRefusal fails messages that the user may not publish: NATS reports them by subject, apart from the
// answers.
func (p *Publisher) handleRefusal(err error) {
	switch {
	case !errors.Is(err, natsgo.ErrPermissionViolation):
		return
	case strings.Contains(err.Error(), `"`+p.inbox+`*"`):
		p.mu.Lock()
		p.deaf = "the user may not subscribe to _INBOX.>, where acknowledgements come"
		p.mu.Unlock()
	}
	for _, s := range p.takeMatching(func(s *sent) bool { return strings.Contains(err.Error(), `"`+s.subject+`"`) }) {
		o := broker.Failed(403, fmt.Sprintf("NATS refused the message: %v", err))
		s.reportSent(o)
		for _, b := range p.takeAll(s.before) {
			b.reportSent(o)
		}
	}
}
