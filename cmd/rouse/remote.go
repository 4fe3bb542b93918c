package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
)

// defaultServer is the default address of a server.
const defaultServer = "127.0.0.1:7411"

// patience is how long a call is retried while the server is unavailable or busy: long enough for a hiccup,
// short enough for a user who waits to learn that there is no server.
const patience = time.Second

// remote calls do with a client of the server and closes it.
func (a *app) remote(do func(c *client.Client) error) error {
	a.dialled = a.cli.Server
	a.dialled = cmp.Or(a.dialled, defaultServer)
	o, err := a.options()
	if err != nil {
		return err
	}
	o.Patience = patience
	c, err := client.Dial(a.dialled, o)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		return inv
	}
	if err != nil {
		return &usage{text: "server: " + err.Error()}
	}
	defer c.Close()
	a.asked = c
	if key := a.cli.IdempotencyKey; key != "" {
		a.ctx = client.WithIdempotencyKey(a.ctx, key)
	}
	return do(c)
}

// options returns by what the client and the server trust each other.
func (a *app) options() (client.Options, error) {
	var token string
	var err error
	if a.key != nil {
		token, err = validKey(*a.key)
	} else {
		token, err = a.cli.token(a, os.Getenv)
	}
	return client.Options{Token: token, CA: a.cli.CA, Cert: a.cli.ClientCert, Key: a.cli.ClientKey}, err
}

// now returns the time of the last used server's clock; without one, of this machine's.
func (a *app) now() time.Time {
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
	_ = a.remote(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, patience)
		defer cancel()
		clock, err := c.Clock(ctx)
		if err == nil && clock.Virtual {
			clocks.ahead.Store(int64(clock.Ahead))
		}
		return err
	})
}

// call is remote for one short call, with the timeout of --timeout.
func (a *app) call(do func(ctx context.Context, c *client.Client) error) error {
	return a.remote(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, a.cli.Timeout)
		defer cancel()
		return do(ctx, c)
	})
}
