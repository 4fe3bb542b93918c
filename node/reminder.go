package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/reminder/actor"
	"github.com/rousehq/rouse/internal/reminder/call"
	"github.com/rousehq/rouse/internal/reminder/keep"
	"github.com/rousehq/rouse/internal/reminder/service"
)

// reminderNamespace is where the timers of reminders are.
const reminderNamespace = "reminders"

// reminders is the reminder service. Every node has its sink, so that no reminder fails where no sidecar can come; one that does not serve
// keeps them until their share of the timers moves to a node that does.
type reminders struct {
	calls   *call.Sink
	service *service.Service // nil: it is not served
	actors  *actor.Service   // nil likewise
}

// checkReminders looks at what concerns the reminder service.
func (c *Config) checkReminders() (bad problems) {
	if c.ReminderBucketSize < 20 || c.ReminderBucketSize > 100_000_000 {
		bad.add("reminder-bucket-size", "is %d: give 20 to 100000000", c.ReminderBucketSize)
	}
	if c.ReminderMetadata < 0 || c.ReminderMetadata > 64<<10 {
		bad.add("reminder-metadata", "is %d: give 0 to %d bytes", c.ReminderMetadata, 64<<10)
	}
	if !(c.ReminderCapacity >= 1 && c.ReminderCapacity <= 1e9) {
		bad.add("reminder-capacity", "is %v: give executions a second, 1 or more", c.ReminderCapacity)
	}
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"reminder-heartbeat", c.ReminderHeartbeat, 100 * time.Millisecond, time.Minute}, {"reminder-timeout", c.ReminderTimeout, 100 * time.Millisecond, time.Hour}} {
		if d.value < d.least || d.value > d.most {
			bad.add(d.name, "is %v: give %v to %v", d.value, d.least, d.most)
		}
	}
	if !c.Reminders {
		return bad
	}
	switch {
	case c.Listen == "" || !c.has("api"):
		bad.add("reminders", "is on, and there is no API at which sidecars could connect: give listen and the role api, or turn it off")
	case !c.has("executor"):
		bad.add("reminders", "is for nodes that deliver, and roles leaves out executor: give both, or neither")
	case c.Queue != "":
		bad.add("reminders", "does not go with a queue: the sidecar that has a reminder is found by the node that fires it; leave one of them out")
	}
	return bad
}

// reminderSink makes the sink of reminders. It holds up to half of what the engine has in memory.
func (n *Node) reminderSink() rouse.Sink {
	rs := &reminders{}
	n.reminders = rs
	rs.calls = call.New(call.Options{Heartbeat: n.cfg.ReminderHeartbeat, Timeout: n.cfg.ReminderTimeout, MaxHeld: n.cfg.Window / 2, Node: n.cfg.Node,
		Now: func() rouse.Instant { return n.timers.Now() },
		Changed: func() {
			if rs.service != nil {
				rs.service.Kick()
			}
		},
		Recall: func(ctx context.Context, address string, timers []string) { rs.service.Recall(ctx, address, timers) },
		Lend: func(ctx context.Context, address, app, timer string, r *reminderv1.ExecuteReminderRequest) rouse.Outcome {
			return rs.service.Lend(ctx, address, app, timer, r)
		},
		Host: func(app string, a *reminderv1.Actor) string {
			if rs.actors == nil {
				return ""
			}
			return rs.actors.Host(app, a)
		}})
	if !n.cfg.Reminders {
		return unserved{rs.calls}
	}
	return &actor.Placing{Sink: rs.calls, Service: func() *actor.Service { return rs.actors }}
}

// unserved is the sink of a node that does not serve reminders: it takes no new ones.
type unserved struct{ *call.Sink }

func (unserved) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "is of a reminder, and no sidecar can connect here", "turn reminders on, on every node of the store")
}

// makeReminders makes the service, when the engine is there. It returns what adds it to a gRPC server; nil if it is not served.
func (n *Node) makeReminders() func(grpc.ServiceRegistrar) {
	cfg := &n.cfg
	if !cfg.Reminders {
		return nil
	}
	o := service.Options{Timers: n.timers, Calls: n.reminders.calls, Notes: keep.New(engine.Available(n.store), reminderNamespace, n.cluster.buckets),
		Namespace: reminderNamespace, Address: n.reminderAddress(), Senders: n.reminderSenders, Node: cfg.Node, Leader: n.cluster.leader, Size: cfg.ReminderBucketSize,
		Metadata: cfg.ReminderMetadata, Capacity: cfg.ReminderCapacity, Pending: cfg.Window / 4, Log: cfg.Log}
	if nodes := n.cluster.nodes; nodes != nil {
		o.Instances = func(ctx context.Context) (list []service.Instance, err error) {
			all, err := nodes(ctx)
			for _, other := range all {
				s := publishedBy(other.Data)
				if s.Reminders != "" {
					list = append(list, service.Instance{Address: s.Reminders, Node: other.ID, Leader: other.Leader})
				}
			}
			return list, err
		}
	}
	n.reminders.service = service.New(o)
	n.reminders.actors = actor.New(actor.Options{Store: engine.Available(n.store), Timers: n.timers, Buckets: n.cluster.buckets, Namespace: reminderNamespace,
		Address: o.Address, Heartbeat: cfg.ReminderHeartbeat, Log: cfg.Log, Instances: func(ctx context.Context) ([]string, error) {
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
	n.metrics.watchReminders(n.reminders)
	return func(r grpc.ServiceRegistrar) {
		n.reminders.service.Register(r)
		n.reminders.actors.Register(r)
	}
}

// reminderSenders is service.Options.Senders. A node that does not serve reminders executes none.
func (n *Node) reminderSenders(ctx context.Context, timers []rouse.Timer, within time.Duration) ([][]string, error) {
	addresses, peers := []string{n.reminderAddress()}, []engine.Peer{{Claims: true}} // of itself it knows nothing better if its lease is over
	if n.cluster.nodes != nil {
		nodes, err := n.cluster.nodes(ctx)
		if err != nil {
			return nil, err
		}
		for _, other := range nodes {
			s := publishedBy(other.Data)
			p := engine.Peer{Grain: s.Grain, Buckets: other.Buckets, Claims: s.Strategy != "bucket"}
			if s.Reminders == addresses[0] {
				peers[0] = p
			} else if s.Reminders != "" {
				addresses, peers = append(addresses, s.Reminders), append(peers, p)
			}
		}
	}
	lists := make([][]string, len(timers))
	for i := range timers {
		for k := range peers {
			if n.timers.MaySend(&timers[i], &peers[k], within) {
				lists[i] = append(lists[i], addresses[k])
			}
		}
		slices.Sort(lists[i])
	}
	return lists, nil
}

// reminderAddress is where sidecars and other instances reach the reminder service of this node, "" if it has none.
func (n *Node) reminderAddress() string {
	if !n.cfg.Reminders {
		return ""
	}
	if at := n.cfg.advertised(n.Addr()); at != "" {
		return at
	}
	return n.Addr()
}

// close ends all streams.
func (r *reminders) close() {
	r.calls.Close()
	if r.actors != nil {
		r.actors.Close()
	}
}

// wait waits for the goroutines of streams that have ended.
func (r *reminders) wait() {
	r.calls.Wait()
	if r.actors != nil {
		r.actors.Wait()
	}
}

// runReminders takes part in the reminder service until ctx ends.
func (n *Node) runReminders(ctx context.Context) {
	if n.reminders.service == nil {
		return
	}
	n.cfg.Log.Info("reminders are served", "known as", n.reminderAddress())
	var actors sync.WaitGroup
	actors.Go(func() { n.reminders.actors.Run(ctx) })
	n.reminders.service.Run(ctx)
	actors.Wait()
}

// watchReminders adds what is told of the reminder service.
func (m *metrics) watchReminders(r *reminders) {
	gauge := func(name, help string, read func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	counter := func(result string, read func(call.Counts) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_reminder_executions_total",
			Help: "Executions of reminders by how they ended, and those that were sent.", ConstLabels: prometheus.Labels{"result": result}},
			func() float64 { return float64(read(r.calls.Counts())) }))
	}
	gauge("rouse_reminder_sidecars", "Sidecars that are connected.", func() float64 { return float64(r.calls.Counts().Streams) })
	gauge("rouse_reminder_executions", "Executions in memory.", func() float64 { return float64(r.calls.Counts().Inside) })
	gauge("rouse_reminder_executions_waiting", "Executions for which no sidecar is connected.", func() float64 { return float64(r.calls.Counts().Waiting) })
	gauge("rouse_reminder_load_factor", "What this node does beside what it is set to be able to do: from 1 on, scale out.", r.service.Load)
	gauge("rouse_reminder_buckets", "Token buckets.", func() float64 { return float64(len(r.service.Table().Rows)) })
	gauge("rouse_reminder_buckets_max", "Token buckets that there may be.", func() float64 { return service.MostBuckets })
	counter("sent", func(c call.Counts) uint64 { return c.Sent })
	counter("done", func(c call.Counts) uint64 { return c.Done })
	counter("failed", func(c call.Counts) uint64 { return c.Failed })
	counter("unanswered", func(c call.Counts) uint64 { return c.Unanswered })
	counter("elsewhere", func(c call.Counts) uint64 { return c.Elsewhere })
	counter("lent", func(c call.Counts) uint64 { return c.Lent })
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_reminder_sidecars_lost_total",
		Help: "Sidecars that were silent for too long."}, func() float64 { return float64(r.calls.Counts().Lost) }))
}
