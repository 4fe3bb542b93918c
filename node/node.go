// Package node puts store, strategy, engine, sinks and server together: it is what `rouse serve` runs, and how a Go program has
// timers without a server:
//
//	n, err := node.Open(ctx, "pebble:./data")
//	err = n.Handle("greet", func(ctx context.Context, f rouse.Fire) error { … })
//	_, err = n.Create(ctx, "hello", rouse.Spec{Schedule: "@every 1m", Target: "func:greet"})
//	err = n.Run(ctx)
//
// Between Open and Run a node takes calls and keeps what they say durably, but fires nothing. Run fires until its ctx ends,
// and closes the store. Calls after that fail with rouse.ErrClosed.
//
//	store ◄── engine ──► breaker ──► webhook          server ──► engine
//	             ├─────► broker ──► RabbitMQ, NATS, Redis
//	             ├─────► stream ◄────── subscribers ──────┘
//	             └─────► function ──► what Handle registered
//
// Pebble and mem are the stores that are always there. Other kinds of stores and brokers register themselves when a program imports their
// packages, below store and sink/broker; package node/all imports everything.
//
// It ends in the order in which things need each other: the engine stops firing and waits for deliveries while the server
// still takes their acknowledgements; then the server drains its requests; the store is closed last.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/internal/pool/local"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/relay"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/sink/stream"
	"github.com/rousehq/rouse/sink/webhook"
)

// Run serves until ctx ends, and returns when everything has ended; nil if that went well. ready is called once, when the node
// listens, with the addresses of the API and of the admin listener ("" if there is none).
func Run(ctx context.Context, cfg Config, log *slog.Logger, ready func(api, admin string)) error {
	return Serve(ctx, cfg, log, func(n *Node) { ready(n.Addr(), n.AdminAddr()) })
}

// Node is a running rouse. It is safe for concurrent use.
type Node struct {
	cfg       Config
	store     rouse.Store
	secrets   *secrets // nil: callbacks are not signed
	metrics   *metrics
	functions *function.Sink
	hooks     *webhook.Sink
	streams   *stream.Sink
	dapr      *dapr
	reminders *reminders
	pools     *pools
	brokers   *broker.Sink
	timers    *timers.Timers
	cluster   *cluster
	queue     queue.Queue     // nil: schedulers deliver
	deliverer *relay.Executor // nil: this node delivers nothing from a queue
	gate      *gate
	server    *server.Server // nil: there is nothing to serve
	api       net.Listener   // nil: there is no API
	admin     net.Listener   // nil: there are no metrics and no health
	moving    chan struct{}  // who moves the clock

	endEngine context.CancelFunc
	engineErr error         // of engine.Run; set when ended is closed
	ended     chan struct{} // closed when the engine has ended

	mu     sync.Mutex
	begun  bool               // Run, or Close, was called
	stop   context.CancelFunc // ends Run
	closed chan struct{}      // closed when Run has ended
}

// start puts a node together and starts its engine, which fires nothing yet. When it fails it leaves nothing open.
func start(ctx context.Context, cfg Config) (n *Node, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Grace = max(cfg.Grace, time.Nanosecond) // 0 is no grace here, and the default of the parts
	n = &Node{cfg: cfg, metrics: newMetrics(cfg.Version),
		moving: make(chan struct{}, 1), ended: make(chan struct{}), closed: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	if n.api, n.admin, err = cfg.listen(); err != nil {
		return n, err
	}
	wait := n.newAwait()
	defer wait.stop()
	if err = n.openOutside(ctx, wait); err != nil {
		return n, err
	}
	n.gate = newGate(n.cluster.strategy)
	if err = n.openPools(); err != nil {
		return n, err
	}
	if err = n.openBrokers(); err != nil {
		return n, err
	}
	n.assemble()
	var engineCtx context.Context
	engineCtx, n.endEngine = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(n.ended)
		n.engineErr = n.timers.Run(engineCtx)
	}()
	began := make(chan error, 1)
	waiting, stopWaiting := context.WithCancel(ctx)
	defer stopWaiting()
	go func() { began <- n.timers.ClockMoved(waiting) }() // returns when the engine takes calls
	select {
	case err = <-began:
	case <-n.ended:
		if err = n.engineErr; err == nil {
			err = rouse.ErrClosed
		}
	}
	return n, err
}

// openOutside opens what the node needs from outside of the process, and waits for what is away.
func (n *Node) openOutside(ctx context.Context, wait *await) (err error) {
	cfg := &n.cfg
	err = wait.until(ctx, "the store", func() error {
		store, err := cfg.open(ctx)
		if err == nil {
			n.store = store
		}
		return err
	})
	if err != nil {
		return err
	}
	if path := cfg.secretFile(); path != "" {
		if err = wait.until(ctx, "the webhook secrets", func() error { n.secrets, err = openSecrets(ctx, path, n.sharedLocks()); return err }); err != nil {
			return err
		}
	}
	if err = wait.until(ctx, "the identity for Dapr's sidecars", n.listenDapr); err != nil {
		return err
	}
	err = wait.until(ctx, "the store", func() error {
		from, unfinished, err := migrate.Unfinished(ctx, n.store)
		if err == nil && unfinished {
			err = fmt.Errorf("the store is an unfinished copy of %s: finish it with rouse migrate-store, or begin with an empty store", from)
		}
		if err == nil {
			err = n.returns(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	n.name()
	if d, ok := n.store.(interface{ Durability() string }); ok {
		cfg.Log.Info("store", "durability", d.Durability())
	}
	if err = wait.until(ctx, "the store", func() error { n.cluster, err = n.join(ctx); return err }); err != nil {
		return err
	}
	return wait.until(ctx, "the queue", func() error { n.queue, err = cfg.openQueue(ctx); return err })
}

// assemble makes the parts and tells them of each other.
func (n *Node) assemble() {
	cfg := &n.cfg
	secrets := func(string) []string { return nil }
	if n.secrets != nil {
		secrets = n.secrets.get
	}
	now := func() rouse.Instant { return n.timers.Now() }
	n.hooks = webhook.New(webhook.Options{AllowPrivate: cfg.AllowPrivate, Secrets: secrets, HostConcurrency: cfg.HostConcurrency,
		UserAgent: "rouse/" + cfg.Version})
	streams := stream.Options{Now: now}
	if cfg.Clock != nil {
		// The wait goes by the machine's time, while a clock that is moved waits for what fires, and stops whenever it is put off.
		streams.Wait, streams.MaxPutOff = time.Millisecond, 5*time.Minute
	}
	n.streams = stream.New(streams)
	n.functions = function.New(function.Options{Now: now, Panicked: n.panicked})
	var http rouse.Sink = n.hooks
	if cfg.Clock == nil { // a breaker goes by the machine's time, which says nothing of a clock that is moved
		http = sink.NewBreaker(n.hooks, sink.BreakerOptions{})
	}
	var functions rouse.Sink = n.functions
	if !cfg.embedded {
		functions = elsewhere{n.functions}
	}
	var direct rouse.Sink = sink.Mux{"http": http, "https": http, "stream": n.streams, "func": functions, "dapr": n.daprSink(), "reminder": n.reminderSink(), "pool": n.pools.target()}
	for _, scheme := range broker.Schemes() {
		direct.(sink.Mux)[scheme] = n.brokers
	}
	through := direct
	if n.queue != nil {
		through = relay.NewSink(direct, n.queue, relay.SinkOptions{Now: now})
	}
	least, free := cfg.minInterval()
	n.timers = timers.New(n.store, n.gate, through, timers.Options{
		Compile:     schedule.Compile,
		MinInterval: least,
		AnyInterval: free,
		Spec:        readSpec,
		Engine: engine.Options{
			Ahead:           n.pools.ahead(cfg),
			MaxRows:         cfg.Window,
			MaxBytes:        int(cfg.WindowBytes),
			MaxDeliveries:   cfg.MaxDeliveries,
			Grace:           cfg.Grace,
			RecordAge:       cfg.HistoryAge,
			MaxRecords:      cmp.Or(cfg.HistoryMax, math.MaxInt64),
			RecordsPerTimer: orNone(cfg.HistoryPerTimer),
			DeadPerTimer:    orNone(cfg.DeadPerTimer),
			MaxOverlap:      orNone(cfg.MaxOverlap),
			DeadAge:         orNone(cfg.DeadAge),
			Limit:           cfg.limiter(),
			Weight:          cfg.weight(),
			Direct:          cfg.Clock != nil,
			Buckets:         n.cluster.buckets,
			Shared:          n.cluster.shared,
			Poll:            cfg.Poll,
			Hold:            cfg.Hold,
			Scatter:         cfg.Scatter || !cfg.has("scheduler"),
			ClaimBatch:      cfg.ClaimBatch,
			Grain:           n.cluster.grain,
			Namespaces:      cfg.Claims,
			Claims:          &n.cluster.claims,
			Leader:          n.cluster.leader,
			Near:            n.pools.near(),
			Route:           local.Route,
			Events:          n.pools.events(n.metrics.events(cfg.Log)),
		},
	})
	n.metrics.watch(n.timers, n.store)
	n.metrics.watchStore(n.store)
	n.deliverer = n.executor(direct)
	n.metrics.watchLeader(n.cluster.leader)
	more := n.makeReminders()
	if n.api != nil || n.admin != nil {
		o := n.serves()
		if more != nil {
			o.Services = append(o.Services, more)
		}
		n.server = server.New(o)
		n.metrics.watchServer(n.server)
	}
	n.serveDapr()
	if n.api == nil && !cfg.embedded && cfg.has("executor") {
		cfg.Log.Info("without the role api nobody can subscribe at this node: fires of stream: targets pass on to another, or wait")
	}
}

// serves says what the API serves.
func (n *Node) serves() server.Options {
	o := server.Options{Timers: n.timers, Subscriber: subscribers{n.streams, n.pools.sink}, Calls: n.pools.calls, Pools: n.pools.handler(), Metrics: n.metrics.handler(), Live: n.timers.Alive,
		Ready: n.timers.Healthy, Version: n.cfg.Version, Log: n.cfg.Log, Grace: n.cfg.Grace,
		ParseCalendar: schedule.ParseICalendar, Hosts: n.cfg.Hosts, MaxConns: n.cfg.MaxConnections, MaxConnsAddress: n.cfg.MaxConnectionsAddress,
		RequestMemory: int64(n.cfg.RequestMemory), Refused: n.metrics.limited}
	o.Tables = n.tables()
	if n.cfg.Clock != nil {
		o.Clock = movable{n}
	}
	if n.cluster.nodes != nil {
		o.Nodes = n.cluster.list(n.cfg.Node)
	}
	if _, ok := n.store.(rouse.Checkpointer); ok {
		o.Backup = func(ctx context.Context, w io.Writer) error {
			return backup.Write(ctx, n.store, w, backup.Info{Version: n.cfg.Version})
		}
	}
	return o
}

// readSpec reads the JSON of a draft, as the API does.
func readSpec(json []byte) (rouse.Spec, error) {
	var spec api.Spec
	if err := api.Decode(json, &spec); err != nil {
		return rouse.Spec{}, err
	}
	return spec.Words()
}

// orNone returns a bound as the engine takes it: 0, which is no bound here, is a default there, and a negative one is none.
func orNone[T ~int | ~int64](bound T) T {
	if bound == 0 {
		return -1
	}
	return bound
}

// elsewhere is the function sink of a server, where nobody can register functions. Timers of a program that embeds rouse, which
// a server may find in its store, wait; new ones are refused.
type elsewhere struct{ *function.Sink }

func (elsewhere) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "calls a function, and a server has none", "give http:, https: or stream:; functions are for programs that embed rouse")
}

func (n *Node) panicked(f rouse.Fire, value any, stack []byte) {
	n.cfg.Log.Error("a function panicked", "target", f.Spec.Target, "namespace", f.Namespace, "timer", f.Name, "fire", f.ID, "panic", fmt.Sprint(value), "stack", string(stack))
}

// Run fires until ctx ends, or Close is called; then it waits for what is under way (Config.Grace), closes the store, and
// returns; nil if that went well. It is called once.
func (n *Node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !n.begin(stop) {
		return fmt.Errorf("a node runs once: %w", rouse.ErrClosed)
	}
	poolsErr := n.runPools(ctx) // before anything fires
	if poolsErr != nil {
		stop()
	}
	n.gate.unlock()
	_ = n.timers.ClockMoved(ctx) // reads what is due at once, rather than in a moment
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer endServing()
	var parts sync.WaitGroup
	var serverErr error
	if n.secrets != nil {
		parts.Go(func() { n.secrets.watch(ctx, n.cfg.Log) })
	}
	if n.cluster.nodes != nil {
		parts.Go(func() { n.cluster.claims.follow(ctx, n.cluster.nodes, n.cfg.Log) })
	}
	if n.cluster.election != nil {
		parts.Go(func() { n.cluster.election.Run(ctx) })
	}
	if n.server != nil {
		parts.Go(func() {
			api := n.api
			if api == nil {
				api = newUnreached()
			}
			serverErr = n.server.Run(serving, api, n.admin)
			stop() // a server that broke stops the engine too
		})
	}
	var daprErr error
	parts.Go(func() {
		if daprErr = n.runDapr(serving); daprErr != nil {
			stop()
		}
	})
	parts.Go(func() { n.runReminders(serving) })
	executing := make(chan struct{})
	go func() {
		defer close(executing)
		if n.deliverer == nil {
			return
		}
		if err := n.deliverer.Run(ctx); err != nil {
			n.cfg.Log.Error("the executor ended", "error", err)
			stop()
		}
	}()
	<-ctx.Done()
	<-executing // its last reports go through the engine
	n.dapr.sink.Drain()
	n.reminders.calls.Drain()
	n.pools.drain()
	n.endEngine()
	<-n.ended
	poolsErr = errors.Join(poolsErr, n.pools.close()) // workers leave while they are still served
	n.streams.Close()                                 // subscriptions end, so that the server need not wait for them
	n.reminders.close()
	endServing()
	parts.Wait()
	n.streams.Wait()
	n.reminders.wait()
	n.pools.sink.Wait()
	err := errors.Join(n.engineErr, serverErr, daprErr, poolsErr, n.close())
	close(n.closed)
	return err
}

// begin says whether the node may begin to run, or to close without having run. It may once.
func (n *Node) begin(stop context.CancelFunc) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begun {
		return false
	}
	n.begun, n.stop = true, stop
	return true
}

// running returns why the node does not fire, or nil.
func (n *Node) running() error {
	select {
	case <-n.ended:
		return rouse.ErrClosed
	default:
	}
	if !n.gate.open.Load() {
		return fmt.Errorf("the node does not run yet: %w", rouse.ErrUnavailable)
	}
	return nil
}

// Close ends Run, if it was called, and waits for it, or closes a node that was never run. It may be called several times, from
// anywhere but a function that the node calls.
func (n *Node) Close() error {
	if n.begin(func() {}) {
		err := n.close()
		close(n.closed)
		return err
	}
	n.mu.Lock()
	stop := n.stop
	n.mu.Unlock()
	stop()
	<-n.closed
	return nil
}

// close ends what start began, in any state that start may have left it in.
func (n *Node) close() error {
	if n.endEngine != nil {
		n.dapr.sink.Drain()
		n.reminders.calls.Drain()
		n.pools.drain()
		n.endEngine()
		<-n.ended
	}
	if n.server != nil {
		n.server.Close()
	}
	errs := []error{n.pools.close()}
	for _, l := range []net.Listener{n.api, n.admin} {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // the server closes those that it has served
			errs = append(errs, err)
		}
	}
	errs = append(errs, n.dapr.close())
	if n.queue != nil {
		errs = append(errs, n.queue.Close())
	}
	if n.streams != nil {
		n.streams.Close()
	}
	if n.hooks != nil {
		n.hooks.Close()
	}
	if n.brokers != nil {
		errs = append(errs, n.brokers.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// Addr returns the address of the API, "" if there is none.
func (n *Node) Addr() string { return address(n.api) }

func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Metrics returns a handler that tells Prometheus of the node.
func (n *Node) Metrics() http.Handler { return n.metrics.handler() }

// Healthy returns why the node makes no progress, or nil.
func (n *Node) Healthy() error {
	if err := n.running(); err != nil {
		return err
	}
	return n.timers.Healthy()
}

// Timers returns what the node's methods are made of, for what they do not offer: other namespaces, batches, bulk changes,
// calendars.
func (n *Node) Timers() *timers.Timers { return n.timers }
