package transport

import (
	"log/slog"
	"net"
	"testing"
)

// ended is a connection from an address that records when it is closed.
type ended struct {
	net.Conn
	at     string
	closed bool
}

func (c *ended) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.at), Port: 1} }
func (c *ended) Close() error         { c.closed = true; return nil }

func TestTheHeaviestAddressGivesWay(t *testing.T) {
	refused := NewRefusals(slog.New(slog.DiscardHandler), nil)
	conns := NewConns("connections", 10, 10, refused)
	b := NewBudget(100, conns, refused)
	take := func(at string, n int64) (*Conn, *ended, bool) {
		end := &ended{at: at}
		c := conns.AdmitConn(end, b)
		return c, end, b.TakeBytes(c, n)
	}
	one, small, ok1 := take("2001:db8::1", 40)
	_, large, ok2 := take("2001:db8::2", 50) // of the same /64
	if !ok1 || !ok2 {
		t.Fatal("refused within the budget")
	}
	if _, _, ok := take("10.0.0.1", 20); !ok || !large.closed || small.closed {
		t.Errorf("taken: %v; closed: %v, %v; want the heaviest connection of the heaviest address closed", ok, large.closed, small.closed)
	}
	if b.TakeBytes(one, 1) {
		t.Error("the heaviest address took more")
	}
}
