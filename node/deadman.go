package node

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/heartbeat"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/timers"
)

// CanaryKey is the timer that fires through the whole path of a store's nodes while one of them has a canary.
var CanaryKey = heartbeat.Key

// checkSigns checks the settings of the signs of life.
func (c *Config) checkSigns() error {
	var bad rouse.Invalid
	if c.Heartbeat != "" {
		if u, err := url.Parse(c.Heartbeat); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad.Wrong("heartbeat", "is not a URL: give http://… or https://…") // its path may be a secret
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		off   bool
	}{{"heartbeat-interval", c.HeartbeatInterval, c.Heartbeat == ""}, {"canary", c.Canary, c.Canary == 0}} {
		if !d.off && (d.value < time.Second || d.value > time.Hour) {
			bad.Wrong(d.name, "is %v: give %v to %v", d.value, time.Second, time.Hour)
		}
	}
	return bad.Err()
}

// openSigns adds the signs of life of a node that others can watch: the canary and the heartbeat.
func openSigns(n *Node) {
	c := n.canaryTimer()
	if c.Every > 0 {
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_canary_age_seconds",
			Help: "How long ago the occurrence of the canary was due that fired last; -1 if the store does not answer."},
			c.Seconds))
		n.addPart(parts.Part{Name: "canary", Sinks: map[string]rouse.Sink{"canary": heartbeat.Sink{}},
			Work: c.Run(n.cfg.Log)})
	}
	if n.cfg.Heartbeat == "" {
		return
	}
	h := heartbeat.Heartbeat{Every: n.cfg.HeartbeatInterval, Healthy: firingCheck(n, c),
		Send: heartbeat.PostTo(n.cfg.Heartbeat), Log: n.cfg.Log,
		Count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_heartbeats_total",
			Help: "Heartbeats by result: sent, failed, or withheld because the node does not fire on time."},
			[]string{"result"})}
	for _, result := range []string{"sent", "failed", "withheld"} {
		h.Count.WithLabelValues(result)
	}
	n.registry.MustRegister(h.Count)
	n.addPart(parts.Part{Name: "heartbeat", Work: h.Run})
}

// firingCheck returns a function that returns why the node does not fire on time.
func firingCheck(n *Node, c heartbeat.Canary) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := cmp.Or(n.Healthy(), n.timers.Degraded()); err != nil {
			return err
		}
		if v := n.timers.Violations(); v != (engine.Violations{Looks: v.Looks, Homeless: v.Homeless}) {
			return fmt.Errorf("overdue timers make no progress: %d unclaimed, %d stuck, %d held over", v.Unclaimed, v.Stuck,
				v.HeldOver)
		}
		if c.Every == 0 {
			return nil
		}
		age, late, err := c.Age(ctx)
		if late {
			err = fmt.Errorf("the canary has not fired for %v", age)
		}
		return err
	}
}

func (n *Node) canaryTimer() heartbeat.Canary {
	return heartbeat.Canary{Every: n.cfg.Canary, Store: n.store, Timers: func() *timers.Timers { return n.timers }}
}
