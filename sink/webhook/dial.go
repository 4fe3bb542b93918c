package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// place is a target in its parts.
type place struct {
	origin    string // scheme, host and port
	authority string // host and port as the target has them
	path      string // with the query
}

// placeOf cuts a target that passed Check. It runs for every fire, so it does not parse.
func placeOf(target string) place {
	p := place{origin: originOf(target), path: "/"}
	p.authority = target[strings.Index(target, "://")+3:]
	if i := strings.IndexAny(p.authority, "/?"); i >= 0 {
		if p.path = p.authority[i:]; p.path[0] == '?' {
			p.path = "/" + p.path
		}
		p.authority = p.authority[:i]
	}
	return p
}

// hostAndPort returns the host and port to dial.
func (p place) hostAndPort() (host, port string) {
	scheme, authority, _ := strings.Cut(p.origin, "://")
	if host, port, err := net.SplitHostPort(authority); err == nil {
		return host, port
	}
	if port = "80"; scheme == "https" {
		port = "443"
	}
	return strings.Trim(authority, "[]"), port
}

var errHandshake = errors.New("TLS handshake timeout")

// dialReceiver opens a connection for HTTP/1.1. With one request at a time on a connection it is faster here
// than HTTP/2's multiplexing, and offers a hostile receiver less to abuse. A name is resolved once, and each
// of its addresses is judged when it is tried. Proxies of the environment are not used: they would dial the
// target beyond our checks.
func (s *Sink) dialReceiver(ctx context.Context, r *request, at *claim, kept string,
	deadline time.Time) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	p := r.place
	host, port := p.hostAndPort()
	tcp, err := s.openTCP(ctx, at, host, port)
	if err != nil {
		return nil, err
	}
	raw, err := tcp.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	var addr netip.Addr
	if s.opts.Proxy == nil {
		addr = tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	}
	oldest := time.Now().Add(s.opts.MaxAge)
	if !strings.HasPrefix(p.origin, "https:") {
		return newConn(kept, tcp, raw, addr, oldest), nil
	}
	under := &records{Conn: tcp}
	secure := tls.Client(under, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.opts.RootCAs, ServerName: host,
		NextProtos: []string{"http/1.1"}})
	ctx, cancel = context.WithTimeoutCause(ctx, s.opts.TLSTimeout, errHandshake)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		if context.Cause(ctx) == errHandshake { //nolint:errorlint // exactly this value
			err = errHandshake
		}
		return nil, errors.Join(err, tcp.Close())
	}
	c := newConn(kept, secure, raw, addr, oldest)
	c.under = under
	return c, nil
}

// openTCP opens a TCP connection to a target, or through the proxy of the options. With a proxy only names,
// ports and literal addresses can be judged: it is the proxy that resolves names.
func (s *Sink) openTCP(ctx context.Context, claim *claim, host, port string) (net.Conn, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, &forbidden{why: "cannot be judged", target: "the port " + port}
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.DialTimeout)
	defer cancel()
	dialer := net.Dialer{Resolver: s.opts.Resolver}
	if s.opts.Proxy == nil {
		var open atomic.Pointer[netip.Addr] // an address of those that may get the request
		// It is called with the address to which the kernel will connect.
		dialer.ControlContext = func(_ context.Context, network, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" { // not known to happen: an unparsed address must not pass
				return &forbidden{why: "cannot be judged", target: "the address " + address}
			}
			if at.Addr().Zone() != "" {
				return &forbidden{why: "is link-local", target: "the address " + address}
			}
			addr := at.Addr()
			if err := s.checkEgress(claim.namespace, host, uint16(n), addr, false); err != nil {
				return err
			}
			open.Store(&addr)
			return claim.claimPlace(addr)
		}
		tcp, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		// The error is that of the first address. If that is forbidden, one that may get the request decides.
		if addr := open.Load(); addr != nil && errors.As(err, new(*forbidden)) {
			tcp, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(*addr, uint16(n)).String())
		}
		return tcp, claim.crowdedOr(err)
	}
	addr, _ := netip.ParseAddr(host)
	if err := s.checkEgress(claim.namespace, host, uint16(n), addr, false); err != nil {
		return nil, err
	}
	// a name that leads to the proxy's own machine
	if _, wrong, _ := s.targetFault("http://" + net.JoinHostPort(host, port)); wrong != "" {
		return nil, &forbidden{why: wrong, target: host}
	}
	tcp, err := dialer.DialContext(ctx, "tcp", s.opts.Proxy.Host)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if err := s.openTunnel(ctx, tcp, host, port); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return tcp, nil
}

// forbidden is the error of a target that must not get a request.
type forbidden struct{ target, why string }

func (e *forbidden) Error() string { return "not sent: " + e.target + " " + e.why }
