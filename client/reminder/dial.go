package reminder

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
)

// seed is an address that Open was given.
type seed struct {
	address  string
	plain    bool // talked to in plain text
	explicit bool // because the caller asked for it, not because it is on this host
}

// seedsOf reads a target of Open.
func seedsOf(target string, o Options) (list []seed, err error) {
	targets := strings.Split(target, ",")
	if strings.HasPrefix(target, "ipv4:") || strings.HasPrefix(target, "ipv6:") { // gRPC's own, which have commas in them
		targets = []string{target}
	}
	for _, one := range targets {
		one = strings.TrimSpace(one)
		address, plain, err := address(one, o)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(s seed) bool { return s.address == address }) {
			list = append(list, seed{address, plain, plain && (o.Insecure || strings.HasPrefix(one, "http://"))})
		}
	}
	return list, nil
}

// reconnect is how a connection that is lost is made again; links have a pause of their own.
var reconnect = grpc.ConnectParams{MinConnectTimeout: 5 * time.Second,
	Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}}

// connect returns a connection, which its first call makes.
func connect(address string, plain bool, o Options) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if !plain {
		transport = credentials.NewTLS(cloned(o.TLS))
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithStatsHandler(departures{}),
	}
	if o.Token != "" {
		if plain && !local(address) {
			return nil, errors.New("reminder: a token is not sent to another host in plain text: use https")
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	conn, err := grpc.NewClient(address, append(opts, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

func cloned(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	return c.Clone()
}

// address returns the gRPC target of a target, and whether it is talked to in plain text.
func address(target string, o Options) (address string, plain bool, err error) {
	if target == "" {
		return "", false, errors.New("reminder: an address is missing: give host:port")
	}
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		return target, o.TLS == nil && (o.Insecure || local(target)), nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return "", false, fmt.Errorf("dial: %w", err)
	}
	if u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", false, fmt.Errorf("dial %q: want a host and a port only", u.Redacted())
	}
	address = u.Host
	if u.Port() == "" {
		port := "443"
		if u.Scheme == "http" {
			port = "80"
		}
		address = net.JoinHostPort(u.Hostname(), port)
	}
	return address, o.TLS == nil && u.Scheme == "http", nil
}

// local reports whether a gRPC target is on this host.
func local(target string) bool {
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

// learnedAddress returns how to connect to an instance at an address that the service reported. A reported
// address is only an address, never a scheme of gRPC's, and never weakens what the caller asked for: with
// TLS, instances are reached over TLS, and a remote instance cannot send the client to this host.
func (c *Client) learnedAddress(told string) (plain bool, err error) {
	host, port, err := net.SplitHostPort(told)
	if err != nil || strings.Contains(told, "/") {
		return false, fmt.Errorf("%q is no host and port", told)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false, fmt.Errorf("%q has no port", told)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return false, fmt.Errorf("%q can be listened on, but not reached: the instance should advertise an address", told)
	}
	if local(told) && !slices.ContainsFunc(c.seeds, func(s seed) bool { return local(s.address) }) {
		return false, fmt.Errorf("%q is the instance's own host for itself: it should advertise an address that others reach", told)
	}
	_, plain, err = address(told, c.o)
	return plain || c.o.TLS == nil && slices.ContainsFunc(c.seeds, func(s seed) bool { return s.explicit }), err
}

// bearer is a token as gRPC asks for it. That it does not travel in plain text, connect saw to.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// departure is true once a call has left this process: only then can it have had an effect.
type departure struct{ atomic.Bool }

type departureKey struct{}

// departures notes the departures of calls.
type departures struct{}

func (departures) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (departures) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (departures) HandleConn(context.Context, stats.ConnStats)                       {}

func (departures) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); ok {
		if d, ok := ctx.Value(departureKey{}).(*departure); ok {
			d.Store(true)
		}
	}
}
