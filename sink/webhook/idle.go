package webhook

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// idle has the connections that no exchange uses. Its methods may be called concurrently.
type idle struct {
	most, perOrigin int
	timeout         time.Duration

	mu       sync.Mutex
	closed   bool
	byOrigin map[string][]*list.Element // the one used last is at the end
	all      list.List                  // of *conn; the one used last is at the end
	sweeper  *time.Timer                // closes the first of all when its time is over; nil before the first one
}

// takeConn returns a connection to an origin, or nil. The one used last comes first, so that the others can
// end. may allows a request to its address: if not, the connection stays, and so does the time of its end.
// Behind a proxy the address is not known.
func (p *idle) takeConn(origin string, may func(netip.Addr) error) (*conn, error) {
	for {
		p.mu.Lock()
		list := p.byOrigin[origin]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil, nil
		}
		last := list[len(list)-1]
		if at := last.Value.(*conn).addr; at.IsValid() {
			if err := may(at); err != nil {
				p.mu.Unlock()
				return nil, err
			}
		}
		c := p.removeConn(last)
		p.mu.Unlock()
		if time.Now().Before(c.until) && !c.isStale() {
			return c, nil
		}
		_ = c.Close()
	}
}

// removeConn takes a connection out. The mutex is held.
func (p *idle) removeConn(e *list.Element) *conn {
	c := p.all.Remove(e).(*conn)
	list := p.byOrigin[c.origin]
	i := slices.Index(list, e)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(p.byOrigin, c.origin)
	} else {
		p.byOrigin[c.origin] = list
	}
	return c
}

// putConn keeps a connection. If there are too many, the one that was idle longest is closed.
func (p *idle) putConn(c *conn) {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return
	}
	if list := p.byOrigin[c.origin]; len(list) == p.perOrigin {
		_ = p.removeConn(list[0]).Close()
	} else if p.all.Len() == p.most {
		_ = p.removeConn(p.all.Front()).Close()
	}
	if p.all.Len() == 0 {
		if p.sweeper == nil {
			p.sweeper = time.AfterFunc(p.timeout, p.sweepIdle)
		} else {
			p.sweeper.Reset(p.timeout)
		}
	}
	if p.byOrigin == nil {
		p.byOrigin = map[string][]*list.Element{}
	}
	p.byOrigin[c.origin] = append(p.byOrigin[c.origin], p.all.PushBack(c))
}

// sweepIdle closes the connections that were idle for too long.
func (p *idle) sweepIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.all.Front(); e != nil; e = p.all.Front() {
		if left := p.timeout - time.Since(e.Value.(*conn).since); left > 0 {
			p.sweeper.Reset(left)
			return
		}
		_ = p.removeConn(e).Close()
	}
}

// closeIdle closes all connections.
func (p *idle) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.all.Front(); e != nil; e = p.all.Front() {
		_ = p.removeConn(e).Close()
	}
}

// closePool closes all connections, and those that are put later.
func (p *idle) closePool() {
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.mu.Unlock()
	p.closeIdle()
}
