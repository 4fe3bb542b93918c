package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func config(t *testing.T, store string) Config {
	c := Defaults()
	c.Listen, c.Admin, c.Data, c.Store, c.AllowPrivate = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), store, true
	c.Grace, c.Window, c.WindowBytes, c.MaxDeliveries, c.HostConcurrency = time.Second, 1000, 1<<20, 10, 2
	c.HistoryAge, c.HistoryMax, c.Version = time.Hour, 1000, "test"
	return c
}

// serve runs a node and returns its addresses, and a function that stops it.
func serve(t *testing.T, cfg Config) (api, admin string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up := make(chan [2]string, 1)
	down := make(chan error, 1)
	go func() {
		down <- Run(ctx, cfg, slog.New(slog.DiscardHandler), func(api, admin string) { up <- [2]string{api, admin} })
	}()
	select {
	case addrs := <-up:
		return addrs[0], addrs[1], func() {
			cancel()
			if err := <-down; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	case err := <-down:
		cancel()
		t.Fatalf("Run: %v", err)
		return "", "", nil
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", url, resp.Status, b, err)
	}
	return string(b)
}

func TestANodeServesAndLeavesNothingBehind(t *testing.T) {
	for _, store := range []string{"", "mem:"} {
		defer goleak.VerifyNone(t)
		api, admin, stop := serve(t, config(t, store))
		resp, err := http.Post("http://"+api+"/v1/namespaces/default/timers", "application/json",
			strings.NewReader(`{"name":"a","schedule":"@after 1h","target":"stream:x"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Errorf("create: %s", resp.Status)
		}
		if m := get(t, "http://"+admin+"/metrics"); !strings.Contains(m, `rouse_timers{state="scheduled"} 1`) || !strings.Contains(m, "rouse_fires_early_total 0") {
			t.Errorf("metrics:\n%s", m)
		}
		get(t, "http://"+admin+"/readyz")
		http.DefaultClient.CloseIdleConnections()
		stop()
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"insecure":         func(c *Config) { c.Listen = "0.0.0.0:0" },
		"listen":           func(c *Config) { c.Listen = "7411" },
		"admin":            func(c *Config) { c.Admin = "here" },
		"store":            func(c *Config) { c.Store = "oracle:x" },
		"data":             func(c *Config) { c.Data = "" },
		"window: is":       func(c *Config) { c.Window = 1 },
		"window-bytes":     func(c *Config) { c.WindowBytes = 1 },
		"max-deliveries":   func(c *Config) { c.MaxDeliveries = 0 },
		"host-concurrency": func(c *Config) { c.HostConcurrency = 0 },
		"grace":            func(c *Config) { c.Grace = -1 },
		"ahead":            func(c *Config) { c.Ahead = time.Millisecond },
		"history-age":      func(c *Config) { c.HistoryAge = 0 },
		"settle-wait":      func(c *Config) { c.SettleWait = time.Minute },
		"URL of a Redis":   func(c *Config) { c.Store, c.Index = "postgres://h/d", "http://h/" },
		"in PostgreSQL":    func(c *Config) { c.Index = "redis://h/0" },
		"index-criticality": func(c *Config) {
			c.IndexCriticality = 10
		},
	} {
		c := config(t, "")
		edit(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := config(t, "")
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}
