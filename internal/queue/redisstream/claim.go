package redisstream

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
)

// keepScript resets the idle time of the entries that still belong to a consumer. It takes none from others.
var keepScript = redis.NewScript(`
for i = 3, #ARGV do
	if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) == 1 then
		redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
	end
end
return 1
`)

// keepLoop keeps the unsettled entries of a consumer, until ctx ends.
func (c *consumer) keepLoop(ctx context.Context) {
	for backoff.Sleep(ctx, c.opts.Visibility/3) {
		ids := c.held.All()
		for len(ids) > 0 {
			n := min(len(ids), maxCall)
			args := make([]any, 0, n+2)
			args = append(args, group, c.name)
			for _, id := range ids[:n] {
				args = append(args, id)
			}
			ids = ids[n:]
			call, cancel := context.WithTimeout(ctx, c.opts.Timeout)
			err := keepScript.Run(call, c.client, []string{c.key}, args...).Err()
			cancel()
			if err != nil && ctx.Err() == nil {
				c.opts.Failed(c.asUnavailable(err)) // others may claim the entries; processing them twice concerns the same message
			}
		}
	}
}

// claimIdle takes over entries of dead consumers, and those that were given back, in up to n reserved places.
// It returns how many places are left, and whether there may be more entries.
func (c *consumer) claimIdle(ctx context.Context, n int) (left int, more bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.Timeout)
	defer cancel()
	idle, err := c.client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: c.key, Group: group, Idle: c.opts.Visibility,
		Start: "-", End: "+",
		Count: maxCall}).Result()
	if err != nil {
		return n, false, c.asUnavailable(err)
	}
	var ids []string
	delivered := map[string]int{}
	for _, p := range idle {
		if len(ids) < n && !(p.Consumer == c.name && c.held.Has(p.ID)) {
			ids = append(ids, p.ID)
			delivered[p.ID] = int(p.RetryCount)
		}
	}
	if len(ids) == 0 {
		return n, false, nil
	}
	// Of several consumers that claim an entry at the same time, one gets it: for the others it is not idle
	// any more.
	got, err := c.client.XClaim(ctx, &redis.XClaimArgs{Stream: c.key, Group: group, Consumer: c.name,
		MinIdle: c.opts.Visibility, Messages: ids}).Result()
	if err != nil {
		return n, false, c.asUnavailable(err)
	}
	for _, e := range got {
		c.deliverEntry(ctx, e, delivered[e.ID]+1)
	}
	return n - len(got), len(got) > 0 && len(idle) == maxCall, nil
}

// pruneAfter is how long a consumer without entries stays in the group, and the interval of checks.
const pruneAfter = 24 * time.Hour

// pruneConsumers removes dead consumers from the group.
func (c *consumer) pruneConsumers(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	all, err := c.client.XInfoConsumers(call, c.key, group).Result()
	for _, other := range all {
		if err == nil && other.Pending == 0 && other.Idle > pruneAfter {
			err = leaveScript.Run(call, c.client, []string{c.key}, group, other.Name).Err()
		}
	}
	if err != nil && ctx.Err() == nil {
		c.opts.Failed(c.asUnavailable(err))
	}
}

var _ queue.Queue = (*Queue)(nil)
