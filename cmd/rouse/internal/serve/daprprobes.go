package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
)

// probes are the health and metrics ports of Dapr's scheduler: GET /healthz, and GET /metrics or, as in the
// annotations of Dapr's chart, GET /. They listen from before the node starts until after it ended.
type probes struct {
	ctx              context.Context // of the program: when it ends, the node is no longer ready
	node             atomic.Pointer[node.Node]
	healthz, metrics string // addresses
	daemon.Ports
}

// openProbes opens the ports of the flags.
func (f *daprFlags) openProbes(ctx context.Context) (p *probes, err error) {
	p = &probes{ctx: ctx}
	if p.healthz, err = p.ServePort("health", hostPort(f.HealthzListenAddress, f.HealthzPort), p.serveHealth,
		"GET /healthz"); err != nil {
		return nil, err
	}
	if f.EnableMetrics {
		if p.metrics, err = p.ServePort("metrics", hostPort(f.MetricsListenAddress, f.MetricsPort), p.serveMetrics,
			"GET /metrics", "GET /{$}"); err != nil {
			return nil, errors.Join(err, p.ClosePorts())
		}
	}
	return p, nil
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// setNode sets the node once it exists.
func (p *probes) setNode(n *node.Node) { p.node.Store(n) }

// serveHealth responds with 200 without a body if sidecars are served, else with 503 and the reason.
func (p *probes) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := p.checkReady(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (p *probes) checkReady() error {
	n := p.node.Load()
	switch {
	case p.ctx.Err() != nil:
		return errors.New("the server is stopping")
	case n == nil:
		return errors.New("the server is starting")
	}
	return dapr.Of(n).Healthy()
}

func (p *probes) serveMetrics(w http.ResponseWriter, r *http.Request) {
	n := p.node.Load()
	if n == nil {
		http.Error(w, "the server is starting", http.StatusServiceUnavailable)
		return
	}
	n.Metrics().ServeHTTP(w, r)
}
