package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestIndexedStore: timers fire from a store that has an index in front of it, which is emptied all the
// while, whatever the strategy.
func TestIndexedStore(t *testing.T) {
	for _, strategy := range []string{"bucket", "lease"} {
		t.Run(strategy, func(t *testing.T) {
			ctx := t.Context()
			server := servers.StartRedis(t)
			with := func(c *Config) {
				c.Index, c.Unsafe, c.Strategy, c.Poll, c.Lease = server.URL(), true, strategy, 50*time.Millisecond, 2*time.Second
				c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
			}
			n, err := Open(ctx, servers.Postgres(t), with)
			if err != nil {
				t.Fatal(err)
			}
			const timers = 300
			var mu sync.Mutex
			fired := map[string]int{}
			if err := n.Handle("note", func(_ context.Context, f rouse.Fire) error {
				mu.Lock()
				defer mu.Unlock()
				fired[f.ID]++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(ctx)
			ended := make(chan error)
			go func() { ended <- n.Run(running) }()
			redis := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
			defer redis.Close()
			var emptying sync.WaitGroup
			defer emptying.Wait()
			emptying.Go(func() {
				for range 30 { // while they come due, and not until all have: a busy machine may need longer to fill it
					if err := redis.FlushAll(ctx).Err(); err != nil {
						t.Error(err)
					}
					time.Sleep(150 * time.Millisecond)
				}
			})
			for i := range timers {
				spec := rouse.Spec{Schedule: fmt.Sprintf("@after %dms", 10*i), Target: "func:note"}
				if _, err := n.Create(ctx, fmt.Sprint("t", i), spec); err != nil {
					t.Fatal(err)
				}
			}
			for end := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				mu.Lock()
				got := len(fired)
				mu.Unlock()
				if got == timers {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d of %d timers have fired", got, timers)
				}
			}
			emptying.Wait()
			poll.Until(t, "the metrics tell that the index was lost", func() bool {
				m := get(t, "http://"+listenerAddress(n.admin)+"/metrics")
				return strings.Contains(m, "rouse_index_lost_total") && !strings.Contains(m, "rouse_index_lost_total 0\n")
			})
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for id, times := range fired {
				if times != 1 {
					t.Errorf("%s was fired %d times", id, times)
				}
			}
		})
	}
}
