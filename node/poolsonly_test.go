package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
)

// transport is that of a pool at a broker, which breaks when it is told to.
type transport struct {
	pool.Controller // no test calls the rest
	pool.Caller
	state atomic.Value
	broke chan error
	ended *atomic.Bool
}

func (t *transport) Run(ctx context.Context) error {
	defer t.ended.Store(true)
	select {
	case <-ctx.Done():
		return nil
	case err := <-t.broke:
		return err
	}
}

func (t *transport) State() string { return t.state.Load().(string) }
func (*transport) Leader() string  { return "" }
func (*transport) Drain()          {}

// closing is a driver that checks that nothing manages the pool any more when it is closed.
type closing struct {
	noop.Driver
	t     *testing.T
	ended *atomic.Bool
}

func (c closing) Close(context.Context) error {
	if !c.ended.Load() {
		c.t.Error("the workers are stopped while the pool is managed: another manager cannot take over")
	}
	return nil
}

func poolsOnly(t *testing.T) (Config, *transport) {
	tr := &transport{broke: make(chan error, 1), ended: new(atomic.Bool)}
	tr.state.Store(pool.StateConnecting)
	c := Defaults()
	c.Roles, c.Admin, c.Version = Names{RolePools}, "127.0.0.1:0", "test"
	c.Pools = []pool.Setup{{Config: pool.Config{Name: "core", Delays: pool.Delays{Unbind: time.Second, Stop: time.Second}},
		Open: func(*slog.Logger) (driver.Driver, error) { return closing{t: t, ended: tr.ended}, nil },
		Requests: func(*pool.Manager, pool.CallerOptions) (pool.Controller, pool.Caller, error) {
			return tr, callerOf{tr}, nil
		}}}
	return c, tr
}

// callerOf is the transport as a caller, which a node without timers does not run.
type callerOf struct{ *transport }

func (c callerOf) Run(context.Context) { panic("no timers, no calls") }

func (c callerOf) Obstacle() string { return "" }

// TestANodeThatManagesPoolsOnly has the admin port of any node: health, metrics and its pools; and no store.
func TestANodeThatManagesPoolsOnly(t *testing.T) {
	c, tr := poolsOnly(t)
	_, admin, stop := serve(t, c)
	defer stop()
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get("http://" + admin + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	if status, body := get("/readyz"); status != 503 || !strings.Contains(body, "pool core is connecting") {
		t.Errorf("while it connects, readiness is %d, %s", status, body)
	}
	tr.state.Store(pool.StateLeading)
	for path, want := range map[string]string{"/readyz": "ok", "/livez": "ok", "/pools": `"pool":"core"`, "/metrics": "rouse_pool_leads", "/version": "test"} {
		if status, body := get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s is answered %d, %.300s", path, status, body)
		}
	}
	if _, body := get("/metrics"); strings.Contains(body, "rouse_fire") {
		t.Error("it has metrics of timers")
	}
}

// TestANodeThatManagesPoolsOnlyEndsWithThem: a pool that cannot be managed ends it, so that its supervisor
// sees it; rouse serve tries again.
func TestANodeThatManagesPoolsOnlyEndsWithThem(t *testing.T) {
	c, tr := poolsOnly(t)
	err := Run(t.Context(), c, slog.New(slog.DiscardHandler), func(string, string) { tr.broke <- errors.New("the broker refuses it") })
	if err == nil || !strings.Contains(err.Error(), "the broker refuses it") {
		t.Errorf("it ends with %v", err)
	}
	c.Pools[0].Requests = nil
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "roles") && !strings.Contains(err.Error(), "pools") {
		t.Errorf("a pool on the store: %v", err)
	}
}
