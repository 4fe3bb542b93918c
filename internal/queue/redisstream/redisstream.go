// Package redisstream is a queue in a Redis stream (6.2 or later): XADD, one consumer group, and entries that
// are deleted when they are acknowledged.
//
//	Publish   one script: refuses when the stream is full, otherwise XADD      (publish.go)
//	Consume   XREADGROUP for new entries                                       (consume.go)
//	          XPENDING and XCLAIM for entries of dead consumers                (claim.go)
//	          XCLAIM JUSTID keeps unsettled entries                            (claim.go)
//	Ack       XACK and XDEL, in batches                                        (settle.go)
//
// A confirmed message is as durable as Redis: with appendfsync everysec it survives the end of the process,
// but a power failure loses the last second, and a failover the messages that the replica did not have. Open
// refuses a Redis without an append-only file, and one that evicts keys. A consumer without activity for
// Options.Visibility counts as dead.
package redisstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/redislink"
)

// Options are the options of all queues, and those of Redis.
type Options struct {
	queue.Options

	// Visibility is how long a consumer may be silent before its messages are delivered to others. Default 30
	// s.
	Visibility time.Duration

	// Volatile allows a Redis without an append-only file.
	Volatile bool
}

// group is the only consumer group of the stream.
const group = "executors"

// Queue is safe for concurrent use.
type Queue struct {
	opts   Options
	key    string
	client *redis.Client

	life context.Context // until Close
	end  context.CancelFunc
	uses queue.Uses // of consumers
}

// Open connects to the Redis of a URL (redis:// or rediss://, with user, password and database), creates the
// stream if it does not exist, and refuses a Redis that may lose messages.
func Open(ctx context.Context, url string, o Options) (*Queue, error) {
	var err error
	if o.Options, err = o.Options.WithDefaults(); err != nil {
		return nil, err
	}
	o.Visibility = cmp.Or(o.Visibility, 30*time.Second)
	if o.Visibility < time.Second {
		return nil, rouse.Refuse("queue.visibility", o.Visibility.String(), "is out of bounds", "use 1s or more")
	}
	ro, err := redislink.Options(url, o.Timeout)
	if err != nil {
		return nil, rouse.Refuse("queue.url", "", "is no URL of a Redis: "+err.Error(),
			"write one such as redis://user:password@host:6379/0")
	}
	q := &Queue{opts: o, key: "rouse:queue:" + o.Name, client: redis.NewClient(ro)}
	q.life, q.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := q.prepareStream(ctx); err != nil {
		q.end()
		return nil, errors.Join(fmt.Errorf("open the queue %s in Redis at %s: %w", o.Name, ro.Addr, err), q.client.Close())
	}
	return q, nil
}

func (q *Queue) prepareStream(ctx context.Context) error {
	info, err := q.client.Info(ctx, "server", "persistence", "memory").Result()
	if err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	if err := checkServer(info, q.opts.Volatile); err != nil {
		return err
	}
	kind, err := q.client.Type(ctx, q.key).Result()
	if err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	if kind != "none" && kind != "stream" {
		return fmt.Errorf("%w: the key %s is a %s, not a stream; give the queue another name, or remove the key",
			queue.ErrSettings, q.key, kind)
	}
	return q.makeGroup(ctx)
}

// makeGroup creates the stream and its group, if they do not exist. The group starts with the first entry, so
// that no earlier message is skipped.
func (q *Queue) makeGroup(ctx context.Context) error {
	err := q.client.XGroupCreateMkStream(ctx, q.key, group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return fmt.Errorf("make the consumer group: %w: %w", queue.ErrUnavailable, err)
	}
	return nil
}

// checkServer refuses a Redis that loses messages silently.
func checkServer(info string, volatile bool) error {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	if version := fields["redis_version"]; version != "" && !atLeast(version, 6, 2) {
		return fmt.Errorf("%w: Redis %s has no means to take over from dead consumers; use 6.2 or later",
			queue.ErrSettings, version)
	}
	if policy := fields["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		return fmt.Errorf("%w: its maxmemory-policy is %s, which removes the queue when memory runs out; set noeviction",
			queue.ErrSettings, policy)
	}
	if fields["aof_enabled"] == "0" && !volatile {
		return fmt.Errorf(
			"%w: it has no append-only file, so a restart loses messages; set appendonly yes, or allow a volatile queue",
			queue.ErrSettings)
	}
	return nil
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true // unknown version format: accept it
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA != nil || errB != nil || a > major || a == major && b >= minor
}

// Depth returns how many messages are in the stream, including those with consumers.
func (q *Queue) Depth(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	n, err := q.client.XLen(ctx, q.key).Result()
	if err != nil {
		return 0, q.asUnavailable(err)
	}
	return n, nil
}

// Close ends all consumers and the connection.
func (q *Queue) Close() error {
	if !q.uses.Close() {
		return nil
	}
	q.end()
	err := q.client.Close() // also ends calls that wait for an answer
	q.uses.Wait()
	return err
}

func (q *Queue) asUnavailable(err error) error {
	if q.life.Err() != nil {
		return queue.ErrClosed
	}
	return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
}
