package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/scheduler"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/server"
)

// dapr is the face that Dapr's sidecars see. Every node has its sink, so that no fire of a job fails where no sidecar can come; one
// without a listener keeps such fires until their bucket moves to a node that has one.
type dapr struct {
	sink     *watch.Sink
	listener net.Listener       // nil: there is no face
	identity *identity.Identity // nil: anybody may be anybody
	server   *scheduler.Server  // nil: there is none, or not yet
}

// checkDapr looks at what concerns Dapr's sidecars.
func (c *Config) checkDapr() (bad problems) {
	if c.DaprListen == "" {
		return nil
	}
	if err := server.CheckListener("dapr-listen", c.DaprListen, "127.0.0.1:50006, or nothing", c.Insecure || c.daprIdentified()); err != nil {
		bad.of(err)
		bad[len(bad)-1].Wrong += "; or give the node an identity with dapr-sentry or dapr-cert"
	}
	if !c.has("executor") {
		bad.add("dapr-listen", "is for nodes that deliver, and roles leaves out executor: give both, or neither")
	}
	if c.DaprAdvertise != "" {
		if _, _, err := net.SplitHostPort(c.DaprAdvertise); err != nil {
			bad.add("dapr-advertise", "%q is no address: give HOST:PORT as sidecars reach this node, or nothing", c.DaprAdvertise)
		}
	}
	if c.DaprConnections < 1 {
		bad.add("dapr-connections", "is %d: give 1 or more", c.DaprConnections)
	}
	if c.Queue != "" {
		bad.add("dapr-listen", "does not go with a queue: a trigger waits for its answer as long as that takes, and brokers do not; leave one of them out")
	}
	return append(bad, c.checkDaprIdentity()...)
}

// listenDapr opens the listener, if there is to be one.
func (n *Node) listenDapr() (err error) {
	n.dapr = &dapr{}
	if n.cfg.DaprListen == "" {
		return nil
	}
	if n.dapr.identity, err = n.cfg.daprIdentity(); err != nil {
		return absent(err)
	}
	if n.dapr.listener, err = net.Listen("tcp", n.cfg.DaprListen); err != nil {
		return fmt.Errorf("listen for Dapr's sidecars: %w", err)
	}
	return nil
}

// daprSink makes the sink of jobs. It holds up to half of what the engine has in memory.
func (n *Node) daprSink() rouse.Sink {
	n.dapr.sink = watch.New(watch.Options{MaxHeld: n.cfg.Window / 2, MaxStreams: n.cfg.DaprConnections})
	if n.dapr.listener == nil {
		return unwatched{n.dapr.sink}
	}
	return n.dapr.sink
}

// unwatched is the sink of a node without a listener for sidecars: it takes no new jobs.
type unwatched struct{ *watch.Sink }

func (unwatched) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "is of Dapr's sidecars, and none can watch for it here", "set dapr-listen, on every node of the store")
}

// serveDapr makes the server, when the engine is there.
func (n *Node) serveDapr() {
	if n.dapr.listener == nil {
		return
	}
	o := scheduler.Options{Timers: n.timers, Watch: n.dapr.sink, Address: n.daprAddress(), Identity: n.dapr.identity, Log: n.cfg.Log, Grace: n.cfg.Grace,
		MaxConns: n.cfg.DaprConnections}
	if nodes := n.cluster.nodes; nodes != nil {
		o.Hosts = func(ctx context.Context) (list []string, err error) {
			all, err := nodes(ctx)
			for _, other := range all {
				s := publishedBy(other.Data)
				if s.Dapr != "" {
					list = append(list, s.Dapr)
				}
			}
			return list, rouse.Unavailable(err)
		}
	}
	n.dapr.server = scheduler.New(o)
	n.metrics.registry.MustRegister(daprMetrics{n.dapr.sink.Counts, n.dapr.server.Counts})
}

// daprAddress is where sidecars reach this node: what is advertised, or where it listens, but with an address of the machine if that is
// every address. "" if there is no listener.
func (n *Node) daprAddress() string {
	addr := address(n.dapr.listener)
	if addr == "" || n.cfg.DaprAdvertise != "" {
		return n.cfg.DaprAdvertise
	}
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return addr
	}
	return net.JoinHostPort(machine(), port)
}

// machine returns an address of this machine that others may reach: the first one of its network that is no loopback, or else its name.
// It is an address rather than the name because the name of a pod means nothing to other pods.
func machine() string {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, want4 := range []bool{true, false} {
			for _, a := range addresses {
				if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil) == want4 {
					return n.IP.String()
				}
			}
		}
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

// DaprHealthy returns why sidecars cannot be served by this process, or nil. Dapr's charts restart a process that is not healthy, so a store that
// is away is no reason: calls fail as unavailable until it is back.
func (n *Node) DaprHealthy() error {
	if n.dapr.server == nil {
		return errors.New("nobody listens for sidecars")
	}
	if i := n.dapr.identity; i != nil {
		if err := i.Healthy(); err != nil {
			return fmt.Errorf("sidecars would not believe this node: %w", err)
		}
	}
	if err := n.running(); err != nil {
		return err
	}
	return n.timers.Alive()
}

// DaprAddr returns where Dapr's sidecars are served, "" if they are not.
func (n *Node) DaprAddr() string { return address(n.dapr.listener) }

// close ends what a node that never ran has of it.
func (d *dapr) close() error {
	if d == nil || d.listener == nil {
		return nil
	}
	if d.server != nil {
		d.server.Close()
	}
	if err := d.listener.Close(); !errors.Is(err, net.ErrClosed) { // the server closes it if it has run
		return err
	}
	return nil
}
