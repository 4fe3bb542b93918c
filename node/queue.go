package node

import (
	"context"
	"log/slog"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/relay"
	"github.com/rousehq/rouse/internal/timers"
)

// checkQueue checks the settings of the queue between schedulers and executors.
func (c *Config) checkQueue() error {
	var bad rouse.Invalid
	if c.Queue == "" {
		if len(c.Roles) > 0 && c.Has("scheduler") != c.Has("executor") {
			bad.Wrong("roles",
				"has only one of scheduler and executor, and there is no queue between them: give queue, or both roles")
		}
		return bad.Err()
	}
	if queue.KindOf(c.Queue) == "" {
		bad.Wrong("queue", "is not the URL of a broker: give amqp://…, nats://… or redis://…")
	}
	if c.embedded {
		bad.Wrong("queue", "is for servers: functions cannot be called from a queue; leave it out")
	}
	return bad.Err()
}

// openQueue opens the queue between schedulers and executors, nil if there is none for this node.
func (c *Config) openQueue(ctx context.Context) (queue.Queue, error) {
	if c.Queue == "" || !c.Has("scheduler") && !c.Has("executor") {
		return nil, nil
	}
	o := queue.Options{Name: c.QueueName, Failed: func(err error) { c.Log.Warn("queue", "error", err) }}
	return queue.Open(ctx, c.Queue, o, c.Unsafe)
}

// reports lets an executor report to the engine, which any node may do.
type reports struct{ *timers.Timers }

// Report settles an accepted fire, or moves its deadline.
func (r reports) Report(ctx context.Context, key rouse.Key, fireID string, token uint64, o rouse.Outcome) error {
	_, err := r.Timers.Report(ctx, key, timers.Report{FireID: fireID, Token: token, Outcome: o})
	return err
}

// executorPart returns the part that delivers fires from the queue. It drains when it has ended: its last
// reports go through the engine.
func (n *Node) executorPart(q queue.Queue) parts.Part {
	cfg := &n.cfg
	e := relay.NewExecutor(q, n.deliver, reports{n.timers}, relay.ExecutorOptions{
		Rows: n.store, Limit: cfg.laneLimiter(), Prefetch: cfg.MaxDeliveries, Reserve: orNone(cfg.DeliveryReserve),
		Grace: cfg.Grace, Now: n.timers.Now, Events: n.metrics.executorEvents(cfg.Log)})
	var running sync.WaitGroup
	return parts.Part{Name: "executor", Drain: running.Wait,
		Begin: func(context.Context) error { running.Add(1); return nil },
		Work:  func(ctx context.Context) error { defer running.Done(); return e.Run(ctx) }}
}

func (m *metrics) executorEvents(log *slog.Logger) relay.ExecutorEvents {
	var quiet repeats
	return relay.ExecutorEvents{
		Poisoned: func(id string, err error) {
			m.failures.WithLabelValues("poison").Inc()
			log.Error("a message of the queue was given up; its attempt has failed", "message", id, "error", err)
		},
		Failed: func(what string, err error) {
			m.failures.WithLabelValues(what).Inc()
			if times := quiet.countUnlogged(what); times > 0 {
				log.Warn("failed, will try again", "what", what, "error", err, "times", times)
			}
		},
	}
}
