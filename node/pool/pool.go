// Package pool makes a node manage pools of workers, which it starts on demand. A program with Config.Pools
// imports it:
//
//	import _ "github.com/rousehq/rouse/node/pool"
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/local"
	"github.com/rousehq/rouse/internal/pool/target"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/node"
)

// part is the pools of a node. Every node has their sink, so that a request for a pool that is elsewhere
// waits, and does not fail. A node without a store has pools at brokers only, and ends when one of them
// cannot be managed.
type part struct {
	core   core
	sink   *local.Sink
	calls  *server.Calls // nil: there are no pools
	list   []*local.Pool
	remote []remotePool // whose requests are at a broker

	managers map[string]*pool.Manager // of all pools, by their names
	drivers  []driver.Driver
	prewarm  time.Duration  // the longest of all
	owned    pool.Owned     // groups of all pools, by namespaces
	tokens   *tokens        // of their workers; nil without access control
	life     sync.WaitGroup // of the goroutines that manage them
	stop     context.CancelFunc
	broke    chan error // why the pools of a node that manages pools only are managed no more
}

// Views returns the views of the pools.
func (p *part) Views() (views []pool.View) {
	for _, p := range p.servedPools() {
		views = append(views, p.Manager.View())
	}
	return views
}

// Groups returns how many groups of workers the requests of a namespace have started on this node.
func (p *part) Groups(namespace string) int { return p.owned.Of(namespace) }

// checkPoolSettings checks the settings of pools.
func checkPoolSettings(c *node.Config) error {
	var bad rouse.Invalid
	if len(c.Pools) == 0 {
		return nil
	}
	onStore := slices.ContainsFunc(c.Pools, func(p pool.Setup) bool { return p.Requests == nil })
	switch {
	case c.PoolsOnly() && onStore:
		bad.Wrong("pools", "have requests in a store, and a node with the role pools has none: give it the other roles")
	case c.PoolsOnly():
	case onStore && (c.Listen == "" || !c.Has("api")):
		bad.Wrong("pools",
			"are set, and there is no API at which their workers could connect: give listen and the role api, or leave them out")
	case c.Strategy == "tick" && onStore:
		bad.Wrong("pools",
			"are set, and with the strategy tick any node fires any timer, so that a key would have workers on each: set the strategy bucket or lease")
	case !c.Has("executor"):
		bad.Wrong("pools", "are for nodes that deliver, and roles leaves out executor: give both, or neither")
	case c.Queue != "":
		bad.Wrong("pools",
			"do not go with a queue: a request waits for its answer as long as that takes, and brokers do not; leave one of them out")
	}
	for i := range c.Pools {
		if c.Pools[i].Open == nil {
			bad.Wrong("pools", "%q has nothing that starts its workers: name a driver", c.Pools[i].Name)
		}
		if apartByDefault(c, &c.Pools[i]) {
			bad.Add(checkPinned(c.Pools[i].Config))
		}
	}
	return bad.Err()
}

// apartByDefault reports whether namespaces are apart in a pool because of access control. Those of a pool at
// a broker are not: its other managers do not know whether access control is on, and its workers may report
// by their keys alone.
func apartByDefault(c *node.Config, s *pool.Setup) bool {
	return s.Namespaces == "" && s.Requests == nil && c.AccessOn()
}

// checkPinned refuses pinned keys that were written for a pool whose namespaces share its groups.
func checkPinned(c pool.Config) error {
	var bad rouse.Invalid
	c.Namespaces = pool.Apart
	for i, name := range c.Pinned {
		if _, err := c.ParseGroup(name); err != nil {
			bad.Problems = append(bad.Problems, rouse.Problem{Field: fmt.Sprintf("pinned[%d]", i),
				Value: rouse.Shorten(name, 128),
				Wrong: fmt.Sprintf(
					"names no namespace and key, and with access control the pool %q keeps namespaces apart by default", c.Name),
				Cure: "write NAMESPACE/KEY, or namespaces: shared for the pool"})
		}
	}
	return bad.Err()
}

// Of queues in memory nothing is learned late, so they need not be watched for long before they go, and their
// names not be spared.
const (
	localSettle = time.Second
	localRest   = 10 * time.Millisecond
)

// openPoolPart makes the pools, which do nothing before the node runs.
func openPoolPart(_ context.Context, c core) (parts.Part, error) {
	cfg := c.Config()
	p := &part{core: c, stop: func() {}, managers: map[string]*pool.Manager{}}
	o := local.Options{MaxHeld: cfg.Window / 2, Now: p.storeNow, Alive: p.fireSourcesExist}
	if len(cfg.Pools) > 0 {
		p.calls = server.NewCalls(target.Checked)
		o.Answered = p.calls.Answered
	}
	sinks := 1 // that hold requests, and share half of the engine's rows in memory
	for i := range cfg.Pools {
		if cfg.Pools[i].Requests != nil {
			sinks++
		}
	}
	o.MaxHeld /= sinks
	p.sink = local.New(o)
	made := parts.Part{Value: p, Engine: p.extendEngine, Begin: p.beginPools, Drain: p.drainPools, Leave: p.endPools,
		Close: func() error { p.sink.Wait(); return nil }}
	if cfg.PoolsOnly() {
		made.Work = p.waitUntilBroken
	}
	if gate := c.Access(); gate != nil && len(cfg.Pools) > 0 {
		p.tokens = newTokens()
		gate.Authenticators = append(access.Chain{p.tokens}, gate.Authenticators...)
	}
	registry := pool.NewRegistry(c.Registry())
	for i := range cfg.Pools {
		if err := p.addPool(&cfg.Pools[i], registry, o); err != nil {
			return made, errors.Join(err, p.endPools())
		}
	}
	made.Sinks = map[string]rouse.Sink{"pool": p.sinkOfPools()}
	return made, nil
}

func (p *part) storeNow() rouse.Instant { return p.core.Timers().Now() }

func (p *part) addPool(of *pool.Setup, registry *pool.Registry, o local.Options) error {
	c, log := *of, p.core.Config().Log
	d, err := c.Open(log)
	if err != nil {
		return err
	}
	p.drivers = append(p.drivers, d)
	if err := pool.CheckName(c.Name); err != nil {
		return fmt.Errorf("pool %q: %w", c.Name, err)
	}
	if c.Requests == nil {
		c.Timing.Settle, c.Timing.Rest = cmp.Or(c.Timing.Settle, localSettle), cmp.Or(c.Timing.Rest, localRest)
	}
	if apartByDefault(p.core.Config(), of) {
		c.Namespaces = pool.Apart
	}
	c.Driver, c.Log, c.Metrics, c.Limits.Owned = d, log, registry.Pool(c.Name), &p.owned
	if spaces := p.core.Quotas(); spaces != nil {
		c.Limits.Room = spaces.GroupRoom
	}
	m, err := pool.NewManager(c.Config)
	if err != nil {
		return err
	}
	p.managers[c.Name] = m
	p.prewarm = max(p.prewarm, c.Prewarm)
	if c.Requests != nil {
		controller, caller, err := c.Requests(m, pool.CallerOptions{MaxWaiting: o.MaxHeld, Prewarm: c.Prewarm,
			Answered: o.Answered})
		if err != nil {
			return err
		}
		p.remote = append(p.remote, remotePool{c.Name, m, controller, caller})
		return nil
	}
	options := local.PoolOptions{Address: p.workerAddress, Prewarm: c.Prewarm, Stall: c.Stall}
	if p.tokens != nil {
		options.Token = func(group string) string { return p.tokens.tokenOf(c.Name, group) }
		options.Ended = func(group string) { p.tokens.endToken(c.Name, group) }
	}
	one, err := p.sink.Add(m, options)
	if err != nil {
		return fmt.Errorf("pool %q: %w", c.Name, err)
	}
	p.list = append(p.list, one)
	return nil
}

// fireSourcesExist reports of fires whether their source still exists: a timer, or a row next to it.
func (p *part) fireSourcesExist(ctx context.Context, fires []rouse.Fire) ([]bool, error) {
	keys := make([]rouse.Key, 0, 2*len(fires))
	for i := range fires {
		f := &fires[i]
		keys = append(keys, rouse.Key{Namespace: f.Namespace, Name: f.Name},
			rouse.Key{Namespace: f.Namespace, Name: f.Name, Fire: f.ID})
	}
	rows, err := p.core.Store().Get(ctx, keys)
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

// workerAddress is where workers reach the API: the advertised address, or the listener's, on loopback if
// that is every address.
func (p *part) workerAddress() string {
	if p.core.Config().Advertise != "" {
		return p.core.Advertised()
	}
	addr := p.core.Addr()
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// beginPools manages the pools until they leave. It returns when they take requests.
func (p *part) beginPools(ctx context.Context) error {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, one := range p.list {
		run, err := one.Begin(ctx)
		if err != nil {
			return err
		}
		p.life.Go(run)
	}
	if p.core.Config().PoolsOnly() {
		p.broke = make(chan error, 1)
		p.life.Go(func() { p.broke <- p.manageUntilBroken(ctx) })
		return nil
	}
	for _, r := range p.remote {
		p.life.Go(func() { r.manageRemote(ctx, p.core.Config().Log) })
		p.life.Go(func() { r.caller.Run(ctx) })
	}
	return nil
}

// endPools ends the pools and their workers: their requests are settled by now, or never will be.
func (p *part) endPools() error {
	p.stop()
	p.life.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), p.core.Config().Grace)
	defer cancel()
	var ending sync.WaitGroup
	errs := make([]error, len(p.drivers))
	for i, d := range p.drivers {
		ending.Go(func() { errs[i] = d.Close(ctx) })
	}
	ending.Wait()
	p.sink.Close()
	return errors.Join(errs...)
}

// extendEngine adds the options of the engine that pools need: records of requests for those that wait for
// them, and fires some time ahead, for which groups are started. Nodes that hold the rows they read keep the
// set time.
func (p *part) extendEngine(o *engine.Options) {
	if p.calls != nil {
		before := o.Events.Recorded
		o.Events.Recorded = func(records []rouse.Record) {
			before(records)
			p.calls.Recorded(records)
		}
	}
	if p.prewarm == 0 {
		return
	}
	o.Near = p.sinkOfPools().Near
	if p.core.Config().Strategy == node.Defaults().Strategy {
		o.Ahead = max(o.Ahead, p.prewarm+2*time.Second)
	}
}

// Serve adds the pools to the server of the node.
func (p *part) Serve(o *server.Options) {
	if o.Timers != nil {
		o.Subscriber = subscribers{o.Subscriber, p.sink}
	} else {
		o.Ready = p.notReadyReason
	}
	if len(p.drivers) > 0 {
		o.Calls, o.Pools = p.calls, pool.NewHandler(p.servedPools())
		o.PoolStatus = func() []rouse.PoolStatus { return pool.Statuses(p.servedPools()) }
	}
}

// notReadyReason returns why a node that manages pools only is not ready, or nil: it leads each, or stands
// by.
func (p *part) notReadyReason() error {
	for _, r := range p.remote {
		if state := r.controller.State(); state == pool.StateConnecting {
			return fmt.Errorf("pool %s is %s", r.name, state)
		}
	}
	return nil
}

func (p *part) servedPools() []pool.Served {
	served := make([]pool.Served, len(p.list))
	for i, one := range p.list {
		served[i] = pool.Served{Manager: one.Manager(), Transport: one}
	}
	for _, r := range p.remote {
		served = append(served, pool.Served{Manager: r.manager, Transport: r.controller})
	}
	return served
}

// subscribers serves the subscriptions of workers and of all others.
type subscribers struct {
	server.Subscriber
	workers *local.Sink
}

// Subscribe reads the first request, which has the channel of the subscription.
func (s subscribers) Subscribe(to rousev1.Fires_SubscribeServer) error {
	first, err := to.Recv()
	replay := &replayed{Fires_SubscribeServer: to, first: first, err: err, again: true}
	if err == nil && local.Mine(first.GetOpen()) {
		return s.workers.Subscribe(replay)
	}
	return s.Subscriber.Subscribe(replay)
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
