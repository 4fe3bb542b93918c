package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// ReceiveTimeout is how long a message of gRPC, or a request of HTTP, may take to arrive.
const ReceiveTimeout = 15 * time.Second

// Conn is a connection that occupies a slot of its Conns until it is closed, and accounts to a Budget for the
// memory of its requests.
type Conn struct {
	net.Conn
	conns  *Conns
	source netip.Addr
	held   atomic.Int64         // bytes taken from the budget
	meter  meter                // of HTTP/2
	head   head                 // of HTTP/1
	tls    *tls.ConnectionState // set by completeHandshake, before a server has the connection; nil: plain text

	once   sync.Once
	first  []byte // read by peekPreface, but not yet by the server
	prefix [16]byte
	armed  bool // a read deadline for a message is set; used by the reading goroutine only

	mu      sync.Mutex
	serving int       // HTTP/1 requests that are being handled
	idle    time.Time // since when serving is 0
}

// completeHandshake completes the TLS handshake, if the listener has TLS.
func (c *Conn) completeHandshake() error {
	secure, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := c.SetDeadline(time.Now().Add(HandshakeTimeout)); err != nil {
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

// Credentials returns the gRPC credentials of connections of a Split.
func Credentials() credentials.TransportCredentials { return handshaken{insecure.NewCredentials()} }

// handshaken are the gRPC credentials of connections whose handshake is done: calls find the client's
// certificates in their peer.
type handshaken struct {
	credentials.TransportCredentials
}

// ServerHandshake returns the state that completeHandshake has stored.
func (handshaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*Conn)
	if !ok || c.tls == nil {
		return conn, nil, nil
	}
	return conn, credentials.TLSInfo{State: *c.tls,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

// refuseHandshake reports why a handshake failed. A client of plain HTTP gets an answer that it understands.
func (c *Conn) refuseHandshake(err error) {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return // it was closed: a check of the port, or the end of this server
	}
	c.conns.refused.NoteRefusal(LimitHandshake, "connections closed: no TLS handshake", "address", c.source, "most",
		HandshakeTimeout, "error", err)
	if head, ok := errors.AsType[tls.RecordHeaderError](err); ok && head.Conn != nil &&
		bytes.Contains(methods, head.RecordHeader[:]) {
		_, _ = io.WriteString(head.Conn,
			"HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nThis port has TLS: use https.\n")
	}
}

// methods are the first bytes of requests in plain HTTP.
var methods = []byte("GET / HEAD /POST /PUT /PATCH DELETE OPTIONS PRI * ")

// peekPreface reads until the bytes differ from the preface or complete it.
func (c *Conn) peekPreface() (http2 bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(HandshakeTimeout)); err != nil {
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
func (c *Conn) Read(b []byte) (n int, err error) {
	if len(c.first) > 0 {
		n = copy(b, c.first)
		c.first = c.first[n:]
	} else if n, err = c.receiveBytes(b); err != nil && n == 0 {
		return 0, err
	}
	c.head.scanHead(b[:n])
	if !c.meter.meterRead(b[:n]) {
		c.abortConn()
		return 0, net.ErrClosed
	}
	if !c.armed {
		if since, some := c.meter.unfinishedSince(); some {
			c.armed = true
			_ = c.SetReadDeadline(since.Add(ReceiveTimeout)) // if this fails, the next Read does, too
		}
	}
	return n, err
}

// receiveBytes reads from the connection until bytes arrive or an incomplete message times out. The read
// deadline is set once for many messages, so it may belong to a message that has arrived since.
func (c *Conn) receiveBytes(b []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(b)
		if !c.armed || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		since, some := c.meter.unfinishedSince()
		if some && time.Since(since) >= ReceiveTimeout {
			c.conns.refused.NoteRefusal(LimitReceive, "connection closed: a message did not arrive in time", "address", c.source,
				"most", ReceiveTimeout)
			return n, err
		}
		if c.armed = some; some {
			err = c.SetReadDeadline(since.Add(ReceiveTimeout))
		} else {
			err = c.SetReadDeadline(time.Time{})
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write writes and notes which streams end.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.meter.meterWrite(b[:n])
	return n, err
}

// Close closes the connection and releases its slot and memory.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.conns.releaseConn(c)
		c.meter.closeMeter()
	})
	return err
}

// abortConn closes the connection at once. Close would send the end of TLS first, and wait for a client that
// does not read.
func (c *Conn) abortConn() {
	if secure, ok := c.Conn.(*tls.Conn); ok {
		_ = secure.NetConn().Close()
	}
	_ = c.Close()
}

// ServeRequest notes that an HTTP/1 request is being handled, until done is called.
func (c *Conn) ServeRequest() (done func()) {
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
func (c *Conn) idleSince() (since time.Time, ok bool) {
	if since, http2 := c.meter.idleSince(); http2 {
		return since, !since.IsZero()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle, c.serving == 0
}

// TLS returns the state of the connection's TLS; nil if it is in plain text.
func (c *Conn) TLS() *tls.ConnectionState { return c.tls }

// IsAmbiguous reports whether the HTTP/1 request that is being handled has two statements of how long its
// body is.
func (c *Conn) IsAmbiguous() bool { return c.head.isAmbiguous() }

// remote is the remote address. A gRPC call finds its connection through it.
type remote struct {
	net.Addr
	conn *Conn
}

// RemoteAddr returns a remote.
func (c *Conn) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

type connKey struct{}

// ConnContext is an http.Server's ConnContext: it lets requests find their connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnState is an http.Server's ConnState: it follows the heads of a connection's requests.
func ConnState(c net.Conn, state http.ConnState) {
	if c, ok := c.(*Conn); ok && state == http.StateIdle {
		if _, http2 := c.meter.idleSince(); !http2 {
			c.head.expectHead()
		}
	}
}

// ConnOf returns the connection of an HTTP request; nil if a Split has not accepted it.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// SourceOf returns the address of the caller of a request, as limits per address have it; the zero Addr of
// calls within this process.
func SourceOf(ctx context.Context) netip.Addr {
	if c := cmp.Or(ConnOf(ctx), callerConn(ctx)); c != nil {
		return c.source
	}
	return netip.Addr{}
}

// callerConn returns the connection of a call of gRPC; nil if a Split has not accepted it.
func callerConn(ctx context.Context) *Conn {
	if p, ok := peer.FromContext(ctx); ok {
		if at, ok := p.Addr.(remote); ok {
			return at.conn
		}
	}
	return nil
}
