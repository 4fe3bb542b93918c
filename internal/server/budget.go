package server

import "sync/atomic"

// budget is the memory that requests may take while they are received, decoded and handled, over all connections of the API: the bytes
// of bodies and messages, and about what they become in memory. A request beyond it is refused if its address takes more than any
// other; otherwise the connection that takes the most of the address that does is closed. So one client cannot take it from others.
type budget struct {
	most    int64
	refused *refusals
	conns   *conns // of the API; nil where there are none, as in tests
	used    atomic.Int64
}

// take adds n bytes for a connection, which is nil where there is none; the caller gives them back in any case. It returns false if the
// caller has to give up what they are for.
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
	heaviest.Close()
	return true
}

func (b *budget) give(c *slotConn, n int64) {
	if c != nil {
		c.held.Add(-n)
	}
	b.used.Add(-n)
}
