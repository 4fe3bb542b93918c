package main

import (
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
	_ "github.com/rousehq/rouse/node/pool"
)

// TestCallworker builds the example and has a pool start it, one for each key.
func TestCallworker(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "callworker")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	totals := pool.Setup{Config: pool.Config{Name: "totals", Delays: pool.Delays{Unbind: time.Minute, Stop: time.Minute}},
		Open: func(log *slog.Logger) (driver.Driver, error) {
			return subprocess.New(subprocess.Config{Pool: "totals", Command: []string{binary}, Log: log})
		}}
	n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Pools = []pool.Setup{totals} })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	c, err := client.Dial(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ key, payload, want string }{{"ann", "1", "ann has 1\n"}, {"bob", "10", "bob has 10\n"}, {"ann", "2", "ann has 3\n"}} {
		got, err := c.Call(t.Context(), client.Call{Pool: "totals", Key: r.key, Payload: []byte(r.payload), Wait: 20 * time.Second})
		if err != nil || string(got.Answer.Payload) != r.want {
			t.Errorf("%s: %q, %v; want %q", r.key, got.Answer.Payload, err, r.want)
		}
	}
	_, err = c.Call(t.Context(), client.Call{Pool: "totals", Key: "ann", Payload: []byte("many"), Wait: 20 * time.Second})
	if refused, ok := errors.AsType[*client.CallError](err); !ok || refused.Status != client.CallRejected {
		t.Errorf("what is no number: %v; want it rejected", err)
	}
	if err := errors.Join(c.Close(), n.Close(), <-ended); err != nil {
		t.Error(err)
	}
}
