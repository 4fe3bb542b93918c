package amqp

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
)

// TestNamesThatAreNoRoutingKeys: a group whose name is too long for a routing key, which its library would
// cut, is neither pinned nor opened nor announced.
func TestNamesThatAreNoRoutingKeys(t *testing.T) {
	long := strings.Repeat("k", pool.MaxKey)
	fits := long[2:]
	open := func(pinned ...string) (*Controller, error) {
		m, err := pool.NewManager(pool.Config{Name: "core", Delays: slow, MaxWork: time.Hour, Namespaces: pool.Apart, Pinned: pinned, Driver: noop.Driver{},
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: pool.NewRegistry(prometheus.NewRegistry()).Pool("core")})
		if err != nil {
			t.Fatal(err)
		}
		return New(Config{URL: "amqp://127.0.0.1"}, m)
	}
	if _, err := open("n/"+fits, "n/"+long); err == nil || !strings.Contains(err.Error(), "pinned[1]") {
		t.Errorf("a pinned group with a long name: %v", err)
	}
	c, err := open("n/" + fits)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&queues{c: c}).Open(t.Context(), driver.GroupOf("n", long)); err == nil || !strings.Contains(err.Error(), "257 bytes") {
		t.Errorf("it is opened: %v", err)
	}
	a := NewCaller(c, pool.CallerOptions{Prewarm: time.Minute})
	a.Near("n", long, 0)
	if names := a.dueKeys(time.Now(), time.Minute); len(names) > 0 {
		t.Errorf("%d are announced", len(names))
	}
	a.Near("n", fits, 0)
	if names := a.dueKeys(time.Now(), time.Minute); len(names) != 1 {
		t.Errorf("%d are announced; want the one that fits", len(names))
	}
}
