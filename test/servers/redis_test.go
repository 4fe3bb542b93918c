//go:build unix

package servers

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisIsDurable(t *testing.T) {
	t.Parallel()
	s := StartRedis(t, "maxmemory=8mb")
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "maxmemory": "8388608", "save": "",
	} {
		config, err := redisCall(t.Context(), s.Addr(), "CONFIG", "GET", name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.(map[any]any)[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if other := Redis(t); other == s.URL() {
		t.Errorf("two Redis have one URL: %s", other)
	}
}

// TestSentinel: the replica becomes the master when the master is killed, and clients find it.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	options, err := redis.ParseFailoverURL(s.Watcher.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewFailoverClient(options)
	defer c.Close() //nolint:errcheck // of a test
	if err := c.Set(t.Context(), "kept", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Wait(t.Context(), 1, plenty).Result(); err != nil || n != 1 {
		t.Fatalf("%d replicas have it: %v", n, err)
	}
	s.Master.Kill()
	s.AwaitMaster(t, s.Replica)
	if got, err := redisCall(t.Context(), s.Replica.Addr(), "GET", "kept").Text(); err != nil || got != "1" {
		t.Errorf("the new master has kept = %q: %v", got, err)
	}
	s.awaitCondition(t, "the client finds the new master", func(ctx context.Context) error { return c.Set(ctx, "new", 1, 0).Err() })
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	nodes := StartRedisCluster(t)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer c.Close() //nolint:errcheck // of a test
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := c.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	for _, addr := range addrs {
		n, err := redisCall(t.Context(), addr, "DBSIZE").Int64()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 || n == 6 {
			t.Errorf("%s has %d of 6 keys", addr, n)
		}
		total += n
	}
	if total != 6 {
		t.Errorf("the nodes have %d keys, want 6", total)
	}
}
