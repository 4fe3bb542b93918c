package redisstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
)

// Bounds of one script call, in messages and bytes: Redis executes nothing else during it.
const (
	maxCall      = 256
	maxCallBytes = 1 << 20
)

// addScript adds messages until the stream is full, and returns how many. Acknowledged entries are deleted,
// so the length is that of unacknowledged ones.
var addScript = redis.NewScript(`
local room = tonumber(ARGV[1]) - redis.call('XLEN', KEYS[1])
local n = 0
for i = 2, #ARGV, 2 do
	if room <= n then break end
	redis.call('XADD', KEYS[1], '*', 'id', ARGV[i], 'body', ARGV[i + 1])
	n = n + 1
end
return n
`)

// Publish adds messages to the stream.
func (q *Queue) Publish(ctx context.Context, messages []queue.Message) []error {
	errs := make([]error, len(messages))
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	for from := 0; from < len(messages); {
		if errs[from] = messages[from].Check(); errs[from] != nil {
			from++
			continue
		}
		to, bytes := from, 0
		for to < len(messages) && to-from < maxCall && (to == from || bytes+len(messages[to].Body) <= maxCallBytes) &&
			messages[to].Check() == nil {
			bytes += len(messages[to].Body)
			to++
		}
		n, err := q.addMessages(ctx, messages[from:to])
		for i := from + n; i < to; i++ {
			errs[i] = err
		}
		from = to
	}
	return errs
}

// addMessages makes one script call. It returns how many messages were added, and the error of the others.
func (q *Queue) addMessages(ctx context.Context, messages []queue.Message) (int, error) {
	args := make([]any, 1, 1+2*len(messages))
	args[0] = q.opts.MaxMessages
	for i := range messages {
		args = append(args, messages[i].ID, messages[i].Body)
	}
	for b := backoff.New(firstWait, longestWait); ; {
		n, err := addScript.Run(ctx, q.client, []string{q.key}, args...).Int()
		switch {
		case err == nil && n == len(messages):
			return n, nil
		case err == nil, redis.HasErrorPrefix(err, "OOM"):
			return n, queue.ErrFull
		case q.life.Err() != nil:
			return 0, queue.ErrClosed
		case ctx.Err() == nil && wasNotSent(err):
			if backoff.SleepOr(ctx, b.Next(), q.life.Done()) {
				continue
			}
			fallthrough
		case wasNotSent(err):
			return 0, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		default:
			return 0, fmt.Errorf("%w: %w", queue.ErrUnconfirmed, err)
		}
	}
}

// wasNotSent reports whether an error means that Redis did nothing: there was no connection, or it refused
// the command.
func wasNotSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return errors.Is(err, redis.ErrPoolTimeout)
	}
	for _, prefix := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF",
		"NOREPLICAS", "ERR max number of clients"} {
		if strings.HasPrefix(answer.Error(), prefix) {
			return true
		}
	}
	return false
}
