package redisstream

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/queue"
)

// receipt settles one entry.
type receipt struct {
	c     *consumer
	entry string
}

func (r *receipt) Ack(ctx context.Context) error {
	defer r.c.held.Remove(r.entry)
	return r.c.acks.acknowledgeEntry(ctx, r.entry)
}

// backScript makes an entry that still belongs to the consumer look idle. Its delivery count stays.
var backScript = redis.NewScript(`
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2]) == 1 then
	redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'IDLE', ARGV[4], 'JUSTID')
end
return 1
`)

func (r *receipt) Nack(ctx context.Context) error {
	defer r.c.held.Remove(r.entry)
	ctx, cancel := context.WithTimeout(ctx, r.c.opts.Timeout)
	defer cancel()
	err := backScript.Run(ctx, r.c.client, []string{r.c.key}, group, r.c.name, r.entry,
		r.c.opts.Visibility.Milliseconds()).Err()
	if err != nil {
		return r.c.asUnavailable(err)
	}
	return nil
}

// settler acknowledges entries in batches.
type settler struct {
	c      *consumer
	mu     sync.Mutex
	list   []settling
	signal chan struct{}
}

type settling struct {
	entry string
	done  chan error
}

func newSettler(c *consumer) *settler { return &settler{c: c, signal: make(chan struct{}, 1)} }

// acknowledgeEntry waits until the entry is acknowledged and deleted.
func (s *settler) acknowledgeEntry(ctx context.Context, entry string) error {
	done := make(chan error, 1)
	s.mu.Lock()
	s.list = append(s.list, settling{entry, done}) // at most one for each place of the prefetch
	s.mu.Unlock()
	notify.Send(s.signal)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.c.life.Done():
		return queue.ErrClosed
	}
}

func (s *settler) runAcknowledgements(ctx context.Context) {
	for {
		select {
		case <-s.signal:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		list := s.list
		s.list = nil
		s.mu.Unlock()
		for len(list) > 0 {
			n := min(len(list), maxCall)
			s.acknowledgeBatch(ctx, list[:n])
			list = list[n:]
		}
	}
}

func (s *settler) acknowledgeBatch(ctx context.Context, list []settling) {
	ctx, cancel := context.WithTimeout(ctx, s.c.opts.Timeout)
	defer cancel()
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].entry
	}
	_, err := s.c.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, s.c.key, group, ids...)
		p.XDel(ctx, s.c.key, ids...)
		return nil
	})
	if err != nil {
		err = s.c.asUnavailable(err)
	}
	for i := range list {
		list[i].done <- err
	}
}
