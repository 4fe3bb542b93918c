package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// receiveTimeout is how long a gRPC message may take to arrive, as readTimeout is for HTTP requests.
const receiveTimeout = readTimeout

// slotConn is a connection that occupies a slot until it is closed.
type slotConn struct {
	net.Conn
	slots  *conns
	source netip.Addr
	held   atomic.Int64         // bytes taken from the budget
	meter  meter                // of HTTP/2
	head   head                 // of HTTP/1
	tls    *tls.ConnectionState // set by handshake, before a server has the connection; nil: plain text

	once   sync.Once
	first  []byte // read by peek, but not yet by the server
	prefix [16]byte
	armed  bool // a read deadline for a message is set; used by the reading goroutine only

	mu      sync.Mutex
	serving int       // HTTP/1 requests that are being handled
	idle    time.Time // since when serving is 0
}

// handshake completes the TLS handshake, if the listener has TLS.
func (c *slotConn) handshake() error {
	secure, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if err := secure.Handshake(); err != nil {
		c.refuseHandshake(err)
		return err
	}
	state := secure.ConnectionState()
	c.tls = &state
	return c.SetDeadline(time.Time{})
}

// handshaken are the gRPC credentials of connections whose handshake is done: calls find in their peer what
// the client has proved.
type handshaken struct {
	credentials.TransportCredentials
}

// ServerHandshake returns what handshake found.
func (handshaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*slotConn)
	if !ok || c.tls == nil {
		return conn, nil, nil
	}
	return conn, credentials.TLSInfo{State: *c.tls, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

// refuseHandshake reports why a handshake failed. A client of plain HTTP gets an answer that it understands.
func (c *slotConn) refuseHandshake(err error) {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return // it was closed: a check of the port, or the end of this server
	}
	c.slots.refused.note(limitHandshake, "connections closed: no TLS handshake", "address", c.source, "most", handshakeTimeout, "error", err)
	if head, ok := errors.AsType[tls.RecordHeaderError](err); ok && head.Conn != nil && bytes.Contains(methods, head.RecordHeader[:]) {
		_, _ = io.WriteString(head.Conn, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nThis port has TLS: use https.\n")
	}
}

// methods are the first bytes of requests in plain HTTP.
var methods = []byte("GET / HEAD /POST /PUT /PATCH DELETE OPTIONS PRI * ")

// peek reads until the bytes differ from the preface or complete it.
func (c *slotConn) peek() (http2 bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return false, err
	}
	buf := c.prefix[:len(preface)]
	for n := 0; n < len(buf); {
		m, err := c.Conn.Read(buf[n:])
		n += m
		c.first = buf[:n]
		if !bytes.HasPrefix(preface, c.first) {
			return false, c.SetReadDeadline(time.Time{})
		}
		if n < len(buf) && err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return false, nil // the server reports the error
			}
			return false, err
		}
	}
	return true, c.SetReadDeadline(time.Time{})
}

// Read reads and meters the bytes.
func (c *slotConn) Read(b []byte) (n int, err error) {
	if len(c.first) > 0 {
		n = copy(b, c.first)
		c.first = c.first[n:]
	} else if n, err = c.receive(b); err != nil && n == 0 {
		return 0, err
	}
	c.head.read(b[:n])
	if !c.meter.read(b[:n]) {
		c.abort()
		return 0, net.ErrClosed
	}
	if !c.armed {
		if since, some := c.meter.unfinished(); some {
			c.armed = true
			_ = c.SetReadDeadline(since.Add(receiveTimeout)) // if this fails, the next Read does, too
		}
	}
	return n, err
}

// receive reads from the connection until bytes arrive or an incomplete message times out. The read
// deadline is set once for many messages, so it may belong to a message that has arrived since.
func (c *slotConn) receive(b []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(b)
		if !c.armed || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		since, some := c.meter.unfinished()
		if some && time.Since(since) >= receiveTimeout {
			c.slots.refused.note(limitReceive, "connection closed: a message did not arrive in time", "address", c.source, "most", receiveTimeout)
			return n, err
		}
		if c.armed = some; some {
			err = c.SetReadDeadline(since.Add(receiveTimeout))
		} else {
			err = c.SetReadDeadline(time.Time{})
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write writes and notes which streams end.
func (c *slotConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.meter.write(b[:n])
	return n, err
}

// Close closes the connection and releases its slot and memory.
func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.slots.release(c)
		c.meter.close()
	})
	return err
}

// abort closes the connection at once. Close would send the end of TLS first, and wait for a client that does
// not read.
func (c *slotConn) abort() {
	if secure, ok := c.Conn.(*tls.Conn); ok {
		_ = secure.NetConn().Close()
	}
	_ = c.Close()
}

// serve notes that an HTTP/1 request is being handled, until done is called.
func (c *slotConn) serve() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.serving--; c.serving == 0 {
			c.idle = time.Now()
		}
	}
}

// idleSince returns since when no request has been in progress; ok is false if one is.
func (c *slotConn) idleSince() (since time.Time, ok bool) {
	if since, http2 := c.meter.idleSince(); http2 {
		return since, !since.IsZero()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle, c.serving == 0
}

// remote is the remote address. A gRPC call finds its connection through it.
type remote struct {
	net.Addr
	conn *slotConn
}

// RemoteAddr returns a remote.
func (c *slotConn) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

type connKey struct{}

// withConn is an http.Server's ConnContext: it lets requests find their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of an HTTP request; nil in tests.
func connOf(ctx context.Context) *slotConn {
	c, _ := ctx.Value(connKey{}).(*slotConn)
	return c
}

// sourceOf returns the address of the caller of a request, as limits per address have it; the zero Addr of
// calls within this process.
func sourceOf(ctx context.Context) netip.Addr {
	if c := cmp.Or(connOf(ctx), callerConn(ctx)); c != nil {
		return c.source
	}
	return netip.Addr{}
}
