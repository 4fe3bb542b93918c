package transport

import "sync/atomic"

// Budget bounds the memory of requests that are being received, decoded and handled, over
// connections: the bytes of bodies and messages, and an estimate of their decoded size. If it is exceeded,
// the heaviest connection of the heaviest address is closed, or the request is refused if it comes from
// that address itself. So one client cannot take the memory of others.
type Budget struct {
	most    int64
	refused *Refusals
	conns   *Conns // may be nil
	used    atomic.Int64
}

// NewBudget returns a budget of so many bytes for the requests of connections. At the bound the heaviest of
// conns is closed; nil: none is.
func NewBudget(most int64, conns *Conns, refused *Refusals) *Budget {
	return &Budget{most: most, refused: refused, conns: conns}
}

// Most returns the bound in bytes.
func (b *Budget) Most() int64 { return b.most }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// TakeBytes adds n bytes for a connection, which may be nil. It returns false if the caller has to refuse the
// request. The caller calls GiveBytes in both cases.
func (b *Budget) TakeBytes(c *Conn, n int64) bool {
	if c != nil {
		c.held.Add(n)
	}
	if b.used.Add(n) <= b.most || n <= 0 {
		return true
	}
	var heaviest *Conn
	if b.conns != nil && c != nil {
		heaviest = b.conns.heaviestConn()
	}
	if heaviest == nil || heaviest.source == c.source {
		b.refused.NoteRefusal(LimitMemory, "requests refused: what is being received takes too much memory", "most", b.most)
		return false
	}
	b.refused.NoteRefusal(LimitMemory, "connection closed: its requests take too much memory", "address", heaviest.source,
		"bytes", heaviest.held.Load(), "most", b.most)
	heaviest.abortConn()
	return true
}

// GiveBytes gives n bytes back.
func (b *Budget) GiveBytes(c *Conn, n int64) {
	if c != nil {
		c.held.Add(-n)
	}
	b.used.Add(-n)
}
