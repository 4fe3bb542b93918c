//go:build unix

package servers

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Proxy forwards connections between clients and a server, and can simulate a bad network. Its methods may be
// called from any goroutine; they apply to existing and new connections until they are called again or Heal
// is. Data in transit at that moment may still arrive. The proxy ends with the test.
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

// fault is the treatment of the data by the network.
type fault struct {
	delay time.Duration
	cut   [2]bool // by direction
}

// direction is a direction through the proxy.
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
	if err := p.startListening(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.closeProxy)
	return p
}

// Addr is the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.port.claimedAddr() }

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

// Delay delays everything by d, each way. It does not reduce the bandwidth, as long as not more than about a
// thousand packets are in transit.
func (p *Proxy) Delay(d time.Duration) { p.changeFault(func(f *fault) { f.delay = d }) }

// CutToServer drops the data of clients, including the end of their connections, which stay open on the
// server's side. Together with CutToClient, the network is a black hole.
func (p *Proxy) CutToServer() { p.changeFault(func(f *fault) { f.cut[toServer] = true }) }

// CutToClient drops the data of the server, including the end of its connections: requests are executed, but
// no answer arrives.
func (p *Proxy) CutToClient() { p.changeFault(func(f *fault) { f.cut[toClient] = true }) }

// Reset ends all connections by a reset, on both sides. It does not affect new ones.
func (p *Proxy) Reset() { p.resetIf(func(*link) bool { return true }) }

// Refuse sets whether new connections are refused, as if no server listened.
func (p *Proxy) Refuse(yes bool) {
	p.t.Helper()
	var err error
	if yes {
		err = p.stopListening()
	} else {
		err = p.startListening()
	}
	if err != nil {
		p.t.Error(err)
	}
}

// Heal makes the network work again. A connection with dropped data is reset: later data cannot follow a gap.
func (p *Proxy) Heal() {
	p.t.Helper()
	p.changeFault(func(f *fault) { *f = fault{} })
	p.resetIf(func(l *link) bool { return l.lost })
	p.Refuse(false)
}

func (p *Proxy) changeFault(f func(*fault)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.now)
	close(p.changed)
	p.changed = make(chan struct{})
}

// resetIf resets the connections for which f returns true. f is called while p is locked.
func (p *Proxy) resetIf(f func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if f(l) {
			l.resetLink()
		}
	}
}

// startListening accepts connections again, if it does not.
func (p *Proxy) startListening() error {
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
			p.startLink(conn.(*net.TCPConn))
		}
	})
	return nil
}

func (p *Proxy) stopListening() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l == nil {
		return nil
	}
	l := p.l
	p.l = nil
	// A process that is being started has a copy of the socket for a moment, which would go on listening.
	if raw, err := l.(*net.TCPListener).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
	return l.Close()
}

func (p *Proxy) closeProxy() {
	if err := p.stopListening(); err != nil {
		p.t.Error(err)
	}
	p.Reset()
	p.wg.Wait()
	p.port.releasePort()
}
