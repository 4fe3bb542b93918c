package redisstream

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/internal/held"
)

// blockFor is how long a read waits for new entries. The shutdown of a consumer waits for it.
const blockFor = 500 * time.Millisecond

// The shortest and longest backoff after a failure of Redis.
const (
	firstWait   = 20 * time.Millisecond
	longestWait = time.Second
)

// consumer is one call of Consume.
type consumer struct {
	*Queue
	name   string // in the group; unique to this call, so that its entries differ from those of dead consumers
	held   *held.Set[string, string]
	handle func(queue.Delivery)
	acks   *settler
}

// Consume passes on new entries, and those of dead consumers.
func (q *Queue) Consume(ctx context.Context, prefetch int, handle func(queue.Delivery)) error {
	if err := q.uses.Begin(); err != nil {
		return err
	}
	defer q.uses.Done()
	c := &consumer{Queue: q, name: rand.Text(), held: held.New[string, string](prefetch), handle: handle}

	// Two contexts, ended one after another: for taking entries, and for keeping and settling them.
	take, endTaking := context.WithCancel(ctx)
	defer endTaking()
	defer context.AfterFunc(q.life, endTaking)()
	keep, endKeeping := context.WithCancel(q.life)
	defer endKeeping()

	c.acks = newSettler(c)
	var settling sync.WaitGroup
	settling.Go(func() { c.acks.runAcknowledgements(keep) })
	settling.Go(func() { c.keepLoop(keep) })
	c.takeLoop(take)
	err := c.held.Drain(q.life)
	endKeeping()
	settling.Wait()
	if err != nil {
		return queue.ErrClosed
	}
	c.leaveGroup()
	if ctx.Err() == nil {
		return queue.ErrClosed
	}
	return nil
}

// takeLoop passes on new entries, and periodically those of dead consumers.
func (c *consumer) takeLoop(ctx context.Context) {
	every := min(time.Second, c.opts.Visibility/4)
	var claimed, forgot time.Time
	for b := backoff.New(firstWait, longestWait); ; {
		n := c.held.Reserve(ctx, maxCall)
		if n == 0 {
			return
		}
		var err error
		if time.Since(claimed) >= every {
			var more bool
			if n, more, err = c.claimIdle(ctx, n); !more {
				claimed = time.Now()
			}
			if time.Since(forgot) >= pruneAfter {
				forgot = time.Now()
				c.pruneConsumers(ctx)
			}
		}
		if err == nil && n > 0 {
			n, err = c.readNewEntries(ctx, n)
		}
		c.held.Return(n)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			b.Reset()
			continue
		}
		c.opts.Failed(c.recreateGroup(ctx, err))
		if !b.Pause(ctx) {
			return
		}
	}
}

// readNewEntries waits for new entries in up to n reserved places, and passes them on. It returns how many
// places are left.
func (c *consumer) readNewEntries(ctx context.Context, n int) (int, error) {
	// The read is not cancelled with ctx: entries in an unread answer would belong to this consumer without
	// its knowledge, until others claim them.
	got, err := c.client.XReadGroup(context.WithoutCancel(ctx), &redis.XReadGroupArgs{Group: group, Consumer: c.name,
		Streams: []string{c.key, ">"}, Count: int64(n), Block: blockFor}).Result()
	if errors.Is(err, redis.Nil) {
		return n, nil
	}
	if err != nil {
		return n, c.asUnavailable(err)
	}
	for _, s := range got {
		for _, e := range s.Messages {
			c.deliverEntry(ctx, e, 1)
			n--
		}
	}
	return n, nil
}

// recreateGroup creates the group again if it is gone: Redis was emptied, or restored from an older state.
func (c *consumer) recreateGroup(ctx context.Context, err error) error {
	var answer redis.Error
	if !errors.As(err, &answer) || !redis.HasErrorPrefix(answer, "NOGROUP") {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	return errors.Join(err, c.makeGroup(ctx))
}

// deliverEntry passes on an entry, in a reserved place. After the end of ctx it gives the entry back
// immediately.
func (c *consumer) deliverEntry(ctx context.Context, e redis.XMessage, deliveries int) {
	if !c.held.Put(e.ID, e.ID) {
		return
	}
	r := &receipt{c: c, entry: e.ID}
	d := queue.Delivery{Message: queue.Message{ID: textOfValue(e.Values["id"]),
		Body: []byte(textOfValue(e.Values["body"]))}, Deliveries: deliveries, Receipt: r}
	if ctx.Err() != nil {
		_ = r.Nack(c.life) // if it fails, the entry is claimed when it has idled
		return
	}
	c.handle(d)
}

func textOfValue(v any) string {
	s, _ := v.(string)
	return s
}

// leaveScript removes a consumer from the group, unless that would delete entries with it.
var leaveScript = redis.NewScript(`
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
	return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return 0
`)

// leaveGroup removes the consumer from the group.
func (c *consumer) leaveGroup() {
	ctx, cancel := context.WithTimeout(c.life, c.opts.Timeout)
	defer cancel()
	if err := leaveScript.Run(ctx, c.client, []string{c.key}, group, c.name).Err(); err != nil && c.life.Err() == nil {
		c.opts.Failed(c.asUnavailable(err))
	}
}
