// Package api adds the API, gRPC and HTTP, and the admin port to a node: metrics, health and profiles. A
// program that serves one of them imports it:
//
//	import _ "github.com/rousehq/rouse/node/api"
//
// It also has the sink of targets "stream:", whose fires clients of the API take.
package api

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/internal/console"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink/stream"
)

// served is implemented by the values of parts that add to what the API and the admin port serve.
type served interface{ Serve(o *server.Options) }

// checkRequestBounds checks the bounds of requests.
func checkRequestBounds(c *node.Config) error {
	var bad rouse.Invalid
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{{"max-connections", int64(c.MaxConnections), 1, 1 << 20},
		{"max-connections-per-address", int64(c.MaxConnectionsAddress), 1, 1 << 20},
		{"request-memory", int64(c.RequestMemory), 16 << 20, 1 << 40}} {
		if n.value < n.least || n.value > n.most {
			bad.Wrong(n.name, "is %d: give %d to %d", n.value, n.least, n.most)
		}
	}
	return bad.Err()
}

// part is the API of one node.
type part struct {
	core    core
	streams *stream.Sink
	others  *others
	server  *server.Server // nil: there is nothing to serve
}

func openAPIPart(_ context.Context, c core) (parts.Part, error) {
	cfg := c.Config()
	o := stream.Options{Now: func() rouse.Instant { return c.Timers().Now() }}
	if cfg.Clock != nil {
		// The wait is measured by the machine's time, while a clock that is moved waits for fires, and stops
		// whenever it is put off.
		o.Wait, o.MaxPutOff = time.Millisecond, 5*time.Minute
	}
	p := &part{core: c, streams: stream.New(o), others: &others{core: c, conns: map[string]*grpc.ClientConn{}}}
	return parts.Part{Value: p, Sinks: map[string]rouse.Sink{"stream": p.streams}, Start: p.makeAPIServer,
		Serve: p.runServer, Drain: p.streams.Drain, Leave: p.endSubscriptions, Close: p.closeServer}, nil
}

// makeAPIServer makes the server of the API, from the node and its other parts.
func (p *part) makeAPIServer() error {
	c, cfg := p.core, p.core.Config()
	api, admin := c.Listeners()
	if api == nil && admin == nil {
		return nil
	}
	o := server.Options{Subscriber: p.streams, Polls: p.streams.Poll, Metrics: c.Metrics(), Version: cfg.Version,
		Log: cfg.Log, Grace: cfg.Grace,
		ParseCalendar: schedule.ParseICalendar, Access: c.Access(), Namespaces: c.Quotas(), Limits: c.Limits(), TLS: c.TLS(), Hosts: cfg.Hosts,
		MaxConns:        cfg.MaxConnections,
		MaxConnsAddress: cfg.MaxConnectionsAddress, RequestMemory: int64(cfg.RequestMemory),
		Refused: refusalCounter(c.Registry())}
	if cfg.Console {
		o.Console = console.Serve
	}
	o.Audit, o.Events = c.Audit()
	if t := c.Timers(); t != nil {
		o.Timers, o.Live, o.Ready = t.Guarded(), t.Alive, t.Healthy
		o.Degraded = func() error { return errors.Join(t.Degraded(), t.Clock.WasAhead()) }
	}
	if s := c.Status(); s != nil {
		o.Status = s
	}
	if cfg.Clock != nil {
		o.Clock = movable{c, cfg.Clock}
	}
	if c.Nodes() != nil {
		o.Nodes, o.Others = p.shownNodes, p.others.otherNodes
	}
	if _, ok := c.Store().(rouse.Checkpointer); ok {
		o.Backup = func(ctx context.Context, w io.Writer) error {
			return backup.Write(ctx, c.Store(), w, backup.Info{Version: cfg.Version})
		}
	}
	c.Each(func(value any) {
		if s, ok := value.(*secret.Secrets); ok {
			o.Secrets = s
		}
		if _, ok := value.(interface{ Traces() }); ok {
			o.Traced = true
		}
		if s, ok := value.(served); ok {
			s.Serve(&o)
		}
	})
	p.server = server.New(o)
	watchLoad(c.Registry(), p.server)
	return nil
}

func (p *part) runServer(ctx context.Context) error {
	if p.server == nil {
		return nil
	}
	api, admin := p.core.Listeners()
	return p.server.Run(ctx, api, admin)
}

// endSubscriptions ends subscriptions, so that the server need not wait for them.
func (p *part) endSubscriptions() error {
	p.streams.Close()
	return nil
}

func (p *part) closeServer() error {
	if p.server != nil {
		p.server.Close()
	}
	p.others.closeConnections()
	p.streams.Wait()
	return nil
}

// shownNodes returns the nodes as the API shows them.
func (p *part) shownNodes(ctx context.Context) ([]server.Node, error) {
	nodes, err := p.core.Nodes()(ctx)
	if err != nil {
		return nil, rouse.Unavailable(err)
	}
	list := make([]server.Node, len(nodes))
	for i, n := range nodes {
		s := parts.PublishedBy(n.Data)
		list[i] = server.Node{ID: n.ID, Address: s.Address, Version: s.Version, Started: s.Started,
			Self: n.ID == p.core.Config().Node, Leader: n.Leader,
			Buckets: len(n.Buckets), Strategy: s.Strategy, Roles: s.Roles, Claims: s.Claims}
	}
	return list, nil
}

// movable is the clock of a node as the API shows and moves it.
type movable struct {
	core
	clock *node.Clock
}

func (m movable) Now() rouse.Instant   { return rouse.Reached(m.clock.Now()) }
func (m movable) Ahead() time.Duration { return m.clock.Ahead() }
