//go:build unix

package servers

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// link is one connection through a proxy, which consists of two: from the client and to the server.
type link struct {
	p      *Proxy
	ctx    context.Context // ends with the link
	cancel context.CancelFunc

	// Of the proxy's mutex.
	client, server *net.TCPConn // server is nil until it is there
	lost           bool         // some of its data was dropped
}

// packet contains the data of one read.
type packet struct {
	at   time.Time
	data []byte
	err  error // no data: how reading ended, io.EOF for a regular end
}

const (
	packetSize = 16 << 10
	underWay   = 1024 // packets of one direction; no more are read, so that TCP slows down the sender
	dialTime   = 10 * time.Second
)

// startLink takes a client's connection.
func (p *Proxy) startLink(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &link{p: p, client: client}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if p.l == nil { // refused in between
		l.resetLink()
		return
	}
	p.links[l] = struct{}{}
	p.wg.Go(l.forwardBothWays)
}

// forwardBothWays forwards data in both directions until both sides have ended or the link is reset. If only
// one side has ended, or the other cannot be notified, the other's connection stays open.
func (l *link) forwardBothWays() {
	defer l.removeLink()
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(l.ctx, "tcp", l.p.server)
	l.p.mu.Lock()
	if err != nil {
		cut := l.p.now.cut != [2]bool{}
		if l.lost = cut; !cut {
			l.resetLink() // as the server would have done
		}
		l.p.mu.Unlock()
		<-l.ctx.Done()
		return
	}
	l.server = conn.(*net.TCPConn)
	if l.ctx.Err() != nil { // reset while it dialled
		l.resetLink()
	}
	l.p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.forwardOneWay(toClient, l.server, l.client)
	}()
	l.forwardOneWay(toServer, l.client, l.server)
	<-done
}

// removeLink removes the link. Both sides have ended it themselves, or it was reset.
func (l *link) removeLink() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	delete(l.p.links, l)
	l.cancel()
	_ = l.client.Close() // closed already if it was reset
	if l.server != nil {
		_ = l.server.Close()
	}
}

// resetLink ends both connections with a TCP reset. The proxy is locked.
func (l *link) resetLink() {
	l.cancel()
	for _, conn := range []*net.TCPConn{l.client, l.server} {
		if conn != nil {
			_ = conn.SetLinger(0) // makes Close send a reset; fails if it is closed already
			_ = conn.Close()
		}
	}
}

// forwardOneWay carries one direction, until from ends.
func (l *link) forwardOneWay(d direction, from, to *net.TCPConn) {
	packets := make(chan packet, underWay)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(packets)
		l.readPackets(from, packets)
	}()
	for pk := range packets {
		switch {
		case !l.waitForArrival(d, pk.at):
		case pk.err == nil:
			if _, err := to.Write(pk.data); err != nil {
				l.passOnReset(1 - d) // the other side has closed, which shows in this way
			}
		case errors.Is(pk.err, io.EOF):
			_ = to.CloseWrite() // fails if to has ended already
		default:
			l.passOnReset(d)
		}
	}
	<-done
}

// readPackets reads until the connection ends, in whatever way.
func (l *link) readPackets(from *net.TCPConn, packets chan<- packet) {
	buf := make([]byte, packetSize)
	send := func(pk packet) bool {
		select {
		case packets <- pk:
			return true
		case <-l.ctx.Done():
			return false
		}
	}
	for {
		n, err := from.Read(buf)
		now := time.Now()
		if n > 0 && !send(packet{at: now, data: append([]byte(nil), buf[:n]...)}) {
			return
		}
		if err != nil {
			send(packet{at: now, err: err})
			return
		}
	}
}

// waitForArrival waits until a packet sent at a time arrives, and reports whether it does.
func (l *link) waitForArrival(d direction, sent time.Time) bool {
	for {
		l.p.mu.Lock()
		now, changed := l.p.now, l.p.changed
		wait := time.Until(sent.Add(now.delay))
		if wait <= 0 && now.cut[d] {
			l.lost = true
		}
		l.p.mu.Unlock()
		if wait <= 0 {
			return !now.cut[d]
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-l.ctx.Done():
		}
		timer.Stop()
		if l.ctx.Err() != nil {
			return false
		}
	}
}

// passOnReset resets the link because one side did, unless the network hides that from the other side.
func (l *link) passOnReset(d direction) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.p.now.cut[d] {
		l.lost = true
		return
	}
	l.resetLink()
}
