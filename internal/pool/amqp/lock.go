package amqp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// lock waits until this process has the pool's lock, an exclusive queue, which it has for as long as the connection lives. The
// broker gives it to another one within milliseconds of the connection's end.
func (c *Controller) lock(ctx context.Context, conn *amqplink.Conn) error {
	var since time.Time // when it was first seen that another process leads
	released := false
	var asked time.Time // when it was asked which one
	for {
		ch, err := conn.OpenChannel(ctx)
		if err != nil {
			return err
		}
		err = func() error {
			defer conn.Limit(ctx)()
			_, err := ch.QueueDeclare(c.names.lock(), false, false, true, false, amqp091.Table{leaderArgument: self()})
			return err
		}()
		if err == nil {
			return nil // the channel stays open, as nothing is gained by closing it
		}
		var answer *amqp091.Error
		if !errors.As(err, &answer) || answer.Code != amqp091.ResourceLocked {
			return fmt.Errorf("take the lock of the pool: %w", err)
		}
		if since.IsZero() {
			since = time.Now()
			c.enter(pool.StateStandingBy)
			c.log.Info("another process leads the pool; this one stands by", "broker", c.host)
		}
		// For a while the other one may be we ourselves, whose last connection the broker believes to live.
		if !released && time.Since(since) > c.config.ReleaseAfter {
			if err := c.manager.Config().Driver.Release(ctx); err != nil {
				c.log.Warn("workers of a pool that another process leads cannot be let go", "error", err)
			}
			released = true
		}
		if now := time.Now(); now.Sub(asked) >= leaderPause {
			asked = now
			c.askLeader(ctx)
		}
		if !backoff.Sleep(ctx, c.config.LockPoll) {
			return ctx.Err()
		}
	}
}

// leaderArgument is an argument of the lock that names the process that has it.
const leaderArgument = "x-rouse-leader"

// self names this process.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

// leaderPause is how long what is known of the leader is good for.
const leaderPause = 5 * time.Second

// askLeader finds out which process leads the pool, for the status.
func (c *Controller) askLeader(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	d, err := c.api.queue(ctx, c.vhost, c.names.lock())
	name, _ := d.Arguments[leaderArgument].(string)
	if err != nil {
		name = "" // it may be on its way
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = name
}

// Leader names the process that leads the pool, as far as that is known.
func (c *Controller) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == pool.StateLeading {
		return self()
	}
	return c.leader
}
