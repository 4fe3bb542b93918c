package cli

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

// DefaultServer is the default address of a server.
const DefaultServer = "127.0.0.1:7411"

// patience is how long a call is retried while the server answers that it is starting, that its store is
// away, or that it is busy; unreachable while it does not answer: long enough for a hiccup, short enough for
// a user at a server that does not exist.
const (
	patience    = 5 * time.Second
	Unreachable = time.Second
)

// WithClient calls do with a client of the server and closes it.
func (a *App) WithClient(do func(c *client.Client) error) error {
	a.Dialled = a.Flags.Server
	a.Dialled = cmp.Or(a.Dialled, DefaultServer)
	o, err := a.DialOptions()
	if err != nil {
		return err
	}
	o.Patience = patience
	o.Dial = []grpc.DialOption{grpc.WithChainUnaryInterceptor(giveUpUnreachable()),
		grpc.WithChainStreamInterceptor(awaitStart)}
	c, err := client.Dial(a.Dialled, o)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		return inv
	}
	if err != nil {
		return &Usage{Text: "server: " + err.Error()}
	}
	defer c.Close()
	a.asked = c
	if key := a.Flags.IdempotencyKey; key != "" {
		a.Ctx = client.WithIdempotencyKey(a.Ctx, key)
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
		if first := since.Load(); cureOf(err) != "" || first != nil && time.Since(*first) > Unreachable/2 {
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

// DialOptions returns the credentials by which the client and the server trust each other.
func (a *App) DialOptions() (client.Options, error) {
	var token string
	err := a.profileErr
	if err != nil {
		return client.Options{}, err
	}
	if a.Key != nil {
		token, err = validKey(*a.Key)
	} else {
		token, err = a.Flags.ReadToken(a, os.Getenv)
	}
	return client.Options{Token: token, CA: a.Flags.CA, Cert: a.Flags.ClientCert, Key: a.Flags.ClientKey}, err
}

// ServerTime returns the time of the last used server's clock; without one, of this machine's.
func (a *App) ServerTime() time.Time {
	if a.asked == nil {
		return time.Now()
	}
	return a.asked.Now()
}

// AskClock reads how far a development server's clock is ahead if the command line has a time relative to
// now. A server that does not answer is assumed to use the real time.
func (a *App) AskClock() {
	if !clocks.asked.Load() {
		return
	}
	_ = a.WithClient(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.Ctx, Unreachable)
		defer cancel()
		clock, err := c.Clock(ctx)
		if err == nil && clock.Virtual {
			clocks.ahead.Store(int64(clock.Ahead))
		}
		return err
	})
}

// CallServer is WithClient for one short call, with the timeout of --timeout.
func (a *App) CallServer(do func(ctx context.Context, c *client.Client) error) error {
	return a.WithClient(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
		defer cancel()
		return do(ctx, c)
	})
}

// NotAnswered prints the nodes that are missing in an answer.
func (a *App) NotAnswered(nodes []client.StatusNode) {
	for _, n := range nodes {
		if n.Error != "" {
			a.PrintNote("node %s is missing: %s", OrDash(n.ID), n.Error)
		}
	}
}

// EachMatchingTimer calls do for each timer that matches a query. Reading page by page may take arbitrarily
// long.
func (a *App) EachMatchingTimer(q rouse.Query, do func(t *rouse.Timer) error) error {
	return a.WithClient(func(s *client.Client) error {
		for t, err := range s.List(a.Ctx, q) {
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

// ErrEnough ends a stream when enough was printed.
var ErrEnough = errors.New("enough")

// FollowError returns the error of a command that followed a stream, from how that ended.
func (a *App) FollowError(err error) error {
	switch {
	case errors.Is(err, ErrEnough):
		return nil
	case err == nil && a.Ctx.Err() != nil:
		return context.Cause(a.Ctx)
	}
	return err
}

// DefaultSecretFile is the secrets file of a server without settings that was started in the same
// directory.
const DefaultSecretFile = "rouse-data/webhook.secret"

// DaprScheduler is the source of values from these flags, and the app id of Dapr's schedulers.
const DaprScheduler = "dapr-scheduler"
