package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/backoff"
)

// defaultServer is the default address of a server.
const defaultServer = "127.0.0.1:7411"

// patience is how long a call is retried while the server answers that it is starting, that its store is
// away, or that it is busy; unreachable while it does not answer: long enough for a hiccup, short enough for
// a user at a server that does not exist.
const (
	patience    = 5 * time.Second
	unreachable = time.Second
)

// withClient calls do with a client of the server and closes it.
func (a *app) withClient(do func(c *client.Client) error) error {
	a.dialled = a.flags.Server
	a.dialled = cmp.Or(a.dialled, defaultServer)
	o, err := a.dialOptions()
	if err != nil {
		return err
	}
	o.Patience = patience
	o.Dial = []grpc.DialOption{grpc.WithChainUnaryInterceptor(giveUpUnreachable()),
		grpc.WithChainStreamInterceptor(awaitStart)}
	c, err := client.Dial(a.dialled, o)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		return inv
	}
	if err != nil {
		return &usage{text: "server: " + err.Error()}
	}
	defer c.Close()
	a.asked = c
	if key := a.flags.IdempotencyKey; key != "" {
		a.ctx = client.WithIdempotencyKey(a.ctx, key)
	}
	return do(c)
}

// giveUpUnreachable returns an interceptor that ends the retries of calls that reach no server.
func giveUpUnreachable() grpc.UnaryClientInterceptor {
	var since atomic.Pointer[time.Time] // when the first of several failures in a row began
	return func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		began := time.Now()
		err := call(ctx, method, in, out, conn, opts...)
		if status.Code(err) != codes.Unavailable || cameFromServer(err) {
			since.Store(nil)
			return err
		}
		since.CompareAndSwap(nil, &began)
		if first := since.Load(); cureOf(err) != "" || first != nil && time.Since(*first) > unreachable/2 {
			since.Store(nil)
			return client.Permanent(rouse.ErrorOf(rouse.ErrUnavailable.Error(), status.Convert(err).Message()))
		}
		return err
	}
}

// awaitStart is an interceptor that waits for a server that is starting before it opens a stream: the client
// retries calls, not streams.
func awaitStart(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	health := healthv1.NewHealthClient(conn)
	for end := time.Now().Add(patience); ; {
		_, err := health.Check(ctx, &healthv1.HealthCheckRequest{})
		err = rousev1.StatusToError(status.Convert(err))
		again, ok := errors.AsType[*rouse.RetryAfter](err)
		if !ok || !errors.Is(err, rousev1.ErrStarting) || time.Now().Add(again.After).After(end) ||
			!backoff.Sleep(ctx, again.After) {
			return open(ctx, desc, conn, method, opts...)
		}
	}
}

// dialOptions returns the credentials by which the client and the server trust each other.
func (a *app) dialOptions() (client.Options, error) {
	var token string
	var err error
	if a.key != nil {
		token, err = validKey(*a.key)
	} else {
		token, err = a.flags.readToken(a, os.Getenv)
	}
	return client.Options{Token: token, CA: a.flags.CA, Cert: a.flags.ClientCert, Key: a.flags.ClientKey}, err
}

// serverTime returns the time of the last used server's clock; without one, of this machine's.
func (a *app) serverTime() time.Time {
	if a.asked == nil {
		return time.Now()
	}
	return a.asked.Now()
}

// askClock reads how far a development server's clock is ahead if the command line has a time relative to
// now. A server that does not answer is assumed to use the real time.
func (a *app) askClock() {
	if !clocks.asked.Load() {
		return
	}
	_ = a.withClient(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, unreachable)
		defer cancel()
		clock, err := c.Clock(ctx)
		if err == nil && clock.Virtual {
			clocks.ahead.Store(int64(clock.Ahead))
		}
		return err
	})
}

// callServer is withClient for one short call, with the timeout of --timeout.
func (a *app) callServer(do func(ctx context.Context, c *client.Client) error) error {
	return a.withClient(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, a.flags.Timeout)
		defer cancel()
		return do(ctx, c)
	})
}

// notAnswered prints the nodes that are missing in an answer.
func (a *app) notAnswered(nodes []client.StatusNode) {
	for _, n := range nodes {
		if n.Error != "" {
			a.printNote("node %s is missing: %s", orDash(n.ID), n.Error)
		}
	}
}

// eachMatchingTimer calls do for each timer that matches a query. Reading page by page may take arbitrarily
// long.
func (a *app) eachMatchingTimer(q rouse.Query, do func(t *rouse.Timer) error) error {
	return a.withClient(func(s *client.Client) error {
		for t, err := range s.List(a.ctx, q) {
			if err != nil {
				return err
			}
			if err := do(&t); err != nil {
				return err
			}
		}
		return nil
	})
}

// errEnough ends a stream when enough was printed.
var errEnough = errors.New("enough")

// followError returns the error of a command that followed a stream, from how that ended.
func (a *app) followError(err error) error {
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	}
	return err
}

// defaultSecretFile is the secrets file of a server without settings that was started in the same
// directory.
const defaultSecretFile = "rouse-data/webhook.secret"

// daprScheduler is the source of values from these flags, and the app id of Dapr's schedulers.
const daprScheduler = "dapr-scheduler"
