// Package dapr makes a node the scheduler service of Dapr's sidecars: jobs, actor reminders and workflows are
// timers. A program that serves them imports it, and sets Config.DaprListen:
//
//	import _ "github.com/rousehq/rouse/node/dapr"
package dapr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/scheduler"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/node"
)

// Door serves Dapr's sidecars. Every node has its sink, so that no fire of a job fails where no
// sidecar can come; one without a listener keeps such fires until their bucket moves to a node that has one.
type Door struct {
	core     core
	sink     *watch.Sink
	listener net.Listener       // nil: there is no door
	identity *identity.Identity // nil: sidecars are not authenticated
	server   *scheduler.Server  // nil: there is none, or not yet
}

// Of returns the door of a node.
func Of(n *node.Node) *Door { return node.Find[*Door](n) }

// checkDaprSettings checks the settings of Dapr's sidecars.
func checkDaprSettings(c *node.Config) error {
	var bad rouse.Invalid
	if c.DaprListen == "" {
		return nil
	}
	rule := listen.Rule{Insecure: c.Insecure, TLS: hasIdentity(c), Access: hasIdentity(c),
		How: "give the node an identity with dapr-sentry or dapr-cert"}
	bad.Add(rule.Check("dapr", "dapr-listen", c.DaprListen, "127.0.0.1:50006, or nothing"))
	if !c.Has("executor") {
		bad.Wrong("dapr-listen", "is for nodes that deliver, and roles leaves out executor: give both, or neither")
	}
	if c.DaprAdvertise != "" {
		if _, _, err := net.SplitHostPort(c.DaprAdvertise); err != nil {
			bad.Wrong("dapr-advertise", "%q is no address: give HOST:PORT as sidecars reach this node, or nothing",
				c.DaprAdvertise)
		}
	}
	if c.DaprConnections < 1 {
		bad.Wrong("dapr-connections", "is %d: give 1 or more", c.DaprConnections)
	}
	if c.Queue != "" {
		bad.Wrong("dapr-listen",
			"does not go with a queue: a trigger waits for its answer as long as that takes, and brokers do not; leave one of them out")
	}
	bad.Add(checkIdentity(c))
	return bad.Err()
}

// openDaprPart opens the listener, if there is to be one, and the sink of jobs, which holds up to half of the
// engine's rows in memory.
func openDaprPart(ctx context.Context, c core) (parts.Part, error) {
	cfg := c.Config()
	d := &Door{core: c, sink: watch.New(watch.Options{MaxHeld: cfg.Window / 2, MaxStreams: cfg.DaprConnections})}
	p := parts.Part{Value: d, Drain: d.sink.Drain, Sinks: map[string]rouse.Sink{"dapr": unwatched{d.sink}}}
	if cfg.DaprListen == "" {
		return p, nil
	}
	p.Sinks["dapr"] = d.sink
	p.Publish = func(to *parts.Published) { to.Dapr = d.reachableAddress() }
	p.Start, p.Serve, p.Close = d.makeDaprServer, d.serveSidecars, d.closeListener
	return p, c.Await(ctx, "the identity for Dapr's sidecars", func() (err error) {
		if d.identity, err = whoIs(cfg); errors.Is(err, fs.ErrNotExist) {
			return rouse.Unavailable(err) // secrets may be mounted late
		}
		if err == nil {
			if d.listener, err = net.Listen("tcp", cfg.DaprListen); err != nil {
				err = fmt.Errorf("listen for Dapr's sidecars: %w", err)
			}
		}
		return err
	})
}

// unwatched is the sink of a node without a listener for sidecars: it takes no new jobs.
type unwatched struct{ *watch.Sink }

func (unwatched) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "is of Dapr's sidecars, and none can watch for it here",
		"set dapr-listen, on every node of the store")
}

// makeDaprServer makes the server, when the engine is there.
func (d *Door) makeDaprServer() error {
	cfg := d.core.Config()
	o := scheduler.Options{Timers: d.core.Timers(), Watch: d.sink, Address: d.reachableAddress(), Identity: d.identity,
		Log: cfg.Log, Grace: cfg.Grace,
		MaxConns: cfg.DaprConnections}
	if nodes := d.core.Nodes(); nodes != nil {
		o.Hosts = func(ctx context.Context) (list []string, err error) {
			all, err := nodes(ctx)
			for _, other := range all {
				s := parts.PublishedBy(other.Data)
				if s.Dapr != "" {
					list = append(list, s.Dapr)
				}
			}
			return list, rouse.Unavailable(err)
		}
	}
	o.Audit, _ = d.core.Audit()
	o.Access = d.core.Access()
	d.server = scheduler.New(o)
	return d.core.Registry().Register(metrics{d.sink.Counts, d.server.Counts})
}

// reachableAddress is where sidecars reach this node: the advertised address, or the listener's, but with an
// address of the machine if that is every address.
func (d *Door) reachableAddress() string {
	addr, told := d.Addr(), d.core.Config().DaprAdvertise
	if told != "" {
		return told
	}
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return addr
	}
	return net.JoinHostPort(machineAddress(), port)
}

// machineAddress returns an address of this machine that others may reach: the first one of its network that
// is no loopback, or else its name. It is an address rather than the name because the name of a pod means
// nothing to other pods.
func machineAddress() string {
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

// Healthy returns why sidecars cannot be served by this process, or nil. Dapr's charts restart a process that
// is not healthy, so a store that is away is no reason: calls fail as unavailable until it is back.
func (d *Door) Healthy() error {
	if d.server == nil {
		return errors.New("this node does not listen for sidecars")
	}
	if i := d.identity; i != nil {
		if err := i.Healthy(); err != nil {
			return fmt.Errorf("sidecars would not believe this node: %w", err)
		}
	}
	if err := d.core.Running(); err != nil {
		return err
	}
	return d.core.Timers().Alive()
}

// Addr returns where Dapr's sidecars are served, "" if they are not.
func (d *Door) Addr() string {
	if d == nil || d.listener == nil {
		return ""
	}
	return d.listener.Addr().String()
}

// closeListener closes the server and the listener of a node that never ran.
func (d *Door) closeListener() error {
	if d.server != nil {
		d.server.Close()
	}
	if d.listener == nil {
		return nil
	}
	if err := d.listener.Close(); !errors.Is(err, net.ErrClosed) { // the server closes it if it has run
		return err
	}
	return nil
}
