package main

import (
	"context"
	"time"

	"github.com/rousehq/rouse/client"
)

// defaultServer is where a server listens that nobody told otherwise.
const defaultServer = "127.0.0.1:7411"

// patience is how long a call is tried again while the server does not answer or is busy: long enough for a hiccup, short
// enough for a person who waits to hear that nothing listens there.
const patience = time.Second

// remote calls do with a client of the server, and closes it afterwards.
func (a *app) remote(do func(c *client.Client) error) error {
	a.dialled = a.cli.Server
	if a.dialled == "" {
		a.dialled = defaultServer
	}
	c, err := client.Dial(a.dialled, client.Options{Patience: patience})
	if err != nil {
		return &usage{text: "server: " + err.Error()}
	}
	defer c.Close()
	a.asked = c
	return do(c)
}

// now returns what the clock of the server shows that was asked last; without one, this machine's.
func (a *app) now() time.Time {
	if a.asked == nil {
		return time.Now()
	}
	return a.asked.Now()
}

// askClock finds out how far a development server's clock is ahead, if the command line has a time that counts from now. A
// server that cannot be asked is taken to go by the real time.
func (a *app) askClock() {
	if !clocks.asked {
		return
	}
	_ = a.remote(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, patience)
		defer cancel()
		clock, err := c.Clock(ctx)
		if err == nil && clock.Virtual {
			clocks.ahead = clock.Ahead
		}
		return err
	})
}

// call is remote for one short call, which has the time of --timeout.
func (a *app) call(do func(ctx context.Context, c *client.Client) error) error {
	return a.remote(func(c *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, a.cli.Timeout)
		defer cancel()
		return do(ctx, c)
	})
}
