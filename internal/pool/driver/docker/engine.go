package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// engine is a Docker Engine. Each call has a timeout.
type engine struct {
	api     *client.Client
	host    string
	timeout time.Duration
	agreed  chan bool // has one value: whether the API version is negotiated
}

func newEngine(host string, timeout time.Duration) (*engine, error) {
	api, err := client.New(client.WithTLSClientConfigFromEnv(), client.WithHost(host), client.WithAPIVersionFromEnv(),
		client.WithUserAgent("rouse"))
	if err != nil {
		return nil, fmt.Errorf("the Docker Engine at %s: %w", host, err)
	}
	e := &engine{api: api, host: host, timeout: timeout, agreed: make(chan bool, 1)}
	e.agreed <- false
	return e, nil
}

// callEngine makes a call; what describes it in errors.
func (e *engine) callEngine(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	err := e.negotiateVersion(limited)
	if err == nil {
		err = f(limited)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(limited.Err(), context.DeadlineExceeded): // the call's timeout, or the caller's
		return fmt.Errorf("%s: the Docker Engine at %s has not answered for %v", what, e.host,
			time.Since(began).Round(time.Millisecond))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// negotiateVersion negotiates the API version. The library does so by itself, but not safely for concurrent
// calls.
func (e *engine) negotiateVersion(ctx context.Context) error {
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

func (e *engine) closeClient() error { return e.api.Close() }

// alreadyDone reports whether the error of a change means that the container already is as it should be:
// removed, being removed, or ended.
func alreadyDone(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsConflict(err) }

// errPulling means that a container cannot be created yet.
var errPulling = errors.New("the image is being pulled")
