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
	// probeEvery and probeTimeout are how often a server that does not answer is asked whether it does, and for how long.
	probeEvery   = 200 * time.Millisecond
	probeTimeout = time.Second
)

// guard is the client of one of several servers. While the server does not answer it fails commands at once, so that a claim or a
// commit which concerns all servers does not wait for this one. One loop asks the server until it answers.
type guard struct {
	goredis.UniversalClient

	ctx    context.Context
	stop   context.CancelFunc
	probes sync.WaitGroup

	mu  sync.Mutex
	err error // why the server is away; nil if it is not
}

func newGuard(client goredis.UniversalClient) *guard {
	g := &guard{UniversalClient: client}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// away returns why the server is away, or nil.
func (g *guard) away() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// lost notes that a call had no answer.
func (g *guard) lost(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || g.ctx.Err() != nil {
		return
	}
	g.err = fmt.Errorf("the server did not answer: %w", err)
	g.probes.Go(g.probe)
}

// probe asks until the server answers; an error is an answer, too.
func (g *guard) probe() {
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
	return err != nil && !errors.Is(err, goredis.Nil) && !errors.As(err, &answered) && !errors.Is(err, context.Canceled) && !errors.Is(err, goredis.ErrClosed)
}

// Process runs a command, or fails it at once while the server is away.
func (g *guard) Process(ctx context.Context, cmd goredis.Cmder) error {
	if err := g.away(); err != nil {
		cmd.SetErr(err)
		return err
	}
	err := g.UniversalClient.Process(ctx, cmd)
	if noAnswer(err) {
		g.lost(err)
	}
	return err
}

// Close ends the loop, waits for it, and closes the client.
func (g *guard) Close() error {
	g.stop()
	g.probes.Wait()
	return g.UniversalClient.Close()
}
