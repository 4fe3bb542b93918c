package node_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/all"
	"github.com/rousehq/rouse/test/servers"
)

// TestARedisThatComesBackEmptyIsNotServed: the node is not ready, tells why, and acknowledges nothing.
func TestARedisThatComesBackEmptyIsNotServed(t *testing.T) {
	server := servers.StartRedis(t)
	n, err := node.Open(t.Context(), server.URL(), func(c *node.Config) { c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0" })
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	go n.Run(t.Context()) //nolint:errcheck // Close ends it
	create := func(name string) error {
		_, err := n.Create(t.Context(), name, rouse.Spec{Schedule: "@every 1h", Target: "stream:a"})
		return err
	}
	if err := create("before"); err != nil {
		t.Fatal(err)
	}
	if !poll.Holds(poll.Patience, func() bool { return n.Healthy() == nil }) {
		t.Fatal(n.Healthy())
	}
	redis := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer redis.Close()
	if err := redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := create("after"); !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "came back empty") {
		t.Errorf("a create is answered with %v", err)
	}
	// An answer from before may be read after those that tell of it.
	poll.Until(t, "the node is not ready, and tells why", func() bool {
		err := n.Healthy()
		answer, wrong := http.Get("http://" + n.AdminAddr() + "/readyz")
		if wrong != nil {
			t.Fatal(wrong)
		}
		_ = answer.Body.Close()
		return err != nil && strings.Contains(err.Error(), "came back empty") && strings.Contains(err.Error(), "restore") &&
			answer.StatusCode == http.StatusServiceUnavailable
	})
	if n, err := redis.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys were written: %v", n, err)
	}
}
