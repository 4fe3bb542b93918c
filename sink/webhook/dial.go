package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

// newTransport returns a transport for HTTP/1.1 with keep-alive. With one request per connection it is
// faster here than HTTP/2's multiplexing, and offers a hostile receiver less to abuse.
func (s *Sink) newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: s.opts.DialTimeout, Resolver: s.opts.Resolver, ControlContext: s.control}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial the target beyond our checks
		DialContext:            dialer.DialContext,
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.opts.RootCAs},
		TLSHandshakeTimeout:    s.opts.TLSTimeout,
		DisableCompression:     true, // no decompression bombs
		MaxIdleConns:           s.opts.MaxIdle,
		MaxIdleConnsPerHost:    s.opts.HostConcurrency,
		IdleConnTimeout:        s.opts.IdleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// control is called with the address to which the kernel will connect.
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

// forbidden is the error of a target whose name resolved to a forbidden address.
type forbidden struct{ addr, why string }

func (e *forbidden) Error() string { return "not sent: the address " + e.addr + " " + e.why }
