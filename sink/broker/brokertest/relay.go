package brokertest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Relay sits between a publisher and its broker, so that a test sees and changes the bytes that both send.
type Relay struct {
	t      testing.TB
	l      net.Listener
	server string
	ways   func(client, server net.Conn) (requests, answers func())
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// NewRelay returns a relay to the broker at a URL. For each connection ways returns the functions that
// forward each direction until it ends.
func NewRelay(t testing.TB, server string, ways func(client, server net.Conn) (requests, answers func())) *Relay {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{t: t, server: u.Host, ways: ways}
	if r.l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.wg.Go(func() {
		for {
			c, err := r.l.Accept()
			if err != nil {
				return
			}
			r.relayConn(c)
		}
	})
	return r
}

// URL returns the broker's URL with the address of the relay.
func (r *Relay) URL(server string) string {
	u, _ := url.Parse(server) // parsed before
	u.Host = r.l.Addr().String()
	return u.String()
}

func (r *Relay) relayConn(client net.Conn) {
	server, err := net.Dial("tcp4", r.server)
	if err != nil {
		r.t.Error(err)
		_ = client.Close()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_, _ = client.Close(), server.Close()
		return
	}
	r.conns = append(r.conns, client, server)
	requests, answers := r.ways(client, server)
	for _, way := range []func(){requests, answers} {
		r.wg.Go(func() {
			way()
			_, _ = client.Close(), server.Close()
		})
	}
}

// Close ends all connections, and takes no new ones.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	_ = r.l.Close()
	r.wg.Wait()
}
