// Package client calls a rouse server: it creates, reads and changes timers, and receives their fires. Use
// it in programs that do not embed a node themselves (package node).
//
//	c, err := client.Dial("127.0.0.1:7411", client.Options{})
//	t, err := c.Create(ctx, "default", "", rouse.Spec{Schedule: "@after 90s", Target: "stream:mail", Payload: body})
//	err = c.Subscribe(ctx, client.SubscribeOptions{Channel: "mail"}, func(ctx context.Context, f client.Fire) error { … })
//
// Errors are those of package rouse: errors.Is finds rouse.ErrNotFound, ErrExists, ErrConflict and others
// in them, errors.As finds a *rouse.Invalid with each problem of an input, and a *rouse.RetryAfter if the
// server returned a delay for a retry. status.FromError of gRPC finds the original status.
//
// If the service has several nodes, Subscribe needs the address of only one: it learns the addresses of the
// others, and receives the fires of all. Calls use the addresses of Dial in turn, and skip those that
// cannot be reached.
//
// A call that is safe to repeat is retried with backoff while the service is unavailable or overloaded,
// until ctx ends, and for at most Options.Patience. The comments of methods state which do so. For the
// others the caller decides, because only the caller knows what an unknown outcome means.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Options tune a client. Zero fields have the defaults that their comments name.
type Options struct {
	TLS      *tls.Config   // set: TLS with this configuration, for any form of target
	Insecure bool          // no TLS to other hosts; an http:// target means the same
	Token    string        // sent with every call as a bearer token; to another host only under TLS
	Patience time.Duration // how long a call is tried again; default 30 s
	Timeout  time.Duration // how long one try of a call that is no stream may take if its ctx has no deadline; default no bound

	Dial []grpc.DialOption // what else gRPC offers
}

// Client is safe for concurrent use.
type Client struct {
	nodes     ring // of the addresses that Dial was given
	timers    rousev1.TimersClient
	calendars rousev1.CalendarsClient
	fires     rousev1.FiresClient
	admin     rousev1.AdminClient
	calls     rousev1.CallsClient
	opts      Options
	ahead     atomic.Int64 // how far the service's clock is ahead of this machine's, in nanoseconds

	mu    sync.Mutex
	peers map[string]*peer // connections to other nodes, by address
}

// Dial returns a client of the service at a target: "host:port", "http://host:port", "https://host:port", or
// any target that gRPC knows, such as "unix:/run/rouse.sock"; or several of them, of nodes of one service,
// with commas between. Without a scheme, connections to this host are in plain text, others use TLS. The
// connection is made by the first call, and restored whenever it is lost.
func Dial(target string, o Options) (*Client, error) {
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	c := &Client{peers: map[string]*peer{}}
	o.Dial = append(slices.Clip(o.Dial), grpc.WithChainUnaryInterceptor(c.hear))
	c.opts = o
	for _, one := range targets(target) {
		address, plain, err := address(one, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if slices.ContainsFunc(c.nodes.members, func(m member) bool { return m.address == address }) {
			continue
		}
		conn, err := connect(address, plain, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.nodes.members = append(c.nodes.members, member{address: address, plain: plain, explicit: plain && (o.Insecure || strings.HasPrefix(one, "http://")), conn: conn})
	}
	c.timers, c.calendars = rousev1.NewTimersClient(&c.nodes), rousev1.NewCalendarsClient(&c.nodes)
	c.fires, c.admin = rousev1.NewFiresClient(&c.nodes), rousev1.NewAdminClient(&c.nodes)
	c.calls = rousev1.NewCallsClient(&c.nodes)
	return c, nil
}

// targets returns the targets of a list. A target of gRPC's own that has commas in it is one.
func targets(list string) []string {
	if strings.HasPrefix(list, "ipv4:") || strings.HasPrefix(list, "ipv6:") {
		return []string{list}
	}
	out := strings.Split(list, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// reconnect is how a connection that is lost is made again.
var reconnect = grpc.ConnectParams{MinConnectTimeout: 10 * time.Second,
	Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second}}

// connect returns a connection, which its first call makes.
func connect(address string, plain bool, o Options) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if !plain {
		transport = credentials.NewTLS(o.TLS)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive)),
	}
	if o.Timeout > 0 {
		opts = append(opts, grpc.WithChainUnaryInterceptor(bounded(o.Timeout)))
	}
	if o.Token != "" {
		if plain && !local(address) {
			return nil, errors.New("a token is not sent to another host in plain text: use https")
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	conn, err := grpc.NewClient(address, append(opts, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

// bounded gives calls that have no deadline one of their own.
func bounded(d time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, d)
			defer cancel()
		}
		return call(ctx, method, request, reply, conn, opts...)
	}
}

// maxReceive bounds a response: a page of timers with large payloads.
const maxReceive = 64 << 20

// Close ends all calls and closes the connections.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, m := range c.nodes.members {
		errs = append(errs, m.conn.Close())
	}
	for _, p := range c.peers {
		errs = append(errs, p.conn.Close())
	}
	clear(c.peers)
	return errors.Join(errs...)
}

// address returns the gRPC target of a target, and whether connections to it are in plain text.
func address(target string, o Options) (address string, plain bool, err error) {
	plain = o.TLS == nil && (o.Insecure || local(target))
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		return target, plain, nil
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
	if i := strings.LastIndexByte(target, '/'); i >= 0 { // dns:///host:port, passthrough:///host:port
		target = target[i+1:]
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// bearer is a token as gRPC asks for it. That it does not travel in plain text, Dial saw to.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }
