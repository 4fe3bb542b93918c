package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// probeEvery is the interval of probes of a server that does not answer, probeTimeout the timeout of one
	// probe.
	probeEvery   = 200 * time.Millisecond
	probeTimeout = time.Second
)

// guard is the client of one of several servers. While the server does not answer, the guard fails commands
// immediately, so that a claim or a commit that involves all servers does not wait for this one. One
// goroutine probes the server until it answers.
type guard struct {
	goredis.UniversalClient

	ctx    context.Context
	stop   context.CancelFunc
	probes sync.WaitGroup

	mu  sync.Mutex
	err error // why the server is unavailable, else nil
}

func newGuard(client goredis.UniversalClient) *guard {
	g := &guard{UniversalClient: client}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// outageError returns why the server is unavailable, or nil.
func (g *guard) outageError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// recordOutage records that a call got no answer.
func (g *guard) recordOutage(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || g.ctx.Err() != nil {
		return
	}
	g.err = fmt.Errorf("the server did not answer: %w", err)
	g.probes.Go(g.probeUntilBack)
}

// probeUntilBack sends probes until the server answers; an error counts as an answer.
func (g *guard) probeUntilBack() {
	for {
		ctx, cancel := context.WithTimeout(g.ctx, probeTimeout)
		err := g.Ping(ctx).Err()
		cancel()
		if g.ctx.Err() != nil {
			return
		}
		if !noAnswer(err) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.err = nil
			return
		}
		select {
		case <-g.ctx.Done():
			return
		case <-time.After(probeEvery):
		}
	}
}

// noAnswer reports whether an error means that the server did not answer.
func noAnswer(err error) bool {
	var answered goredis.Error
	return err != nil && !errors.Is(err, goredis.Nil) && !errors.As(err, &answered) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, goredis.ErrClosed)
}

// Process runs a command. While the server is unavailable, it returns an error immediately.
func (g *guard) Process(ctx context.Context, cmd goredis.Cmder) error {
	if err := g.outageError(); err != nil {
		cmd.SetErr(err)
		return err
	}
	err := g.UniversalClient.Process(ctx, cmd)
	if noAnswer(err) {
		g.recordOutage(err)
	}
	return err
}

// Pipelined runs commands in one round trip. While the server is unavailable, it returns an error
// immediately.
func (g *guard) Pipelined(ctx context.Context, fn func(goredis.Pipeliner) error) ([]goredis.Cmder, error) {
	if err := g.outageError(); err != nil {
		return nil, err
	}
	cmds, err := g.UniversalClient.Pipelined(ctx, fn)
	if noAnswer(err) {
		g.recordOutage(err)
	}
	return cmds, err
}

// Close stops the probes, waits for them, and closes the client.
func (g *guard) Close() error {
	g.stop()
	g.probes.Wait()
	return g.UniversalClient.Close()
}
