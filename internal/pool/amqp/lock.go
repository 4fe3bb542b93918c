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

// acquirePoolLock waits until this process has the lock of the pool: an exclusive queue, which lives as long
// as the connection. The broker releases it within milliseconds of the end of the connection.
func (c *Controller) acquirePoolLock(ctx context.Context, conn *amqplink.Conn) error {
	var since time.Time // since when another process is known to lead
	released := false
	var asked time.Time // when the broker was asked for the leader
	for {
		ch, err := conn.OpenChannel(ctx)
		if err != nil {
			return err
		}
		err = func() error {
			defer conn.Limit(ctx)()
			_, err := ch.QueueDeclare(c.names.lockQueue(), false, false, true, false,
				amqp091.Table{leaderArgument: processName()})
			return err
		}()
		if err == nil {
			return nil // the channel stays open: closing it gains nothing
		}
		var answer *amqp091.Error
		if !errors.As(err, &answer) || answer.Code != amqp091.ResourceLocked {
			return fmt.Errorf("take the lock of the pool: %w", err)
		}
		if since.IsZero() {
			since = time.Now()
			c.enterState(pool.StateStandingBy)
			c.log.Info("another process leads the pool; this one stands by", "broker", c.host)
		}
		// At first the other leader may be this process, if the broker has not noticed the end of its last
		// connection.
		if !released && time.Since(since) > c.config.ReleaseAfter {
			if err := c.manager.Config().Driver.Release(ctx); err != nil {
				c.log.Warn("cannot release the workers of a pool that another process leads", "error", err)
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

// leaderArgument is the argument of the lock with the name of its owner.
const leaderArgument = "x-rouse-leader"

// processName returns the name of this process.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

// leaderPause is how long the name of the leader is cached.
const leaderPause = 5 * time.Second

// askLeader asks the broker which process leads the pool, for the status.
func (c *Controller) askLeader(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	d, err := c.api.describeQueue(ctx, c.vhost, c.names.lockQueue())
	name, _ := d.Arguments[leaderArgument].(string)
	if err != nil {
		name = "" // it may appear in a moment
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = name
}

// Leader returns the process that leads the pool, if known.
func (c *Controller) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == pool.StateLeading {
		return processName()
	}
	return c.leader
}
