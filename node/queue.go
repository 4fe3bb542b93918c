package node

import (
	"context"
	"log/slog"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/relay"
	"github.com/rousehq/rouse/internal/timers"
)

// checkQueue looks at what concerns the queue between schedulers and executors.
func (c *Config) checkQueue() (bad problems) {
	if c.Queue == "" {
		if len(c.Roles) > 0 && c.has("scheduler") != c.has("executor") {
			bad.add("roles", "has only one of scheduler and executor, and there is no queue between them: give queue, or both roles")
		}
		return bad
	}
	if queue.KindOf(c.Queue) == "" {
		bad.add("queue", "is not the URL of a broker: give amqp://…, nats://… or redis://…")
	}
	if c.embedded {
		bad.add("queue", "is for servers: functions cannot be called from a queue; leave it out")
	}
	return bad
}

// openQueue opens the queue between schedulers and executors, nil if there is none for this node.
func (c *Config) openQueue(ctx context.Context) (queue.Queue, error) {
	if c.Queue == "" || !c.has("scheduler") && !c.has("executor") {
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

// executor returns what delivers fires from the queue, nil if this node does not.
func (n *Node) executor(direct rouse.Sink) *relay.Executor {
	cfg := &n.cfg
	if n.queue == nil || !cfg.has("executor") {
		return nil
	}
	return relay.NewExecutor(n.queue, direct, reports{n.timers}, relay.ExecutorOptions{
		Rows: n.store, Limit: cfg.limiter(), Prefetch: cfg.MaxDeliveries, Grace: cfg.Grace, Now: n.timers.Now, Events: n.executorEvents(cfg.Log)})
}

func (n *Node) executorEvents(log *slog.Logger) relay.ExecutorEvents {
	var quiet repeats
	return relay.ExecutorEvents{
		Poisoned: func(id string, err error) {
			n.metrics.failures.WithLabelValues("poison").Inc()
			log.Error("a message of the queue was given up; its attempt has failed", "message", id, "error", err)
		},
		Failed: func(what string, err error) {
			n.metrics.failures.WithLabelValues(what).Inc()
			if times := quiet.allow(what); times > 0 {
				log.Warn("failed, will try again", "what", what, "error", err, "times", times)
			}
		},
	}
}
