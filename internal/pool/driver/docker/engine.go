package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// engine is a Docker Engine, every call of which ends in bounded time.
type engine struct {
	api     *client.Client
	host    string
	timeout time.Duration
	agreed  chan bool // has one value: whether the version of the API is agreed on
}

func newEngine(host string, timeout time.Duration) (*engine, error) {
	api, err := client.New(client.WithTLSClientConfigFromEnv(), client.WithHost(host), client.WithAPIVersionFromEnv(), client.WithUserAgent("rouse"))
	if err != nil {
		return nil, fmt.Errorf("the Docker Engine at %s: %w", host, err)
	}
	e := &engine{api: api, host: host, timeout: timeout, agreed: make(chan bool, 1)}
	e.agreed <- false
	return e, nil
}

// call makes a call; what says in the error what could not be done.
func (e *engine) call(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	err := e.agree(limited)
	if err == nil {
		err = f(limited)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(limited.Err(), context.DeadlineExceeded): // its own time, or the caller's
		return fmt.Errorf("%s: the Docker Engine at %s has not answered for %v", what, e.host, time.Since(began).Round(time.Millisecond))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// agree agrees with the engine on a version of the API. The library does so by itself, but not if calls are made at the same time.
func (e *engine) agree(ctx context.Context) error {
	select {
	case is := <-e.agreed:
		var err error
		if !is {
			_, err = e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		}
		e.agreed <- err == nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *engine) close() error { return e.api.Close() }

// settled says of an error of what changes a container that it is as it should be: it is gone already, or about to be, or has ended.
func settled(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsConflict(err) }

// errPulling says that a container cannot be made yet.
var errPulling = errors.New("the image is being pulled")
