// Package api adds the API, gRPC and HTTP, and the admin port to a node: metrics, health, the status page and profiles. A program that serves
// one of them imports it:
//
//	import _ "github.com/rousehq/rouse/node/api"
//
// It also has the sink of targets "stream:", whose fires clients of the API take.
package api

import (
	"context"
	"io"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink/stream"
)

// Server is implemented by the values of parts that add to what the API and the admin port serve.
type Server interface{ Serve(o *server.Options) }

// check checks the bounds of requests.
func check(c *node.Config) []rouse.Problem {
	var bad setting.Problems
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{{"max-connections", int64(c.MaxConnections), 1, 1 << 20}, {"max-connections-per-address", int64(c.MaxConnectionsAddress), 1, 1 << 20},
		{"request-memory", int64(c.RequestMemory), 16 << 20, 1 << 40}} {
		if n.value < n.least || n.value > n.most {
			bad.Add(n.name, "is %d: give %d to %d", n.value, n.least, n.most)
		}
	}
	return bad
}

// part is the API of one node.
type part struct {
	core    node.Core
	streams *stream.Sink
	server  *server.Server // nil: there is nothing to serve
}

func open(_ context.Context, c node.Core) (node.Part, error) {
	cfg := c.Config()
	o := stream.Options{Now: func() rouse.Instant { return c.Timers().Now() }}
	if cfg.Clock != nil {
		// The wait is measured by the machine's time, while a clock that is moved waits for what fires, and stops whenever it is put off.
		o.Wait, o.MaxPutOff = time.Millisecond, 5*time.Minute
	}
	p := &part{core: c, streams: stream.New(o)}
	return node.Part{Value: p, Sinks: map[string]rouse.Sink{"stream": p.streams}, Start: p.start, Serve: p.serve, Leave: p.leave, Close: p.close}, nil
}

// start makes the server, from what the node and its other parts have.
func (p *part) start() error {
	c, cfg := p.core, p.core.Config()
	api, admin := c.Listeners()
	if api == nil && admin == nil {
		return nil
	}
	o := server.Options{Subscriber: p.streams, Metrics: c.Metrics(), Version: cfg.Version, Log: cfg.Log, Grace: cfg.Grace,
		ParseCalendar: schedule.ParseICalendar, Hosts: cfg.Hosts, MaxConns: cfg.MaxConnections, MaxConnsAddress: cfg.MaxConnectionsAddress,
		RequestMemory: int64(cfg.RequestMemory), Refused: refused(c.Registry())}
	if t := c.Timers(); t != nil {
		o.Timers, o.Live, o.Ready = t, t.Alive, t.Healthy
	}
	if cfg.Clock != nil {
		o.Clock = movable{c.Node, cfg.Clock}
	}
	if c.Nodes() != nil {
		o.Nodes = p.nodes
	}
	if _, ok := c.Store().(rouse.Checkpointer); ok {
		o.Backup = func(ctx context.Context, w io.Writer) error {
			return backup.Write(ctx, c.Store(), w, backup.Info{Version: cfg.Version})
		}
	}
	c.Each(func(value any) {
		if s, ok := value.(Server); ok {
			s.Serve(&o)
		}
	})
	p.server = server.New(o)
	watch(c.Registry(), p.server)
	return nil
}

func (p *part) serve(ctx context.Context) error {
	if p.server == nil {
		return nil
	}
	api, admin := p.core.Listeners()
	return p.server.Run(ctx, api, admin)
}

// leave ends subscriptions, so that the server need not wait for them.
func (p *part) leave() error {
	p.streams.Close()
	return nil
}

func (p *part) close() error {
	if p.server != nil {
		p.server.Close()
	}
	p.streams.Wait()
	return nil
}

// nodes returns the nodes as the API shows them.
func (p *part) nodes(ctx context.Context) ([]server.Node, error) {
	nodes, err := p.core.Nodes()(ctx)
	if err != nil {
		return nil, rouse.Unavailable(err)
	}
	list := make([]server.Node, len(nodes))
	for i, n := range nodes {
		s := node.PublishedBy(n.Data)
		list[i] = server.Node{ID: n.ID, Address: s.Address, Version: s.Version, Started: s.Started, Self: n.ID == p.core.Config().Node, Leader: n.Leader,
			Buckets: len(n.Buckets), Strategy: s.Strategy, Roles: s.Roles, Claims: s.Claims}
	}
	return list, nil
}

// movable is the clock of a node as the API shows and moves it.
type movable struct {
	*node.Node
	clock *node.Clock
}

func (m movable) Now() rouse.Instant   { return rouse.Reached(m.clock.Now()) }
func (m movable) Ahead() time.Duration { return m.clock.Ahead() }
