package pool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
)

// stock is the transport of a pool, with a fixed state and one request in its inventory.
type stock struct{ state string }

func (s *stock) State() string  { return s.state }
func (s *stock) Leader() string { return "other" }

func (s *stock) ListPoison(_ context.Context, limit int) ([]Poison, error) {
	return []Poison{{ID: "a", Key: "k", Size: limit}}, nil
}

func (s *stock) InspectPoison(_ context.Context, id string) (Poison, error) {
	if id != "a" {
		return Poison{}, fmt.Errorf("poison %s: %w", id, rouse.ErrNotFound)
	}
	return Poison{ID: "a", Body: []byte("x")}, nil
}

func (s *stock) ReplayPoison(_ context.Context, id string) (int, error) {
	if s.state != StateLeading {
		return 0, fmt.Errorf("replay: %w", rouse.ErrUnavailable)
	}
	return 1 + len(id), nil
}

func (s *stock) PurgePoison(context.Context, string) (int, error) {
	return 0, errors.New("it is raining")
}

// TestHandler checks the answers of the HTTP API.
func TestHandler(t *testing.T) {
	m, err := NewManager(Config{Name: "core", Delays: Delays{1e9, 1e9}, Driver: asDriver{newSimulation(t, 1)}, Metrics: NewRegistry(prometheus.NewRegistry()).Pool("core")})
	if err != nil {
		t.Fatal(err)
	}
	s := &stock{state: StateLeading}
	h := NewHandler([]Served{{m, s}})
	ask := func(method, path string, headers ...string) (int, string) {
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	for _, c := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/pools", 200, `[{"pool":"core","namespaces":"shared","state":"leading","groups":0,"workers":0,"waiting":0,"leader":"other"}]`},
		{"GET", "/pools/core", 200, `{"pool":"core","namespaces":"shared","leads":false,"groups":[],"leader":"other"}`},
		{"POST", "/pools/core/stop?key=k", 503, "does not lead"},
		{"POST", "/pools/core/restart?key=", 503, "does not lead"},
		{"POST", "/pools/core/pin?key=k&off=true", 503, "does not lead"},
		{"POST", "/pools/core/pin", 400, "key"},
		{"GET", "/pools/other", 404, "no such pool"},
		{"GET", "/pools/core/poison", 200, `"size":100`},
		{"GET", "/pools/core/poison?limit=7", 200, `"size":7`},
		{"GET", "/pools/core/poison?limit=0", 400, "limit"},
		{"GET", "/pools/core/poison?limit=x", 400, "limit"},
		{"GET", "/pools/core/poison/a", 200, `"body":"eA=="`},
		{"GET", "/pools/core/poison/b", 404, "poison b"},
		{"POST", "/pools/core/poison/a/replay", 200, `{"requests":2}`},
		{"POST", "/pools/core/poison/replay", 200, `{"requests":1}`},
		{"DELETE", "/pools/core/poison/a", 500, "raining"},
		{"PUT", "/pools/core/poison", 405, ""},
	} {
		if status, body := ask(c.method, c.path); status != c.status || !strings.Contains(body, c.contains) {
			t.Errorf("%s %s is answered %d, %s", c.method, c.path, status, body)
		}
	}
	if status, _ := ask("POST", "/pools/core/poison/replay", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("a page of another origin is answered %d", status)
	}
	bare := struct{ Transport }{s} // without an inventory
	h = NewHandler([]Served{{m, bare}})
	if status, body := ask("GET", "/pools/core/poison"); status != 400 || !strings.Contains(body, "rouse dead list") {
		t.Errorf("a pool without an inventory of poison answers %d, %s", status, body)
	}
	h = NewHandler([]Served{{m, s}})
	s.state = StateConnecting
	if status, _ := ask("POST", "/pools/core/poison/replay"); status != 503 {
		t.Errorf("while it does not lead, a replay is answered %d", status)
	}
}

// TestConfigIsChecked checks that invalid settings are refused with the name of the setting.
func TestConfigIsChecked(t *testing.T) {
	good := Config{Name: "core", Delays: Delays{1e9, 1e9}, Driver: asDriver{newSimulation(t, 1)}, Metrics: NewRegistry(prometheus.NewRegistry()).Pool("core")}
	for field, spoil := range map[string]func(c *Config){
		"name": func(c *Config) { c.Name = "amq.x" }, "unbind_delay": func(c *Config) { c.Unbind = 0 }, "stop_delay": func(c *Config) { c.Stop = -1 },
		"extra_lifetime": func(c *Config) { c.ExtraLifetime = -1 }, "workers": func(c *Config) { c.Workers = 1001 },
		"max_groups": func(c *Config) { c.Limits.Groups = -1 }, "max_workers": func(c *Config) { c.Workers, c.Limits.Workers = 3, 2 },
		"max_starts_per_second": func(c *Config) { c.Limits.Starts = 2_000_000 }, "pinned.key": func(c *Config) { c.Pinned = []string{"\xff"} },
		"driver": func(c *Config) { c.Driver = nil }, "metrics": func(c *Config) { c.Metrics = nil },
	} {
		c := good
		spoil(&c)
		_, err := NewManager(c)
		if inv, ok := errors.AsType[*rouse.Invalid](err); !ok || inv.Problems[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
