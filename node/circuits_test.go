package node

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/test/servers"
)

func TestCircuitOptions(t *testing.T) {
	c := Defaults()
	if err := c.Circuits.UnmarshalText([]byte(`https://old.example.com/ off
		https://API.example.com/v1 namespace=acme share=0.8 deliveries=20
		* namespace=acme window=1m
		https://api.example.com/ open=5s`)); err != nil {
		t.Fatal(err)
	}
	if err := c.checkCircuits(); err != nil {
		t.Fatal(err)
	}
	acme := sink.CircuitOptions{Window: time.Minute}
	for _, x := range []struct {
		namespace, name string
		want            sink.CircuitOptions
	}{
		{"a", "https://old.example.com/", sink.CircuitOptions{Off: true}}, // the host
		{"acme", "https://old.example.com/x", sink.CircuitOptions{Off: true}},
		{"acme", "https://api.example.com/v1/x", sink.CircuitOptions{Share: 0.8, Deliveries: 20}},
		{"acme", "https://api.example.com/", acme},
		{"acme", "https://api.example.com/v2", acme},
		{"a", "https://api.example.com/v1/x", sink.CircuitOptions{Open: 5 * time.Second}},
		{"a", "https://api.example.com/", sink.CircuitOptions{Open: 5 * time.Second}},
		{"a", "https://api.example.com.evil.example/", sink.CircuitOptions{}},
	} {
		if got := c.circuitOptions(x.namespace, x.name); got != x.want {
			t.Errorf("%s, %s: %+v, want %+v", x.namespace, x.name, got, x.want)
		}
	}
}

func TestCircuitsThatAreRefused(t *testing.T) {
	for want, s := range map[string]Circuit{
		"circuits[0].namespace":  {Namespace: "No", Target: "*", Off: true},
		"circuits[0].target":     {Target: "stream:x", Off: true},
		"circuits[0].share":      {Target: "*", Share: 1.5},
		"circuits[0].deliveries": {Target: "*", Deliveries: -1},
		"circuits[0].window":     {Target: "*", Window: 2 * time.Hour},
		"circuits[0].open":       {Target: "*", Open: time.Millisecond},
		"leaves nothing to set":  {Target: "*", Off: true, Open: time.Second},
		"are missing":            {Target: "*"},
	} {
		c := Defaults()
		c.Circuits = Circuits{s}
		var inv *rouse.Invalid
		if err := c.checkCircuits(); !errors.As(err, &inv) || len(inv.Problems) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A node has the circuits of its settings: its targets, its doctor and explain name that of an address and
// that of a host.
func TestCircuitsOfANode(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{"mem": func(testing.TB) string { return "mem:" }, "postgres": servers.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCircuits(t, url(t))
		})
	}
}

func checkCircuits(t *testing.T, store string) {
	fails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" || r.URL.Path == "/off" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer fails.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := open(t, store, func(c *Config) {
		c.AllowPrivate, c.Unsafe = true, true
		c.Circuits = Circuits{{Target: fails.URL + "/off", Off: true}, {Target: "*", Deliveries: 2, Open: time.Minute}}
	})
	run(t, n)
	waitUntilItRuns(t, n)
	for name, target := range map[string]string{"bad": fails.URL + "/bad?id=1", "off": fails.URL + "/off", "ok": fails.URL + "/ok", "down": down + "/x"} {
		spec := rouse.Spec{Schedule: "@every 10ms", Target: target, Retry: rouse.Retry{Attempts: 1}}
		if _, err := n.Create(t.Context(), name, spec); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]bool{fails.URL + "/bad": true, down: true}
	poll.Until(t, "the circuits are open", func() bool {
		list, _ := ownStatus{n}.Targets()
		open := 0
		for i := range list {
			if list[i].Circuit == rouse.CircuitClosed {
				continue
			}
			if open++; !want[list[i].Name] || list[i].Since == 0 || list[i].Probe <= list[i].Since {
				t.Fatalf("%+v", list[i])
			}
		}
		return open == len(want)
	})
	for name, circuit := range map[string]string{"bad": "the address " + fails.URL + "/bad ", "down": "the host " + down + " "} {
		poll.Until(t, "explain names "+circuit, func() bool {
			x, err := n.Explain(t.Context(), name, 0)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(x.Reasons, func(r timers.Reason) bool { return r.Code == "obstacle" && strings.Contains(r.Text, circuit) })
		})
	}
	finds(t, n, "circuits", rouse.SeverityWarning, fails.URL+"/bad", down)
}
