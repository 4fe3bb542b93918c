package api

import (
	"net"
	"sync"
)

// unreached is the listener of an API without clients: that of a node which serves metrics and health only.
type unreached struct {
	once   sync.Once
	closed chan struct{}
}

func newUnreached() *unreached { return &unreached{closed: make(chan struct{})} }

// Accept waits until the listener is closed.
func (u *unreached) Accept() (net.Conn, error) {
	<-u.closed
	return nil, net.ErrClosed
}

// Close ends Accept.
func (u *unreached) Close() error {
	u.once.Do(func() { close(u.closed) })
	return nil
}

// Addr is no place.
func (u *unreached) Addr() net.Addr { return &net.UnixAddr{Name: "unreached", Net: "none"} }
