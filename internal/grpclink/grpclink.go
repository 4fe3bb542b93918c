// Package grpclink reads the targets of clients, and opens their connections as all of them need it: in plain
// text to this host only, unless it is asked for, and a token never to another host in plain text.
package grpclink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/certs"
)

// Options configure the connections of a client.
type Options struct {
	TLS *tls.Config // nil: the system's authorities, where TLS is used
	// set: TLS with these files, which are read for each connection, so that they can be replaced; not with
	// TLS
	Files    certs.Files
	Insecure bool   // plain text to other hosts, too, unless TLS is set or the target asks for it
	Token    string // sent with each call; "" is none
}

// Address is a target as gRPC takes it.
type Address struct {
	Target   string
	Plain    bool // connections are in plain text
	Explicit bool // because it was asked for, not because the target is on this host
}

// Split returns the targets of a list with commas between. A target of gRPC's own that has commas in it is
// one.
func Split(list string) []string {
	if strings.HasPrefix(list, "ipv4:") || strings.HasPrefix(list, "ipv6:") {
		return []string{list}
	}
	out := strings.Split(list, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// Parse reads a target: "host:port", "http://host:port", "https://host:port", or any target that gRPC knows.
// A host without a port has DefaultPort, or that of its scheme.
func (o Options) Parse(target string) (a Address, err error) {
	switch {
	case target == "":
		return a, rouse.Refuse("address", "", "is missing", "give host:port")
	case !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://"):
		if target, err = completeTarget(target); err != nil {
			return a, err
		}
		plain := !o.wantsTLS() && (o.Insecure || Local(target))
		return Address{target, plain, plain && o.Insecure}, nil
	}
	if strings.Contains(target, "@") {
		return a, refuseUser()
	}
	u, err := url.Parse(target)
	if err != nil {
		return a, rouse.Refuse("address", "", "cannot be read: "+parseFault(err), "give https://host:port")
	}
	switch {
	case u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return a, rouse.Refuse("address", target, "is more than a host and a port, or less", "give a host and a port only")
	case u.Scheme == "http" && o.wantsTLS():
		return a, rouse.Refuse("address", target, "asks for plain text, and certificates or a TLS configuration for TLS",
			"use https://, or give no certificates")
	}
	port := "443"
	if a.Plain = u.Scheme == "http"; a.Plain {
		port = "80"
	}
	if a.Target, err = CompleteHost(u.Host, port); err != nil {
		return a, err
	}
	a.Explicit = a.Plain
	return a, nil
}

// URL returns the address as browsers take it; "" if it is a target of gRPC's own.
func (a Address) URL() string {
	at := strings.TrimPrefix(a.Target, NamesHost)
	if scheme, _, found := strings.Cut(at, ":"); strings.Contains(at, "/") || found && isScheme(scheme) && at == a.Target {
		return ""
	}
	if a.Plain {
		return "http://" + at
	}
	return "https://" + at
}

// parseFault returns why a URL cannot be read, without the URL.
func parseFault(err error) string {
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err
	}
	return err.Error()
}

// refuseUser returns the error of an address with a user in it. It has no part of it, which may be a
// password.
func refuseUser() error {
	return rouse.Refuse("address", "", "has a user or a password in it",
		"give a host and a port only, and a token as the token")
}

// DefaultPort is the port of the API.
const DefaultPort = "7411"

// completeTarget adds the port to a host without one. Targets of gRPC's own stay as they are.
func completeTarget(target string) (string, error) {
	if scheme, _, found := strings.Cut(target, ":"); found && isScheme(scheme) {
		return target, nil
	}
	return CompleteHost(target, DefaultPort)
}

// isScheme reports whether gRPC takes the text before a colon as the scheme of a target.
func isScheme(s string) bool { return resolver.Get(strings.ToLower(s)) != nil }

// NamesHost is before a host and its port in the target of one that gRPC would take for something else. The
// rest is as in a URL.
const NamesHost = "dns:///"

// CompleteHost returns the target of a host with its port, which is the given one if it has none.
func CompleteHost(at, port string) (string, error) {
	if strings.Contains(at, "@") {
		return "", refuseUser()
	}
	host, given := at, port
	inner, bracketed := strings.CutPrefix(at, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
	}
	if bracketed {
		host = inner
	} else if _, err := netip.ParseAddr(at); err != nil && strings.Contains(at, ":") {
		if host, given, err = net.SplitHostPort(at); err != nil {
			return "", refuseHost(at, port)
		}
	}
	if ip, err := netip.ParseAddr(host); err != nil && (strings.HasPrefix(at, "[") || !mayBeName(host)) ||
		strings.ContainsFunc(ip.Zone(), isNoText) {
		return "", refuseHost(at, port)
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
		return "", rouse.Refuse("address", at, "has no valid port", "give a number up to 65535, such as "+port)
	}
	if target := net.JoinHostPort(host, given); !isScheme(host) && !strings.Contains(host, "%") {
		return target, nil
	}
	return NamesHost + net.JoinHostPort(strings.ReplaceAll(host, "%", "%25"), given), nil
}

// refuseHost returns the error of an address that is no host and port.
func refuseHost(at, port string) error {
	return rouse.Refuse("address", at, "is no host and port", "give one such as localhost:"+port)
}

// mayBeName reports whether a text could be the name of a host: whether it has nothing that would end one in
// a URL, or begin something else.
func mayBeName(host string) bool {
	return !strings.ContainsFunc(host, isNoText) && !strings.Contains(host, "%")
}

// isNoText reports whether a character is in no name of a host, and in none of an interface.
func isNoText(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("/\\?#[]<>^`{|}\"", r)
}

// Files returns the files of a client by their names, of which "" is none.
func Files(ca, cert, key string) certs.Files {
	f := certs.Files{CA: ca, Cert: cert, Key: key}
	if f != (certs.Files{}) {
		f.CAName, f.CertName, f.KeyName = "ca", "client-cert", "client-key"
	}
	return f
}

// wantsTLS reports whether TLS was asked for, whatever the target.
func (o Options) wantsTLS() bool { return o.TLS != nil || o.Files != (certs.Files{}) }

// transportCredentials returns the credentials of connections with TLS.
func (o Options) transportCredentials() (credentials.TransportCredentials, error) {
	if o.Files == (certs.Files{}) {
		return credentials.NewTLS(o.TLS.Clone()), nil // a connection changes it; a clone of nil is nil
	}
	if o.TLS != nil {
		return nil, errors.New("certificate files do not go with a TLS configuration: give one of them")
	}
	first, err := o.Files.Client() // wrong files are reported now rather than by a call
	if err != nil {
		return nil, err
	}
	return perConnection{credentials.NewTLS(first), o.Files}, nil
}

// perConnection reads the files of certificates for each connection.
type perConnection struct {
	credentials.TransportCredentials
	files certs.Files
}

// ClientHandshake makes a connection with the current files.
func (p perConnection) ClientHandshake(ctx context.Context, authority string,
	conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	now, err := p.files.Client()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(now).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (p perConnection) Clone() credentials.TransportCredentials {
	return perConnection{p.TransportCredentials.Clone(), p.files}
}

// window bounds the bytes of a stream, or of a connection, that were received and not read yet. It does not
// adapt: to measure how large it should be, gRPC would send a ping for each message, and half of the writes
// of a service with small messages were the answers to these.
const window = 1 << 20

// Connect returns a connection, which its first call makes. When it is lost, it is made again after a pause
// that grows from the first to the longest.
func (o Options) Connect(a Address, first, longest time.Duration, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if !a.Plain {
		var err error
		if transport, err = o.transportCredentials(); err != nil {
			return nil, err
		}
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(diagnosing{transport}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: longest,
			Backoff: backoff.Config{BaseDelay: first, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longest}}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second,
			PermitWithoutStream: true}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
	}
	if o.Token != "" {
		if a.Plain && !Local(a.Target) {
			return nil, errors.New("a token is not sent to another host in plain text: use https")
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	conn, err := grpc.NewClient(a.Target, append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", a.Target, err)
	}
	return conn, nil
}

// Reported reads an address that a service reported of one of its members. It is only an address, never a
// scheme of gRPC's, and it leads to this host only if one of those that the client was given does.
func Reported(address string, given []Address) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.Contains(address, "/") {
		return fmt.Errorf("%q is no host and port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no port", address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%q can be listened on, but not reached: it should advertise an address", address)
	}
	if !Local(address) {
		return nil
	}
	for _, a := range given {
		if Local(a.Target) {
			return nil
		}
	}
	return fmt.Errorf("%q is that host's own name for itself: it should advertise an address that others reach", address)
}

// Local reports whether a gRPC target is on this host.
func Local(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	target = target[strings.LastIndexByte(target, '/')+1:] // dns:///host:port, passthrough:///host:port
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bearer is a token as gRPC takes it. Connect has refused one that would travel to another host in plain
// text.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }
