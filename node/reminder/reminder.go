// Package reminder makes a node serve reminders and actors for sidecars, with the API. A program that serves
// them imports it, and sets Config.Reminders:
//
//	import _ "github.com/rousehq/rouse/node/reminder"
package reminder

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/reminder/actor"
	"github.com/rousehq/rouse/internal/reminder/call"
	"github.com/rousehq/rouse/internal/reminder/service"
	"github.com/rousehq/rouse/internal/reminder/state"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/node"
)

// namespace is where the timers of reminders are.
const namespace = "reminders"

// part is the reminder service. Every node has its sink, so that no reminder fails where no sidecar can come;
// one that does not serve keeps them until their share of the timers moves to a node that does.
type part struct {
	core    core
	calls   *call.Sink
	service *service.Service // nil: it is not served
	actors  *actor.Service   // nil: the same

	listener net.Listener // for other instances; nil: there are none
}

// checkReminderSettings checks the settings of the reminder service.
func checkReminderSettings(c *node.Config) error {
	var bad rouse.Invalid
	if c.ReminderBucketSize < 20 || c.ReminderBucketSize > 100_000_000 {
		bad.Wrong("reminder-bucket-size", "is %d: give 20 to 100000000", c.ReminderBucketSize)
	}
	if c.ReminderMetadata < 0 || c.ReminderMetadata > 64<<10 {
		bad.Wrong("reminder-metadata", "is %d: give 0 to %d bytes", c.ReminderMetadata, 64<<10)
	}
	if !(c.ReminderCapacity >= 1 && c.ReminderCapacity <= 1e9) {
		bad.Wrong("reminder-capacity", "is %v: give executions a second, 1 or more", c.ReminderCapacity)
	}
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"reminder-heartbeat", c.ReminderHeartbeat, 100 * time.Millisecond, time.Minute},
		{"reminder-timeout", c.ReminderTimeout, 100 * time.Millisecond, time.Hour}} {
		if d.value < d.least || d.value > d.most {
			bad.Wrong(d.name, "is %v: give %v to %v", d.value, d.least, d.most)
		}
	}
	if !c.Reminders {
		return bad.Err()
	}
	switch {
	case c.Listen == "" || !c.Has("api"):
		bad.Wrong("reminders",
			"is on, and there is no API at which sidecars could connect: give listen and the role api, or turn it off")
	case !c.Has("executor"):
		bad.Wrong("reminders", "is for nodes that deliver, and roles leaves out executor: give both, or neither")
	case c.Queue != "":
		bad.Wrong("reminders",
			"does not go with a queue: the sidecar that has a reminder is found by the node that fires it; leave one of them out")
	}
	return bad.Err()
}

// openReminderPart makes the sink of reminders, which holds up to half of the engine's rows in memory.
func openReminderPart(_ context.Context, c core) (parts.Part, error) {
	cfg := c.Config()
	rs := &part{core: c}
	rs.calls = call.New(call.Options{Heartbeat: cfg.ReminderHeartbeat, Timeout: cfg.ReminderTimeout,
		MaxHeld: cfg.Window / 2, Node: cfg.Node,
		Now: func() rouse.Instant { return c.Timers().Now() },
		Changed: func() {
			if rs.service != nil {
				rs.service.Kick()
			}
		},
		Recall: func(ctx context.Context, address string, timers []string) { rs.service.Recall(ctx, address, timers) },
		Lend: func(ctx context.Context, address, app, timer string, r *reminderv1.ExecuteReminderRequest,
			lost uint32) rouse.Outcome {
			return rs.service.Lend(ctx, address, app, timer, r, lost)
		},
		Host: func(app string, a *reminderv1.Actor) string {
			if rs.actors == nil {
				return ""
			}
			return rs.actors.Host(app, a)
		}})
	p := parts.Part{Value: rs, Drain: rs.calls.Drain, Leave: rs.endStreams, Close: rs.waitForStreams}
	if !cfg.Reminders {
		p.Sinks = map[string]rouse.Sink{"reminder": unserved{rs.calls}}
		return p, nil
	}
	p.Sinks = map[string]rouse.Sink{"reminder": &actor.Placing{Sink: rs.calls,
		Service: func() *actor.Service { return rs.actors }}}
	p.Publish = func(to *parts.Published) { to.Reminders, to.Peer = rs.serviceAddress(), rs.peerAddress() }
	if c.SharesStore() {
		var err error
		if rs.listener, err = net.Listen("tcp", cfg.PeerListen()); err != nil {
			return p, fmt.Errorf("listen for other nodes: %w", err)
		}
	}
	p.Start, p.Serve = rs.startService, rs.runService
	return p, nil
}

// unserved is the sink of a node that does not serve reminders: it takes no new ones.
type unserved struct{ *call.Sink }

func (unserved) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "is of a reminder, and no sidecar can connect here",
		"turn reminders on, on every node of the store")
}

// startService makes the service, when the engine is there.
func (p *part) startService() error {
	cfg := p.core.Config()
	o := service.Options{Timers: p.core.Timers(), Calls: p.calls,
		Notes:     state.New(engine.Available(p.core.Store()), namespace, p.core.Buckets()),
		Namespace: namespace, Address: p.serviceAddress(), Senders: p.senderAddresses, Node: cfg.Node, Leader: p.core.Leads(),
		Size:     cfg.ReminderBucketSize,
		Metadata: cfg.ReminderMetadata, Capacity: cfg.ReminderCapacity, Pending: cfg.Window / 4,
		Access: p.core.Access().Decider(), Log: cfg.Log}
	if nodes := p.core.Nodes(); nodes != nil {
		o.Instances = func(ctx context.Context) (list []service.Instance, err error) {
			all, err := nodes(ctx)
			for _, other := range all {
				s := parts.PublishedBy(other.Data)
				if s.Reminders != "" {
					list = append(list, service.Instance{Address: s.Reminders, Peer: s.Peer, Node: other.ID, Leader: other.Leader})
				}
			}
			return list, err
		}
	}
	_, o.PeerTLS = p.core.Mutual()
	p.service = service.New(o)
	p.actors = actor.New(actor.Options{Store: engine.Available(p.core.Store()), Timers: p.core.Timers(),
		Buckets: p.core.Buckets(), Namespace: namespace,
		Address: o.Address, Heartbeat: cfg.ReminderHeartbeat, Access: o.Access, Log: cfg.Log,
		Instances: func(ctx context.Context) ([]string, error) {
			if o.Instances == nil {
				return []string{o.Address}, nil
			}
			all, err := o.Instances(ctx)
			list := make([]string, len(all))
			for i := range all {
				list[i] = all[i].Address
			}
			return list, err
		}})
	p.addReminderMetrics(p.core.Registry())
	return nil
}

// Serve adds the service to the server of the node.
func (p *part) Serve(o *server.Options) {
	if p.service == nil {
		return
	}
	o.Services = append(o.Services, func(r grpc.ServiceRegistrar) {
		p.service.Register(r)
		p.actors.Register(r)
	})
}

// senderAddresses is service.Options.Senders. A node that does not serve reminders executes none.
func (p *part) senderAddresses(ctx context.Context, timers []rouse.Timer, within time.Duration) ([][]string, error) {
	// of itself it knows nothing better if its lease is over
	addresses, peers := []string{p.serviceAddress()}, []engine.Peer{{Claims: true}}
	if list := p.core.Nodes(); list != nil {
		nodes, err := list(ctx)
		if err != nil {
			return nil, err
		}
		for _, other := range nodes {
			s := parts.PublishedBy(other.Data)
			peer := engine.Peer{Grain: s.Grain, Buckets: other.Buckets, Claims: s.Strategy != "bucket"}
			if s.Reminders == addresses[0] {
				peers[0] = peer
			} else if s.Reminders != "" {
				addresses, peers = append(addresses, s.Reminders), append(peers, peer)
			}
		}
	}
	lists := make([][]string, len(timers))
	for i := range timers {
		for k := range peers {
			if p.core.Timers().MaySend(&timers[i], &peers[k], within) {
				lists[i] = append(lists[i], addresses[k])
			}
		}
		slices.Sort(lists[i])
	}
	return lists, nil
}

// serviceAddress is where sidecars and other instances reach the reminder service of this node.
func (p *part) serviceAddress() string {
	return cmp.Or(p.core.Advertised(), p.core.Addr())
}

// peerAddress is where other instances reach this one, "" if there are none.
func (p *part) peerAddress() string {
	if p.listener == nil {
		return ""
	}
	return p.core.Config().PeerAddress(p.listener.Addr().String(), p.core.Addr())
}

// endStreams ends all streams.
func (p *part) endStreams() error {
	p.calls.Close()
	if p.actors != nil {
		p.actors.Close()
	}
	return nil
}

// waitForStreams waits for the goroutines of streams that have ended.
func (p *part) waitForStreams() error {
	p.calls.Wait()
	if p.listener != nil {
		_ = p.listener.Close() // the server has closed it if it ran
	}
	if p.actors != nil {
		p.actors.Wait()
	}
	return nil
}

// runService takes part in the reminder service until ctx ends.
func (p *part) runService(ctx context.Context) error {
	p.core.Config().Log.Info("reminders are served", "known as", p.serviceAddress())
	ctx, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { p.actors.Run(ctx) })
	var broken error // of the listener
	if p.listener != nil {
		secure, _ := p.core.Mutual()
		running.Go(func() {
			if broken = p.service.ServePeers(ctx, p.listener, secure); broken != nil {
				end()
			}
		})
	}
	p.service.Run(ctx)
	running.Wait()
	return broken
}

// Counts returns the counters of executions.
func (p *part) Counts() call.Counts { return p.calls.Counts() }

// addReminderMetrics adds the metrics of the reminder service.
func (p *part) addReminderMetrics(registry prometheus.Registerer) {
	gauge := func(name, help string, read func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	counter := func(result string, read func(call.Counts) uint64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_reminder_executions_total",
			Help:        "Executions of reminders by how they ended, and those that were sent.",
			ConstLabels: prometheus.Labels{"result": result}},
			func() float64 { return float64(read(p.calls.Counts())) }))
	}
	gauge("rouse_reminder_sidecars", "Sidecars that are connected.",
		func() float64 { return float64(p.calls.Counts().Streams) })
	gauge("rouse_reminder_executions", "Executions in memory.", func() float64 { return float64(p.calls.Counts().Inside) })
	gauge("rouse_reminder_executions_waiting", "Executions for which no sidecar is connected.",
		func() float64 { return float64(p.calls.Counts().Waiting) })
	gauge("rouse_reminder_load_factor",
		"What this node does, relative to what it is set to be able to do: from 1 on, scale out.", p.service.Load)
	gauge("rouse_reminder_buckets", "Token buckets.", func() float64 { return float64(len(p.service.Table().Rows)) })
	gauge("rouse_reminder_buckets_max", "Token buckets that there may be.", func() float64 { return service.MostBuckets })
	counter("sent", func(c call.Counts) uint64 { return c.Sent })
	counter("done", func(c call.Counts) uint64 { return c.Done })
	counter("failed", func(c call.Counts) uint64 { return c.Failed })
	counter("unanswered", func(c call.Counts) uint64 { return c.Unanswered })
	counter("elsewhere", func(c call.Counts) uint64 { return c.Elsewhere })
	counter("lent", func(c call.Counts) uint64 { return c.Lent })
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_reminder_sidecars_lost_total",
		Help: "Sidecars that were silent for too long."}, func() float64 { return float64(p.calls.Counts().Lost) }))
}
