// Package node puts store, strategy, engine, sinks and server together: `rouse serve` runs it, and a Go
// program has timers with it without a server:
//
//	n, err := node.Open(ctx, "pebble:./data")
//	err = n.Handle("greet", func(ctx context.Context, f rouse.Fire) error { … })
//	_, err = n.Create(ctx, "hello", rouse.Spec{Schedule: "@every 1m", Target: "func:greet"})
//	err = n.Run(ctx)
//
// Between Open and Run a node takes calls and keeps their timers durably, but fires nothing. Run fires until
// its ctx ends, and closes the store. Calls after that fail with rouse.ErrClosed.
//
//	store ◄── engine ──► breaker ──► webhook          server ──► engine
//	             ├─────► broker ──► RabbitMQ, NATS, Redis
//	             ├─────► stream ◄────── subscribers ──────┘
//	             ├─────► function ──► functions of Handle
//	             └─────► sinks of WithSink
//
// A program links its imports. Pebble and mem are the stores that are always there. Other kinds of stores
// and brokers register themselves when a program imports their packages, below store and sink/broker; so do
// the API (node/api), Dapr's sidecars (node/dapr), the reminder service (node/reminder) and pools of workers
// (node/pool). Package node/all imports everything.
//
// A node is a list of parts with one life (part.go, life.go). It ends in the order in which they need each
// other: the engine stops firing and waits for deliveries while the server still takes their
// acknowledgements; then the server drains its requests; the store is closed last.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/pool/target"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/internal/relay"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/sink/webhook"
)

// Run serves until ctx ends, and returns when everything has ended; nil if that went well. ready is called
// once, when the node listens, with the addresses of the API and of the admin listener ("" if there is none).
func Run(ctx context.Context, cfg Config, log *slog.Logger, ready func(api, admin string)) error {
	return Serve(ctx, cfg, log, func(n *Node) { ready(n.Addr(), n.AdminAddr()) })
}

// Node is a running rouse. It is safe for concurrent use.
type Node struct {
	cfg       Config
	registry  *prometheus.Registry
	parts     []parts.Part // in the order in which they were opened
	sinks     sink.Mux
	deliver   rouse.Sink // sinks, wrapped by parts; nil in a node that manages pools only
	functions *function.Sink
	api       net.Listener  // nil: there is no API
	admin     net.Listener  // nil: there are no metrics and no health
	certs     *certs.Server // nil: listeners are in plain text
	await     *await

	// The fields below are nil in a node that manages pools only.

	store   rouse.Store
	shared  *access.Shared  // keys, roles and secrets that the nodes share
	secrets *secret.Secrets // of the store
	hooks   *webhook.Sink   // callbacks
	metrics *metrics
	timers  *timers.Timers     // without access control: for the node itself, and for the program
	access  *access.Gate       // nil: it is off
	audit   *audit.Log         // nil: it is off
	events  *audit.Rows        // of the audit log; nil: they are not kept in the store
	quotas  *quota.Book        // of namespaces
	limits  *limit.Book        // of namespaces
	tokens  *access.NodeTokens // by which nodes read each other's status; nil: access control is off, or the node is alone
	cluster *cluster
	gate    *gate

	moving chan struct{} // held while the clock is moved
	life
}

// assembleNode puts a node together and starts its engine, which fires nothing yet. When it fails it leaves
// nothing open.
func assembleNode(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Grace = max(cfg.Grace, time.Nanosecond) // 0 is no grace here, and the default of the parts
	n := &Node{cfg: cfg, registry: newRegistry(cfg.Version), sinks: sink.Mux{}, moving: make(chan struct{}, 1),
		life: newLife()}
	if err := n.openNode(ctx); err != nil {
		return nil, errors.Join(err, n.endParts())
	}
	return n, nil
}

// addPart takes a part into the node, which ends it from now on.
func (n *Node) addPart(p parts.Part) {
	n.parts = append(n.parts, p)
	maps.Copy(n.sinks, p.Sinks)
}

// openNode opens the parts, and waits for unavailable servers.
func (n *Node) openNode(ctx context.Context) (err error) {
	n.addPart(parts.Part{Name: "listeners", Close: n.closeListeners})
	if n.api, n.admin, err = n.cfg.openListeners(); err != nil {
		return err
	}
	if err := n.openTLS(); err != nil {
		return err
	}
	n.await = n.newAwait()
	defer n.await.stop()
	if n.cfg.PoolsOnly() {
		if err := openAudit(n); err != nil {
			return err
		}
		if err := n.openParts(ctx); err != nil {
			return err
		}
		return n.startParts()
	}
	n.metrics = newMetrics(n.registry)
	if err := n.openStore(ctx); err != nil {
		return err
	}
	if err := n.openSinks(); err != nil {
		return err
	}
	openSigns(n)
	n.addPart(parts.Part{Name: "clock", Work: n.watchClock})
	if err := n.openParts(ctx); err != nil {
		return err
	}
	if err := n.await.openWithRetry(ctx, "the store",
		func() (err error) { n.cluster, err = n.joinCluster(ctx); return err }); err != nil {
		return err
	}
	n.gate = newGate(n.cluster.strategy)
	if err := n.openTimers(ctx); err != nil {
		return err
	}
	if err := n.startParts(); err != nil {
		return err
	}
	return n.startEngine(ctx)
}

// openStore opens the store and the parts that are in it or next to it.
func (n *Node) openStore(ctx context.Context) error {
	cfg := &n.cfg
	if err := n.await.openWithRetry(ctx, "the store",
		func() (err error) { n.store, err = cfg.openConfiguredStore(ctx); return err }); err != nil {
		return err
	}
	n.addPart(parts.Part{Name: "store", Close: n.store.Close})
	if err := private.Dir(cfg.Data); cfg.Data != "" && err != nil && !private.IsReadOnly(err) {
		return err
	}
	n.shared = access.NewShared(n.store, cfg.Log)
	n.shared.Alone = n.isAlone
	if err := n.openAccess(); err != nil {
		return err
	}
	if err := openAudit(n); err != nil {
		return err
	}
	n.openLimits()
	n.openQuotas()
	if err := n.openSecrets(ctx); err != nil { // it reads everything that is shared
		return err
	}
	if err := n.openCallbacks(ctx); err != nil {
		return err
	}
	err := n.await.openWithRetry(ctx, "the store", func() error {
		from, unfinished, err := migrate.Unfinished(ctx, n.store)
		if err == nil && unfinished {
			err = fmt.Errorf(
				"the store is an unfinished copy of %s: finish it with rouse migrate-store, or begin with an empty store", from)
		}
		if err == nil {
			err = n.refuseMovedStore(ctx)
		}
		return err
	})
	n.ensureName()
	if d, ok := n.store.(interface{ Durability() string }); ok && err == nil {
		cfg.Log.Info("store", "durability", d.Durability())
	}
	return err
}

// openSinks makes the other sinks that every node has.
func (n *Node) openSinks() error {
	n.functions = function.New(function.Options{Now: func() rouse.Instant { return n.timers.Now() },
		Panicked: n.logFunctionPanic})
	var functions rouse.Sink = n.functions
	if !n.cfg.embedded {
		functions = elsewhere{n.functions}
	}
	n.addPart(parts.Part{Name: "functions", Sinks: map[string]rouse.Sink{"func": functions,
		"timer": &timers.RunSink{Timers: func() *timers.Timers { return n.timers }},
		"check": sink.Checks{}}})
	n.addPart(parts.Part{Name: "sinks of the program", Sinks: n.cfg.Sinks})
	brokers := broker.New()
	p := parts.Part{Name: "brokers", Sinks: map[string]rouse.Sink{}, Close: brokers.Close}
	for _, scheme := range broker.Schemes() {
		p.Sinks[scheme] = brokers
	}
	n.addPart(p)
	return n.openBrokers(brokers)
}

// openTimers creates the engine from the store, the strategy and the sinks, and the parts that run next to
// it.
func (n *Node) openTimers(ctx context.Context) error {
	cfg := &n.cfg
	var q queue.Queue
	if err := n.await.openWithRetry(ctx, "the queue",
		func() (err error) { q, err = cfg.openQueue(ctx); return err }); err != nil {
		return err
	}
	n.deliver = wrapSink(n.sinks, n.parts)
	if t := Find[interface{ Exemplar(f *rouse.Fire) string }](n); t != nil {
		n.metrics.exemplar = t.Exemplar
	}
	through := n.deliver
	if q != nil {
		n.addPart(parts.Part{Name: "queue", Close: q.Close})
		through = relay.NewSink(n.deliver, q, relay.SinkOptions{Now: func() rouse.Instant { return n.timers.Now() }})
	}
	least, free := cfg.minInterval()
	n.timers = timers.New(n.store, n.gate, through, timers.Options{
		Access:      n.access.Decider(),
		Audit:       n.audit,
		Quotas:      n.quotas,
		Compile:     schedule.Compile,
		Zones:       n.zoneRules(),
		MinInterval: least,
		AnyInterval: free,
		MaxTimeout:  cfg.maxTimeout(),
		Spec:        readSpec,
		Check:       n.checkSpec,
		Engine:      n.engineOptions(),
	}).Unguarded()
	n.metrics.now = n.timers.Now
	n.metrics.watchEngine(n.timers, n.store)
	n.metrics.watchStore(n.store)
	n.metrics.watchLeader(n.cluster.leader)
	if q != nil && cfg.Has("executor") {
		n.addPart(n.executorPart(q))
	}
	if nodes := n.cluster.nodes; nodes != nil {
		n.addPart(parts.Part{Name: "claims", Work: func(ctx context.Context) error {
			n.cluster.claims.followClaims(ctx, nodes, n.isAlone, cfg.Log)
			return nil
		}})
	}
	n.addPart(parts.Part{Name: "status", Work: ownStatus{n}.countPending})
	if e := n.cluster.election; e != nil {
		n.addPart(parts.Part{Name: "election", Work: func(ctx context.Context) error { e.Run(ctx); return nil }})
	}
	if n.api == nil && !cfg.embedded && cfg.Has("executor") {
		cfg.Log.Info(
			"without the role api this node takes no subscribers: fires of stream: targets pass on to another, or wait")
	}
	return nil
}

// wrapSink returns a sink wrapped by the parts.
func wrapSink(s rouse.Sink, list []parts.Part) rouse.Sink {
	for i := range list {
		if wrap := list[i].Deliver; wrap != nil {
			s = wrap(s)
		}
	}
	return s
}

// engineOptions returns the options of the engine.
func (n *Node) engineOptions() engine.Options {
	cfg := &n.cfg
	o := engine.Options{
		Ahead:           cfg.Ahead,
		MaxRows:         cfg.Window,
		MaxBytes:        int(cfg.WindowBytes),
		MaxDeliveries:   cfg.MaxDeliveries,
		Reserve:         orNone(cfg.DeliveryReserve),
		Grace:           cfg.Grace,
		SettleWait:      cfg.settleWait(),
		RecordAge:       cfg.HistoryAge,
		MaxRecords:      cmp.Or(cfg.HistoryMax, math.MaxInt64),
		RecordsPerTimer: orNone(cfg.HistoryPerTimer),
		DeadPerTimer:    orNone(cfg.DeadPerTimer),
		NoticesPerTimer: orNone(cfg.NoticesPerTimer),
		MaxOverlap:      orNone(cfg.MaxOverlap),
		DeadAge:         orNone(cfg.DeadAge),
		Limit:           cfg.laneLimiter(),
		Limits:          n.limits,
		NotifyRules:     n.quotas.NotifyRules,
		Weight:          cfg.namespaceWeight(),
		Direct:          cfg.Clock != nil,
		Buckets:         n.cluster.buckets,
		Shared:          n.cluster.shared,
		Poll:            cfg.Poll,
		Hold:            cfg.Hold,
		Scatter:         cfg.Scatter || !cfg.Has("scheduler"),
		ClaimBatch:      cfg.ClaimBatch,
		Grain:           n.cluster.grain,
		Namespaces:      cfg.Claims,
		Claims:          &n.cluster.claims,
		Leader:          n.cluster.leader,
		Alone:           n.cluster.alone,
		Route:           target.Route,
		Events:          n.metrics.engineEvents(cfg.Log),
	}
	for i := range n.parts {
		if more := n.parts[i].Engine; more != nil {
			more(&o)
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
	return spec.Parse()
}

// settleWait is how long the ends of fires may wait: not at all with a clock that stands still until all
// fires of a time have ended.
func (c *Config) settleWait() time.Duration {
	if c.Clock != nil {
		return 0
	}
	return c.SettleWait
}

// orNone returns a bound as the engine takes it: 0, which is no bound here, is a default there, and a
// negative one is none.
func orNone[T ~int | ~int64](bound T) T {
	if bound == 0 {
		return -1
	}
	return bound
}

// elsewhere is the function sink of a server, where no function can be registered. Existing function timers,
// which a program that embeds rouse created in the same store, wait; new ones are refused.
type elsewhere struct{ *function.Sink }

func (elsewhere) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "calls a function, and a server has none",
		"give http:, https: or stream:; functions are for programs that embed rouse")
}

func (n *Node) logFunctionPanic(f rouse.Fire, value any, stack []byte) {
	n.cfg.Log.Error("a function panicked", "target", f.Spec.Target, "namespace", f.Namespace, "timer", f.Name, "fire",
		f.ID, "panic", fmt.Sprint(value), "stack", string(stack))
}

// Addr returns the address of the API, "" if there is none.
func (n *Node) Addr() string { return listenerAddress(n.api) }

func listenerAddress(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// closeListeners closes those that a server has not closed.
func (n *Node) closeListeners() (err error) {
	for _, l := range []net.Listener{n.api, n.admin} {
		if l == nil {
			continue
		}
		if e := l.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Metrics returns the handler of the node's metrics for Prometheus.
func (n *Node) Metrics() http.Handler {
	return promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// Healthy returns why the node makes no progress, or nil.
func (n *Node) Healthy() error {
	if err := n.notFiringReason(); err != nil {
		return err
	}
	return n.timers.Healthy()
}

// Timers returns the operations behind the node's methods, for those that these do not offer: other
// namespaces, batches, bulk changes, calendars. The program may do everything, whatever access control
// decides for clients.
func (n *Node) Timers() *timers.Timers { return n.timers }

// zoneRules are the rules of time zones of this machine.
func (n *Node) zoneRules() timers.Zones {
	z := timers.Zones{Rules: schedule.Rules, Reload: schedule.ReloadZones}
	if nodes := n.cluster.nodes; nodes != nil {
		z.Alone = func(ctx context.Context) bool {
			list, err := nodes(ctx)
			return err == nil && len(list) <= 1
		}
	}
	return z
}
