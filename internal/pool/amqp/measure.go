package amqp

import (
	"context"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// measure periodically counts the requests of the pool and detects hanging workers, until ctx ends. The
// numbers of held requests are some seconds old, so it does not act within seconds.
func (c *Controller) measure(ctx context.Context, term *pool.Term) {
	every := 15 * time.Second
	if c.config.StallTimeout > 0 {
		every = min(every, max(c.config.StallTimeout/4, 100*time.Millisecond))
	}
	for {
		held, load, err := c.count(ctx)
		if err == nil {
			term.Loads(load)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Warn("the requests of the pool cannot be counted", "error", err)
		case c.config.StallTimeout > 0:
			term.Stalled(held, c.config.StallTimeout)
		}
		if !backoff.Sleep(ctx, every) {
			return
		}
	}
}

// count returns how many requests the workers hold, and what the queues contain, by key.
func (c *Controller) count(ctx context.Context) (map[string]int, map[string]pool.Load, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	list, err := c.api.queues(ctx, c.vhost, prefix(c.names.pool+"-"), true)
	if err != nil {
		return nil, nil, err
	}
	load := map[string]pool.Load{}
	held, ready, total, waiting := map[string]int{}, 0, 0, 0
	for _, d := range list {
		switch {
		case d.Ready == nil || d.Held == nil: // not counted yet
		case d.Name == c.names.poison():
			c.manager.Metrics().Poison(*d.Ready + *d.Held)
		case d.Name == c.names.orphans() || d.Name == c.names.aside():
			waiting += *d.Ready + *d.Held
		case strings.HasPrefix(d.Name, c.names.requestPrefix()):
			ready += *d.Ready
			total += *d.Held
			if key, ok := c.names.key(d.Name, d.Arguments[keyArgument]); ok {
				load[key] = pool.Load{Ready: *d.Ready, Held: *d.Held}
				if *d.Held > 0 {
					held[key] = *d.Held
				}
			}
		}
	}
	c.manager.Metrics().Requests(ready, total, waiting)
	return held, load, nil
}
