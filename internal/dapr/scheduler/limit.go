package scheduler

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limited is a listener that closes connections beyond a limit at once. Sidecars then try another member, or
// again, sooner than if they waited.
type limited struct {
	net.Listener
	most    int
	log     *slog.Logger
	open    atomic.Int64
	refused atomic.Uint64
}

// Accept returns the next connection within the limit. It logs refused connections at most once a second.
func (l *limited) Accept() (net.Conn, error) {
	var told time.Time
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= int64(l.most) {
			return &counted{Conn: conn, open: &l.open}, nil
		}
		l.open.Add(-1)
		conn.Close()
		refused := l.refused.Add(1)
		if now := time.Now(); now.Sub(told) >= time.Second {
			l.log.Warn("connections of Dapr's sidecars are refused: too many are open (setting dapr-connections)", "most",
				l.most, "refused in all", refused)
			told = now
		}
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.open.Add(-1) })
	return err
}
