package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/test/servers"
)

// TestOneGroupOfAKeyOverAllNodes: whichever node a request is sent to, its key has one group, on one of them.
func TestOneGroupOfAKeyOverAllNodes(t *testing.T) {
	t.Parallel()
	store := servers.Postgres(t)
	var nodes [3]*Node
	var clients [3]*client.Client
	var ran sync.WaitGroup
	for i := range nodes {
		n, err := Open(t.Context(), store, WithAPI("127.0.0.1:0"), func(c *Config) {
			c.Unsafe, c.Poll, c.Lease, c.Pools = true, 50*time.Millisecond, 2*time.Second, []pool.Setup{testPool("core", nil)}
		})
		if err != nil {
			t.Fatal(err)
		}
		ran.Go(func() {
			if err := n.Run(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		c, err := client.Dial(n.Addr(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		nodes[i], clients[i] = n, c
	}
	defer func() {
		for i := range nodes {
			if err := errors.Join(clients[i].Close(), nodes[i].Close()); err != nil {
				t.Error(err)
			}
		}
		ran.Wait()
	}()
	poll.Until(t, "the buckets are shared out", func() bool {
		list, err := clients[0].Nodes(t.Context())
		if err != nil || len(list) != len(nodes) {
			return false
		}
		total := 0
		for _, n := range list {
			if n.Buckets < 10 {
				return false
			}
			total += n.Buckets
		}
		return total == int(Defaults().Buckets)
	})
	const keys, times = 8, 6
	var calls sync.WaitGroup
	for i := range keys * times {
		calls.Go(func() {
			key := fmt.Sprint("k", i%keys)
			got, err := clients[i%len(clients)].Call(t.Context(), client.Call{Pool: "core", Key: key, Payload: []byte("x"), Wait: 20 * time.Second})
			if err != nil || string(got.Answer.Payload) != key+":x" {
				t.Errorf("%s: %q, %v", key, got.Answer.Payload, err)
			}
		})
	}
	calls.Wait()
	where := map[string][]string{}
	on := map[string]bool{}
	for i, n := range nodes {
		for _, g := range views(n)[0].Groups {
			where[g.Key] = append(where[g.Key], fmt.Sprint(i))
			on[fmt.Sprint(i)] = true
		}
	}
	for key, list := range where {
		if len(list) != 1 {
			t.Errorf("key %s has groups on the nodes %s", key, strings.Join(list, " and "))
		}
	}
	if len(where) != keys || len(on) < 2 {
		t.Errorf("%d keys have groups, on %d nodes", len(where), len(on))
	}
}

// TestTimeLimitsAndDeletesReachWorkers: the handler of a worker ends when the time of its request is over,
// however it extends it, and when the request is deleted; the worker stays.
func TestTimeLimitsAndDeletesReachWorkers(t *testing.T) {
	t.Parallel()
	n, c := withPools(t, testPool("core", nil))
	ctx := t.Context()
	ended := func(name string) string { return filepath.Join(t.TempDir(), name) }
	is := func(file string) func() bool {
		return func() bool { _, err := os.Stat(file); return err == nil }
	}
	late := ended("late")
	_, err := c.Call(ctx, client.Call{Pool: "core", Key: "k", Payload: []byte("until-cancelled " + late), Wait: 20 * time.Second, Attempts: 1, Timeout: 300 * time.Millisecond})
	if failed, ok := errors.AsType[*client.CallError](err); !ok || failed.Status != client.CallDeliveryLimit {
		t.Errorf("a request that takes longer than it may: %v", err)
	}
	poll.Until(t, "the handler has ended", is(late))
	deleted := ended("deleted")
	if _, err := c.Call(ctx, client.Call{Pool: "core", Key: "k", Payload: []byte("until-cancelled " + deleted), ID: "deleted"}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a worker has it", func() bool { g := views(n)[0].Groups; return len(g) == 1 && g[0].Held == 1 })
	if _, err := c.Delete(ctx, "default", "call~deleted"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the handler has ended", is(deleted))
	got, err := c.Call(ctx, client.Call{Pool: "core", Key: "k", Payload: []byte("x"), Wait: 20 * time.Second})
	if err != nil || string(got.Answer.Payload) != "k:x" {
		t.Errorf("%q, %v", got.Answer.Payload, err)
	}
	if w := views(n)[0].Groups[0].Workers; len(w) != 1 || w[0].Starts != 1 {
		t.Errorf("the workers are %+v", w)
	}
}
