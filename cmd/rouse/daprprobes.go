package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
)

// probes are the health and metrics ports of Dapr's scheduler: GET /healthz, and GET /metrics or, as in the
// annotations of Dapr's chart, GET /. They listen from before the node starts until after it ended.
type probes struct {
	ctx              context.Context // of the program: when it ends, the node is no longer ready
	node             atomic.Pointer[node.Node]
	healthz, metrics string // addresses
	ports
}

// probe opens the ports of the flags.
func (f *daprFlags) probe(ctx context.Context) (p *probes, err error) {
	p = &probes{ctx: ctx}
	if p.healthz, err = p.serve("health", hostPort(f.HealthzListenAddress, f.HealthzPort), p.health, "GET /healthz"); err != nil {
		return nil, err
	}
	if f.EnableMetrics {
		if p.metrics, err = p.serve("metrics", hostPort(f.MetricsListenAddress, f.MetricsPort), p.expose, "GET /metrics", "GET /{$}"); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// of sets the node once it exists.
func (p *probes) of(n *node.Node) { p.node.Store(n) }

// health responds with 200 without a body if sidecars are served, else with 503 and the reason.
func (p *probes) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := p.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (p *probes) ready() error {
	n := p.node.Load()
	switch {
	case p.ctx.Err() != nil:
		return errors.New("the server is stopping")
	case n == nil:
		return errors.New("the server is starting")
	}
	return dapr.Of(n).Healthy()
}

func (p *probes) expose(w http.ResponseWriter, r *http.Request) {
	n := p.node.Load()
	if n == nil {
		http.Error(w, "the server is starting", http.StatusServiceUnavailable)
		return
	}
	n.Metrics().ServeHTTP(w, r)
}
