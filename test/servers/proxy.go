//go:build unix

package servers

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy stands between clients and a server and passes on what they say, until it is told to be a bad network. Its methods may
// be called from any goroutine; they hold for the connections that are there and for those that come, until they are called
// again or Heal is. What is on its way at that moment may still arrive. The proxy ends with the test.
type Proxy struct {
	t      testing.TB
	server string
	port   *claim
	wg     sync.WaitGroup // of everything that runs

	mu      sync.Mutex
	l       net.Listener // nil while connections are refused
	links   map[*link]struct{}
	now     fault
	changed chan struct{} // closed when now changes
}

// fault is what the network does to what is said.
type fault struct {
	delay time.Duration
	cut   [2]bool // by direction
}

// direction is a way through the proxy.
type direction int

const (
	toServer direction = iota
	toClient
)

// NewProxy starts a proxy in front of a server's address, host:port.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	port, err := claimPort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, server: server, port: port, links: make(map[*link]struct{}), changed: make(chan struct{})}
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// Addr is the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.port.addr() }

// URL is the URL of the server as one that leads through the proxy.
func (p *Proxy) URL(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		p.t.Errorf("proxy: %v", err)
		return server
	}
	u.Host = p.Addr()
	return u.String()
}

// Delay makes everything take d longer, each way. It does not make the network narrower, as long as not more than about a
// thousand packets are on their way.
func (p *Proxy) Delay(d time.Duration) { p.change(func(f *fault) { f.delay = d }) }

// CutToServer makes what clients say vanish, the end of their connections included; these stay open on the server's side. With
// CutToClient, it makes the network a black hole.
func (p *Proxy) CutToServer() { p.change(func(f *fault) { f.cut[toServer] = true }) }

// CutToClient makes what the server says vanish, the end of its connections included: requests are done, and no answer tells of
// it.
func (p *Proxy) CutToClient() { p.change(func(f *fault) { f.cut[toClient] = true }) }

// Reset ends all connections by a reset, on both sides. New ones are not touched.
func (p *Proxy) Reset() { p.resetIf(func(*link) bool { return true }) }

// Refuse says whether new connections are refused, as if nothing listened.
func (p *Proxy) Refuse(yes bool) {
	p.t.Helper()
	var err error
	if yes {
		err = p.deaf()
	} else {
		err = p.listen()
	}
	if err != nil {
		p.t.Error(err)
	}
}

// Heal makes the network a good one. A connection of which something has vanished is reset: what comes later cannot follow what
// is missing.
func (p *Proxy) Heal() {
	p.t.Helper()
	p.change(func(f *fault) { *f = fault{} })
	p.resetIf(func(l *link) bool { return l.lost })
	p.Refuse(false)
}

func (p *Proxy) change(f func(*fault)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.now)
	close(p.changed)
	p.changed = make(chan struct{})
}

// resetIf resets the connections for which f says so. It is asked while p is locked.
func (p *Proxy) resetIf(f func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if f(l) {
			l.reset()
		}
	}
}

// listen takes connections again, if it does not.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil {
		return nil
	}
	l, err := net.Listen("tcp4", p.Addr())
	if err != nil {
		return fmt.Errorf("proxy of %s: %w", p.server, err)
	}
	p.l = l
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.begin(conn.(*net.TCPConn))
		}
	})
	return nil
}

func (p *Proxy) deaf() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l == nil {
		return nil
	}
	l := p.l
	p.l = nil
	return l.Close()
}

func (p *Proxy) close() {
	if err := p.deaf(); err != nil {
		p.t.Error(err)
	}
	p.Reset()
	p.wg.Wait()
	p.port.release()
}
