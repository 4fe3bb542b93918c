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
// A call that is safe to repeat is retried with backoff while the service is unavailable or overloaded, until
// ctx ends, and for at most Options.Patience. The comments of methods state which do so. For the others the
// caller decides, because only the caller knows the consequences of an unknown outcome.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/grpclink"
)

// Options tune a client. Zero fields have the defaults that their comments name.
type Options struct {
	TLS      *tls.Config // set: TLS with this configuration; with it and with files, http:// is refused
	Insecure bool        // no TLS to other hosts; an http:// target means the same
	CA       string      // set: TLS, and this PEM file has the authorities of the service's certificate, not the system
	Cert     string      // set: TLS, and this PEM file has the certificate of this client
	Key      string      // its private key, in PEM; the three files are read for each connection, and do not go with TLS
	// the text of an API key, sent with every call as a bearer token; to another host only under TLS
	Token    string
	Patience time.Duration // how long a call is tried again; default 30 s
	// how long one try of a call that is no stream may take if its ctx has no deadline; default no bound
	Timeout time.Duration

	Dial []grpc.DialOption // further options of gRPC
}

// Client is safe for concurrent use.
type Client struct {
	nodes      ring // of the addresses that Dial was given
	timers     rousev1.TimersClient
	calendars  rousev1.CalendarsClient
	jobs       rousev1.JobsClient
	secrets    rousev1.SecretsClient
	fires      rousev1.FiresClient
	admin      rousev1.AdminClient
	calls      rousev1.CallsClient
	access     rousev1.AccessClient
	namespaces rousev1.NamespacesClient
	limits     rousev1.LimitsClient
	status     rousev1.StatusClient
	opts       Options
	ahead      atomic.Int64 // how far the service's clock is ahead of this machine's, in nanoseconds

	mu    sync.Mutex
	peers map[string]*peer // connections to other nodes, by address
}

// Dial returns a client of the service at a target: "host:port", "http://host:port", "https://host:port", or
// any target that gRPC knows, such as "unix:/run/rouse.sock"; or several of them, of nodes of one service,
// with commas between. Without a scheme, the port is 7411 by default, and connections to this host are in
// plain text, others use TLS. The connection is made by the first call, and restored whenever it is lost.
func Dial(target string, o Options) (*Client, error) {
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	c := &Client{peers: map[string]*peer{}}
	o.Dial = append(slices.Clip(o.Dial), grpc.WithChainUnaryInterceptor(c.recordClock))
	c.opts = o
	for _, one := range grpclink.Split(target) {
		a, err := o.linkOptions().Parse(one)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if slices.ContainsFunc(c.nodes.members, func(m member) bool { return m.Target == a.Target }) {
			continue
		}
		conn, err := newConnection(a, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.nodes.members = append(c.nodes.members, member{a, conn})
	}
	c.timers, c.calendars = rousev1.NewTimersClient(&c.nodes), rousev1.NewCalendarsClient(&c.nodes)
	c.jobs, c.secrets = rousev1.NewJobsClient(&c.nodes), rousev1.NewSecretsClient(&c.nodes)
	c.fires, c.admin = rousev1.NewFiresClient(&c.nodes), rousev1.NewAdminClient(&c.nodes)
	c.calls, c.access = rousev1.NewCallsClient(&c.nodes), rousev1.NewAccessClient(&c.nodes)
	c.namespaces, c.status = rousev1.NewNamespacesClient(&c.nodes), rousev1.NewStatusClient(&c.nodes)
	c.limits = rousev1.NewLimitsClient(&c.nodes)
	return c, nil
}

// linkOptions returns the options of connections.
func (o *Options) linkOptions() grpclink.Options {
	return grpclink.Options{TLS: o.TLS, Files: grpclink.Files(o.CA, o.Cert, o.Key), Insecure: o.Insecure, Token: o.Token}
}

// usesTLS reports whether TLS is used for any form of target.
func (o *Options) usesTLS() bool { return o.TLS != nil || o.CA != "" || o.Cert != "" }

// newConnection returns a connection, which its first call makes.
func newConnection(a grpclink.Address, o Options) (*grpc.ClientConn, error) {
	opts := []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive))}
	if o.Timeout > 0 {
		opts = append(opts, grpc.WithChainUnaryInterceptor(timeoutInterceptor(o.Timeout)))
	}
	return o.linkOptions().Connect(a, 200*time.Millisecond, 10*time.Second, append(opts, o.Dial...)...)
}

// timeoutInterceptor gives calls that have no deadline one of their own.
func timeoutInterceptor(d time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
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
