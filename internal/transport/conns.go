package transport

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/throttle"
)

// Conns are the open connections of one listener, bounded in total and per remote address. At a limit, a
// new connection replaces the one that has been idle longest: of its own address at the limit per address,
// of the address with the most connections at the total limit. So idle connections cannot lock out new
// ones. If none is idle, the new connection is closed.
type Conns struct {
	name             string // of the limit; the limit per address appends PerAddress
	most, perAddress int
	refused          *Refusals

	mu     sync.Mutex
	open   map[*Conn]struct{}
	counts map[netip.Addr]int
}

// NewConns returns no connections yet. The name is that of the limit, in metrics and logs.
func NewConns(name string, most, perAddress int, refused *Refusals) *Conns {
	return &Conns{
		name:       name,
		most:       most,
		perAddress: perAddress,
		refused:    refused,
		open:       map[*Conn]struct{}{},
		counts:     map[netip.Addr]int{},
	}
}

// sourceKey returns the key of the limit per address.
func sourceKey(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return throttle.Source(at.Addr())
}

// AdmitConn gives a connection a slot, or closes it and returns nil.
func (s *Conns) AdmitConn(from net.Conn, memory *Budget) *Conn {
	c := &Conn{Conn: from, conns: s, source: sourceKey(from.RemoteAddr()), idle: time.Now()}
	c.meter.conn, c.meter.budget = c, memory
	s.mu.Lock()
	limit, most, scope := "", 0, netip.Addr{}
	switch {
	case s.counts[c.source] >= s.perAddress:
		limit, most, scope = s.name+PerAddress, s.perAddress, c.source
	case len(s.open) >= s.most:
		limit, most, scope = s.name, s.most, s.busiestAddress()
	}
	var evicted *Conn
	if limit != "" {
		if evicted = s.idlestConn(scope); evicted == nil {
			s.mu.Unlock()
			// Counted first: a client that sees the end of its connection finds it in the metrics.
			s.refused.NoteRefusal(limit, "connections refused: too many are open", "address", c.source, "most", most)
			from.Close()
			return nil
		}
		s.removeConn(evicted)
	}
	s.open[c] = struct{}{}
	s.counts[c.source]++
	s.mu.Unlock()
	if evicted != nil {
		s.refused.NoteRefusal(limit, "idle connections closed: too many are open", "address", evicted.source, "most", most)
		evicted.abortConn()
	}
	return c
}

// busiestAddress returns the address with the most connections.
func (s *Conns) busiestAddress() (at netip.Addr) {
	most := 0
	for a, n := range s.counts {
		if n > most {
			at, most = a, n
		}
	}
	return at
}

// idlestConn returns the connection of an address that has been idle for the longest, nil if all are in use.
func (s *Conns) idlestConn(at netip.Addr) (found *Conn) {
	var since time.Time
	for c := range s.open {
		if c.source != at {
			continue
		}
		if idle, ok := c.idleSince(); ok && (found == nil || idle.Before(since)) {
			found, since = c, idle
		}
	}
	return found
}

// removeConn frees the slot of a connection; calling it again has no effect.
func (s *Conns) removeConn(c *Conn) {
	if _, ok := s.open[c]; !ok {
		return
	}
	delete(s.open, c)
	if s.counts[c.source]--; s.counts[c.source] == 0 {
		delete(s.counts, c.source)
	}
}

func (s *Conns) releaseConn(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeConn(c)
}

// Count returns how many connections are open.
func (s *Conns) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// heaviestConn returns the connection with the most memory of the address whose requests take the most.
func (s *Conns) heaviestConn() (c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sums := map[netip.Addr]int64{}
	for c := range s.open {
		if n := c.held.Load(); n > 0 {
			sums[c.source] += n
		}
	}
	var at netip.Addr
	var most int64
	for a, n := range sums {
		if n > most {
			at, most = a, n
		}
	}
	most = 0
	for other := range s.open {
		if n := other.held.Load(); other.source == at && n > most {
			c, most = other, n
		}
	}
	return c
}
