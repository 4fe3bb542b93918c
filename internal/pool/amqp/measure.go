package amqp

import (
	"context"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// countEvery is the interval between two counts, if no limit needs a shorter one.
const countEvery = 15 * time.Second

// cacheFactor is how long the HTTP API may answer from its cache, in multiples of the time that the answer
// took when it was computed.
const cacheFactor = 5

// statisticsDelay returns how late the broker's numbers may be. By default, a quorum queue counts its
// messages every 5 s, and the management plugin collects the numbers every 5 s; Settle is the sum of both.
func statisticsDelay(t pool.Timing) time.Duration { return t.Settle * 3 / 2 }

// measureLoads periodically counts the requests of the pool, until ctx ends. Each count is as of a time that
// the broker's numbers certainly cover.
func (c *Controller) measureLoads(ctx context.Context, term *pool.Term) {
	m := c.manager.Config()
	every := min(countEvery, m.Unbind/3)
	for _, limit := range []time.Duration{m.MaxWork, c.config.StallTimeout} {
		if limit > 0 {
			every = min(every, limit/4)
		}
	}
	every = max(every, m.Timing.Settle/5) // the numbers change no more often than that
	var slowest time.Duration             // of the calls whose answers may still be in the cache
	var slow time.Time                    // when that was
	for {
		began := time.Now()
		load, err := c.countRequests(ctx)
		if took := time.Since(began); took > slowest || began.Sub(slow) > (cacheFactor+1)*slowest {
			slowest, slow = took, began
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.manager.Metrics().Failed("count")
			c.log.Warn("the requests of the pool cannot be counted; its groups are kept, for up to max_work", "error", err)
		default:
			term.Loads(load, began.Add(-statisticsDelay(m.Timing)-cacheFactor*slowest), c.config.StallTimeout)
		}
		if !backoff.Sleep(ctx, every) {
			return
		}
	}
}

// countRequests returns the contents of the request queues, by key.
func (c *Controller) countRequests(ctx context.Context) (map[string]pool.Load, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	list, err := c.api.listQueues(ctx, c.vhost, prefixPattern(c.names.pool+"-"), true)
	if err != nil {
		return nil, err
	}
	load := map[string]pool.Load{}
	ready, held, waiting := 0, 0, 0
	for _, d := range list {
		key, request := c.names.keyOfQueue(d.Name, d.Arguments[keyArgument])
		switch {
		case d.Ready == nil || d.Held == nil: // not counted yet, or the broker's statistics are disabled
			if request {
				load[key] = pool.Load{Unknown: true}
			}
		case d.Name == c.names.poisonQueue():
			c.manager.Metrics().Poison(*d.Ready + *d.Held)
		case d.Name == c.names.orphanQueue() || d.Name == c.names.asideQueue():
			waiting += *d.Ready + *d.Held
		case request:
			ready += *d.Ready
			held += *d.Held
			load[key] = pool.Load{Ready: *d.Ready, Held: *d.Held}
		}
	}
	c.manager.Metrics().Requests(ready, held, waiting)
	return load, nil
}
