package server

import "sync/atomic"

// budget bounds the memory of requests that are being received, decoded and handled, over all API
// connections: the bytes of bodies and messages, and an estimate of their decoded size. If it is exceeded,
// the heaviest connection of the heaviest address is closed, or the request is refused if it comes from
// that address itself. So one client cannot take the memory of others.
type budget struct {
	most    int64
	refused *refusals
	conns   *conns // of the API; nil in tests
	used    atomic.Int64
}

// take adds n bytes for a connection, which may be nil. It returns false if the caller has to refuse the
// request. The caller calls give in both cases.
func (b *budget) take(c *slotConn, n int64) bool {
	if c != nil {
		c.held.Add(n)
	}
	if b.used.Add(n) <= b.most || n <= 0 {
		return true
	}
	var heaviest *slotConn
	if b.conns != nil && c != nil {
		heaviest = b.conns.heaviest()
	}
	if heaviest == nil || heaviest.source == c.source {
		b.refused.note(limitMemory, "requests refused: what is being received takes too much memory", "most", b.most)
		return false
	}
	b.refused.note(limitMemory, "connection closed: its requests take too much memory", "address", heaviest.source, "bytes", heaviest.held.Load(), "most", b.most)
	heaviest.abort()
	return true
}

func (b *budget) give(c *slotConn, n int64) {
	if c != nil {
		c.held.Add(-n)
	}
	b.used.Add(-n)
}
