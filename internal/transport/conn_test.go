package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a listener with one connection.
type one struct {
	conn chan net.Conn
	end  chan struct{}
	once sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}
func (l *one) Close() error   { l.once.Do(func() { close(l.end) }); return nil }
func (l *one) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestHandshakesEnd: a client that does not finish its handshake has a slot for HandshakeTimeout at most,
// whatever it sends, and is counted.
func TestHandshakesEnd(t *testing.T) {
	hello := []byte{22, 3, 1, 0, 200, 1, 0, 0, 196}
	for name, send := range map[string][]byte{"nothing": nil, "half a hello": hello, "no TLS": []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "an alert": {21, 3, 1, 0, 2, 2, 40}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				count := func(limit string) {
					if limit == LimitHandshake {
						refused++
					}
				}
				conns := NewConns("connections", 10, 10, NewRefusals(slog.New(slog.DiscardHandler), count))
				l := &one{conn: make(chan net.Conn, 1), end: make(chan struct{})}
				config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }}
				s := NewSplit(l, config, conns, NewBudget(1<<20, nil, nil))
				var running sync.WaitGroup
				running.Go(func() { _ = s.Run() })
				server, client := net.Pipe()
				l.conn <- server
				running.Go(func() { _, _ = client.Write(send) })
				running.Go(func() { _, _ = io.Copy(io.Discard, client) })
				time.Sleep(HandshakeTimeout + time.Second)
				synctest.Wait()
				if conns.Count() != 0 || refused != 1 {
					t.Errorf("%d slots are taken, %d connections were counted", conns.Count(), refused)
				}
				s.Close()
				client.Close()
				running.Wait()
			})
		})
	}
}

// TestTheEndDoesNotWaitForTLS: closing a connection whose client does not read does not take time.
func TestTheEndDoesNotWaitForTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer client.Close()
		c := NewConns("connections", 1, 1, nil).AdmitConn(tls.Server(server, &tls.Config{}), NewBudget(1, nil, nil))
		began := time.Now()
		if c.abortConn(); time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}
