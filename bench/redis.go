package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisBase is a Redis, or several that a store is spread over. The raw limits are those of the first.
type redisBase struct {
	url     string
	about   string
	own     *ownServer // nil if it was running already
	servers []*goredis.Client
}

func openRedis(ctx context.Context, url string, own *ownServer) (_ *redisBase, err error) {
	b := &redisBase{url: url, own: own}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.closeClients())
		}
	}()
	scheme, _, _ := strings.Cut(url, "://")
	for text := range strings.SplitSeq(url, ",") {
		if !strings.Contains(text, "://") {
			text = scheme + "://" + text
		}
		o, err := goredis.ParseURL(text)
		if err != nil {
			return nil, fmt.Errorf("open %s: it is no URL of a Redis: give redis://HOST:PORT/0", shownURL(text))
		}
		o.MaxRetries, o.PoolSize, o.Protocol, o.ReadTimeout, o.WriteTimeout = -1, rawConns, 2, patience, patience
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		c := goredis.NewClient(o)
		b.servers = append(b.servers, c)
		if err := b.checkRedisFree(ctx, c); err != nil {
			return nil, fmt.Errorf("open %s: %w", shownURL(text), err)
		}
	}
	if len(b.servers) > 1 {
		b.about += fmt.Sprintf(", %d servers; the raw limits are those of the first", len(b.servers))
	}
	if own != nil {
		b.about += ", " + own.about
	}
	return b, nil
}

// checkRedisFree looks whether a server is there and its database empty.
func (b *redisBase) checkRedisFree(ctx context.Context, c *goredis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := c.Ping(ctx).Err()
	for err != nil && strings.HasPrefix(err.Error(), "LOADING") && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		err = c.Ping(ctx).Err()
	}
	if err != nil {
		return err
	}
	n, err := c.DBSize(ctx).Result()
	if err != nil {
		return err
	}
	if n > 0 {
		what := ""
		// one field is the id of the store
		if timers, err := c.HLen(ctx, "rouse:{0}:rows").Result(); err == nil && timers > 1 {
			what = fmt.Sprintf(", with %d timers", timers-1)
		}
		return fmt.Errorf(
			"the database has %d keys%s: bench fills a database and empties it, so give it an empty one of its own (redis://HOST:PORT/5); "+
				"what a run has left that was killed goes away with FLUSHDB", n, what)
	}
	info, err := infoOf(ctx, c, "server")
	if err != nil {
		return err
	}
	b.about = "Redis " + info["redis_version"]
	for _, name := range []string{"appendonly", "appendfsync"} {
		if v, err := c.ConfigGet(ctx, name).Result(); err == nil { // not every user may ask
			b.about += ", " + name + " " + v[name]
		}
	}
	return nil
}

// infoOf returns a section of INFO.
func infoOf(ctx context.Context, c *goredis.Client, section string) (map[string]string, error) {
	text, err := c.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			out[name] = value
		}
	}
	return out, nil
}

func (b *redisBase) URL() string        { return b.url }
func (b *redisBase) About() string      { return b.about }
func (b *redisBase) asRawBase() rawBase { return b }

// Asked counts scripts: each call of a node is one, and the commands within a script are no calls.
func (b *redisBase) Asked(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, c := range b.servers {
		stats, err := infoOf(ctx, c, "commandstats")
		if err != nil {
			return 0, err
		}
		for _, name := range []string{"cmdstat_eval", "cmdstat_evalsha"} {
			calls, _, _ := strings.Cut(strings.TrimPrefix(stats[name], "calls="), ",")
			v, _ := strconv.ParseInt(calls, 10, 64) // absent if there were none
			n += v
		}
	}
	return n, nil
}

// CPU returns the time that the servers report, also those of another machine.
func (b *redisBase) CPU(ctx context.Context) (used time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, c := range b.servers {
		stats, err := infoOf(ctx, c, "cpu")
		if err != nil {
			return 0
		}
		for _, name := range []string{"used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children"} {
			seconds, _ := strconv.ParseFloat(stats[name], 64)
			used += time.Duration(seconds * float64(time.Second))
		}
	}
	return used
}

// Wrote is that of a server that was started here.
func (b *redisBase) Wrote(ctx context.Context) int64 {
	if b.own == nil {
		return 0
	}
	stats, err := infoOf(ctx, b.servers[0], "server")
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(stats["process_id"]) // the server writes a number
	return treeIO(pid, "write_bytes")
}

// clearDatabase removes the keys that nodes and raw limits make. Writes under way from a node that was killed
// may come after it, so it looks until nothing is left.
func (b *redisBase) clearDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, c := range b.servers {
		for quiet := 0; quiet < 2; quiet++ {
			for _, pattern := range []string{"rouse:*", "rouse-bench:*"} {
				n, err := unlinkAll(ctx, c, pattern)
				if err != nil {
					return fmt.Errorf("clear the database: %w", err)
				}
				if n > 0 {
					quiet = 0
				}
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func unlinkAll(ctx context.Context, c *goredis.Client, pattern string) (n int, err error) {
	for cursor := uint64(0); ; {
		var keys []string
		if keys, cursor, err = c.Scan(ctx, cursor, pattern, 10_000).Result(); err != nil {
			return n, err
		}
		if len(keys) > 0 {
			if err := c.Unlink(ctx, keys...).Err(); err != nil {
				return n, err
			}
		}
		if n += len(keys); cursor == 0 {
			return n, nil
		}
	}
}

func (b *redisBase) closeClients() (err error) {
	for _, c := range b.servers {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (b *redisBase) Close() error {
	var err error
	if b.own == nil {
		err = b.clearDatabase(context.Background())
	}
	return errors.Join(err, b.closeClients(), b.own.closeOwnServer())
}
