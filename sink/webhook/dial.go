package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
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
	p := place{origin: origin(target), path: "/"}
	p.authority = target[strings.Index(target, "://")+3:]
	if i := strings.IndexAny(p.authority, "/?"); i >= 0 {
		if p.path = p.authority[i:]; p.path[0] == '?' {
			p.path = "/" + p.path
		}
		p.authority = p.authority[:i]
	}
	return p
}

// address returns what to dial: host and port.
func (p place) address() (host, port string) {
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

// dial opens a connection for HTTP/1.1. With one request at a time on a connection it is faster here than HTTP/2's multiplexing, and
// offers a hostile receiver less to abuse. No proxy is used: it would dial the target beyond our checks.
func (s *Sink) dial(ctx context.Context, p place, deadline time.Time) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	host, port := p.address()
	dialer := net.Dialer{Timeout: s.opts.DialTimeout, Resolver: s.opts.Resolver, ControlContext: s.control}
	tcp, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	raw, err := tcp.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	if !strings.HasPrefix(p.origin, "https:") {
		return newConn(p.origin, tcp, raw), nil
	}
	secure := tls.Client(tcp, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.opts.RootCAs, ServerName: host, NextProtos: []string{"http/1.1"}})
	ctx, cancel = context.WithTimeoutCause(ctx, s.opts.TLSTimeout, errHandshake)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		if context.Cause(ctx) == errHandshake { //nolint:errorlint // exactly this value
			err = errHandshake
		}
		return nil, errors.Join(err, tcp.Close())
	}
	return newConn(p.origin, secure, raw), nil
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
