package pool_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/schedule"
)

// TestExplainNamesTheWindow: why the fires of a timer wait for workers that may not run is part of its
// explanation, also if the requests of the pool are at a broker.
func TestExplainNamesTheWindow(t *testing.T) {
	over, err := schedule.Parse("rrule:FREQ=DAILY;UNTIL=20200101T000000Z", schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	setup := func(name string, windows ...pool.Window) pool.Setup {
		return pool.Setup{
			Config: pool.Config{Name: name, Windows: windows, Delays: pool.Delays{Unbind: time.Second, Stop: time.Second}},
			Open:   func(*slog.Logger) (driver.Driver, error) { return noop.Driver{}, nil },
		}
	}
	n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) {
		c.Pools = []pool.Setup{setup("nightly", pool.Window{Schedule: over, For: time.Hour}), setup("always")}
		c.Log = slog.New(slog.DiscardHandler)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for name, waits := range map[string]bool{"nightly": true, "always": false} {
		spec := rouse.Spec{Schedule: "@every 1h", Target: "pool:" + name + "/42"}
		if _, err := n.Create(ctx, name, spec); err != nil {
			t.Fatal(err)
		}
		x, err := n.Explain(ctx, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(x.Reasons, func(r timers.Reason) bool {
			return r.Code == "obstacle" && strings.Contains(r.Text, "the pool nightly waits for its windows, none of which opens again")
		})
		if named != waits {
			t.Errorf("%s: %+v", name, x.Reasons)
		}
	}
}
