//go:build unix

package servers

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Redis returns the URL of a fresh, empty Redis, a separate process that ends with the test.
func Redis(t testing.TB) string {
	t.Helper()
	return StartRedis(t).URL()
}

// StartRedis starts a Redis configured for important data: every write goes to the append-only file, which is
// synced each second, and there is no eviction. Acknowledged writes are in the kernel's memory, so they
// survive Kill. Settings are name=value, as in redis.conf.
func StartRedis(t testing.TB, settings ...string) *Server {
	t.Helper()
	path, more := requireProgram(t, "redis-server"), parseSettings(t, settings)
	p, err := launchServer("redis", 1, nil, func(p *process) error {
		describeRedis(p, path, append(durableSettings(), more...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := p.ports[0].claimedAddr()
	return newServer(t, p, redisURL(addr), addr)
}

func durableSettings() [][2]string {
	return [][2]string{{"appendonly", "yes"}, {"appendfsync", "everysec"}, {"maxmemory-policy", "noeviction"},
		{"save", ""}}
}

func redisURL(addr string) string { return "redis://" + addr + "/0" }

func describeRedis(p *process, path string, settings [][2]string) {
	p.path = path
	for _, s := range append([][2]string{
		{"bind", "127.0.0.1"},
		{"port", fmt.Sprint(p.ports[0].port)},
		{"dir", p.dir},
	}, settings...) {
		p.args = append(p.args, "--"+s[0], s[1])
	}
	describeReady(p)
}

// describeReady sets the fields that sentinels share with other kinds of Redis.
func describeReady(p *process) {
	p.ready = func(ctx context.Context) error { return redisCall(ctx, p.ports[0].claimedAddr(), "PING").Err() }
	p.stopSignal = syscall.SIGTERM
}

// redisCall runs one command on a separate connection.
func redisCall(ctx context.Context, addr string, args ...any) *redis.Cmd {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	defer c.Close() //nolint:errcheck // the command's error counts
	return c.Do(ctx, args...)
}
