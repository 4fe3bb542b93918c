package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

// newTransport returns HTTP/1.1 with kept-alive connections: at one request a connection it is faster here than HTTP/2's
// multiplexing, and has less for a hostile receiver to play with.
func (s *Sink) newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: s.opts.DialTimeout, Resolver: s.opts.Resolver, ControlContext: s.control}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial the target out of our sight
		DialContext:            dialer.DialContext,
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.opts.RootCAs},
		TLSHandshakeTimeout:    s.opts.TLSTimeout,
		DisableCompression:     true, // nothing is inflated, so nothing explodes
		MaxIdleConns:           s.opts.MaxIdle,
		MaxIdleConnsPerHost:    s.opts.HostConcurrency,
		IdleConnTimeout:        s.opts.IdleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// control is called with the address that the kernel is about to connect to.
func (s *Sink) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return &forbidden{why: "cannot be judged", addr: address}
	}
	if why := fault(at.Addr(), s.opts.AllowPrivate); why != "" {
		return &forbidden{why: why, addr: at.Addr().String()}
	}
	return nil
}

// forbidden says that the target's name led to an address where no request may go.
type forbidden struct{ addr, why string }

func (e *forbidden) Error() string { return "not sent: the address " + e.addr + " " + e.why }
