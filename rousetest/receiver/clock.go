package receiver

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// clockConn notes when the first byte of each request comes, which net/http does not report.
type clockConn struct {
	net.Conn
	first atomic.Pointer[time.Time] // nil between requests
}

func (c *clockConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.first.Load() == nil {
		now := time.Now()
		c.first.Store(&now)
	}
	return n, err
}

type clockListener struct{ net.Listener }

func (l clockListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &clockConn{Conn: c}, nil
}

type clockKey struct{}

func withClock(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// resetClock makes the next byte of a connection count as the first of a request.
func resetClock(c net.Conn, s http.ConnState) {
	if cc, ok := c.(*clockConn); ok && s == http.StateIdle {
		cc.first.Store(nil)
	}
}

// firstByte returns when the first byte of the connection's current request came.
func firstByte(ctx context.Context) time.Time {
	if c, ok := ctx.Value(clockKey{}).(*clockConn); ok {
		if t := c.first.Load(); t != nil {
			return *t
		}
	}
	return time.Now()
}
