package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/local"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/sink/stream"
)

// Pool is a pool of workers that this node manages. The fires of timers with the target "pool:NAME/KEY" are requests for it.
type Pool struct {
	pool.Config // without its Driver, Log and Metrics, which are the node's to give

	// Requests opens the transport of a pool whose requests are at a broker, those of other clients included. Without it they are timers of
	// the store, and workers take them from this node.
	Requests func(m *pool.Manager, o pool.CallerOptions) (pool.Controller, pool.Caller, error)

	// Prewarm is how long before its time the group of a timer's key is started; 0 is when the time has come.
	Prewarm time.Duration

	// Stall is after how long workers that hold requests of the store and do nothing are replaced; 0 is never.
	Stall time.Duration

	// Open makes what starts the workers.
	Open func(log *slog.Logger) (driver.Driver, error)
}

// pools are the pools of a node. Every node has their sink, so that a request for a pool that is elsewhere waits, and does not fail.
type pools struct {
	sink    *local.Sink
	calls   *server.Calls // nil: there are no pools
	list    []*local.Pool
	remote  []remotePool // whose requests are at a broker
	drivers []driver.Driver
	grace   time.Duration
	prewarm time.Duration  // the longest of all
	life    sync.WaitGroup // of what manages them
	stop    context.CancelFunc
	now     func() rouse.Instant
}

// checkPools looks at what concerns pools.
func (c *Config) checkPools() (bad problems) {
	if len(c.Pools) == 0 {
		return nil
	}
	switch {
	case slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Requests == nil }) && (c.Listen == "" || !c.has("api")):
		bad.add("pools", "are set, and there is no API at which their workers could connect: give listen and the role api, or leave them out")
	case c.Strategy == "tick" && slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Requests == nil }):
		bad.add("pools", "are set, and with the strategy tick any node fires any timer, so that a key would have workers on each: set the strategy bucket or lease")
	case !c.has("executor"):
		bad.add("pools", "are for nodes that deliver, and roles leaves out executor: give both, or neither")
	case c.Queue != "":
		bad.add("pools", "do not go with a queue: a request waits for its answer as long as that takes, and brokers do not; leave one of them out")
	}
	for i := range c.Pools {
		if c.Pools[i].Open == nil {
			bad.add("pools", "%q has nothing that starts its workers: name a driver", c.Pools[i].Name)
		}
	}
	return bad
}

// Of queues in memory nothing is learned late, so they need not be watched for long before they go, and their names not be spared.
const (
	localSettle = time.Second
	localRest   = 10 * time.Millisecond
)

// openPools makes the pools, which do nothing before the node runs.
func (n *Node) openPools() (err error) {
	n.pools = &pools{grace: n.cfg.Grace, stop: func() {}, now: func() rouse.Instant { return n.timers.Now() }}
	o := local.Options{MaxHeld: n.cfg.Window / 2, Now: n.pools.now}
	o.Alive = n.alive
	if len(n.cfg.Pools) > 0 {
		n.pools.calls = server.NewCalls(local.CheckedTarget)
		o.Answered = n.pools.calls.Answered
	}
	sinks := 1 // that hold requests, and share half of what the engine has in memory
	for i := range n.cfg.Pools {
		if n.cfg.Pools[i].Requests != nil {
			sinks++
		}
	}
	o.MaxHeld /= sinks
	n.pools.sink = local.New(o)
	if len(n.cfg.Pools) == 0 {
		return nil
	}
	registry := pool.NewRegistry(n.metrics.registry)
	for i := range n.cfg.Pools {
		if err := n.openPool(&n.cfg.Pools[i], registry, o); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) openPool(of *Pool, registry *pool.Registry, o local.Options) error {
	c := *of
	d, err := c.Open(n.cfg.Log)
	if err != nil {
		return err
	}
	n.pools.drivers = append(n.pools.drivers, d)
	if err := pool.CheckName(c.Name); err != nil {
		return fmt.Errorf("pool %q: %w", c.Name, err)
	}
	if c.Requests == nil {
		c.Timing.Settle, c.Timing.Rest = cmp.Or(c.Timing.Settle, localSettle), cmp.Or(c.Timing.Rest, localRest)
	}
	c.Driver, c.Log, c.Metrics = d, n.cfg.Log, registry.Pool(c.Name)
	m, err := pool.NewManager(c.Config)
	if err != nil {
		return err
	}
	n.pools.prewarm = max(n.pools.prewarm, c.Prewarm)
	if c.Requests != nil {
		controller, caller, err := c.Requests(m, pool.CallerOptions{MaxWaiting: o.MaxHeld, Prewarm: c.Prewarm, Answered: o.Answered})
		if err != nil {
			return err
		}
		n.pools.remote = append(n.pools.remote, remotePool{c.Name, m, controller, caller})
		return nil
	}
	p, err := n.pools.sink.Add(m, local.PoolOptions{Address: n.workerAddress, Prewarm: c.Prewarm, Stall: c.Stall})
	if err != nil {
		return fmt.Errorf("pool %q: %w", c.Name, err)
	}
	n.pools.list = append(n.pools.list, p)
	return nil
}

// alive says of fires whether what fired them is still there: a timer, or what it has beside it.
func (n *Node) alive(ctx context.Context, fires []rouse.Fire) ([]bool, error) {
	keys := make([]rouse.Key, 0, 2*len(fires))
	for i := range fires {
		f := &fires[i]
		keys = append(keys, rouse.Key{Namespace: f.Namespace, Name: f.Name}, rouse.Key{Namespace: f.Namespace, Name: f.Name, Fire: f.ID})
	}
	rows, err := n.store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	is := make([]bool, len(fires))
	for i := range fires {
		for _, row := range rows[2*i : 2*i+2] {
			is[i] = is[i] || row.Revision != 0 && row.Generation == fires[i].Generation
		}
	}
	return is, nil
}

// workerAddress is where workers reach the API: what is advertised, or where it listens, on loopback if that is every address.
func (n *Node) workerAddress() string {
	if n.cfg.Advertise != "" {
		return n.cfg.Advertise
	}
	host, port, err := net.SplitHostPort(n.Addr())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return n.Addr()
}

// runPools manages the pools until they are closed. It returns when they take requests.
func (n *Node) runPools(ctx context.Context) error {
	ctx, n.pools.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, p := range n.pools.list {
		run, err := p.Begin(ctx)
		if err != nil {
			return err
		}
		n.pools.life.Go(run)
	}
	for _, r := range n.pools.remote {
		n.pools.life.Go(func() { r.lead(ctx, n.cfg.Log) })
		n.pools.life.Go(func() { r.caller.Run(ctx) })
	}
	return nil
}

// close ends the pools and their workers: what they had is settled by now, or never will be.
func (p *pools) close() error {
	if p == nil {
		return nil
	}
	p.stop()
	p.life.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), p.grace)
	defer cancel()
	var ending sync.WaitGroup
	errs := make([]error, len(p.drivers))
	for i, d := range p.drivers {
		ending.Go(func() { errs[i] = d.Close(ctx) })
	}
	ending.Wait()
	p.drivers = nil
	p.sink.Close()
	return errors.Join(errs...)
}

// events tells those who wait for requests of records, beside whoever hears of them already.
func (p *pools) events(e engine.Events) engine.Events {
	if p.calls == nil {
		return e
	}
	before := e.Recorded
	e.Recorded = func(records []rouse.Record) {
		if before != nil {
			before(records)
		}
		p.calls.Recorded(records)
	}
	return e
}

// handler tells operators of the pools; nil if there are none.
func (p *pools) handler() http.Handler {
	if len(p.drivers) == 0 {
		return nil
	}
	return pool.NewHandler(p.served())
}

func (p *pools) served() []pool.Served {
	served := make([]pool.Served, len(p.list))
	for i, one := range p.list {
		served[i] = pool.Served{Manager: one.Manager(), Transport: one}
	}
	for _, r := range p.remote {
		served = append(served, pool.Served{Manager: r.manager, Transport: r.controller})
	}
	return served
}

// Pools returns what the node's pools look like.
func (n *Node) Pools() []pool.View {
	var views []pool.View
	for _, p := range n.pools.served() {
		views = append(views, p.Manager.View())
	}
	return views
}

// subscribers serves the subscriptions of workers and of all others.
type subscribers struct {
	*stream.Sink
	workers *local.Sink
}

// Subscribe reads the first request, which says whose subscription it is.
func (s subscribers) Subscribe(to rousev1.Fires_SubscribeServer) error {
	first, err := to.Recv()
	replay := &replayed{Fires_SubscribeServer: to, first: first, err: err, again: true}
	if err == nil && local.Mine(first.GetOpen()) {
		return s.workers.Subscribe(replay)
	}
	return s.Sink.Subscribe(replay)
}

// replayed is a stream whose first request was read.
type replayed struct {
	rousev1.Fires_SubscribeServer
	first *rousev1.SubscribeRequest
	err   error
	again bool // the first is to be told; the goroutine that receives owns it
}

// Recv returns the first request, and then those that follow.
func (r *replayed) Recv() (*rousev1.SubscribeRequest, error) {
	if r.again {
		r.again = false
		return r.first, r.err
	}
	return r.Fires_SubscribeServer.Recv()
}

var _ grpc.ServerStream = (*replayed)(nil)

// near is who is told of fires ahead; nil if no pool prewarms.
func (p *pools) near() func(target string, visible rouse.Instant) {
	if p.prewarm == 0 {
		return nil
	}
	return p.target().Near
}

// ahead is how far ahead timers are read into memory: far enough for groups to be started before. Nodes that hold what they read keep
// to what is set.
func (p *pools) ahead(c *Config) time.Duration {
	if p.prewarm == 0 || c.Strategy != Defaults().Strategy {
		return c.Ahead
	}
	return max(c.Ahead, p.prewarm+2*time.Second)
}
