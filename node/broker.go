package node

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
)

// checkBrokers looks at what concerns connections to brokers that targets name.
func (c *Config) checkBrokers() error {
	var problems []rouse.Problem
	seen := map[string]bool{}
	for i := range c.Brokers {
		b := &c.Brokers[i]
		for _, p := range b.Check() {
			p.Field = fmt.Sprintf("brokers.%s.%s", rouse.Shorten(b.Name, 64), p.Field)
			problems = append(problems, p)
		}
		if seen[b.Name] {
			problems = append(problems, rouse.Problem{Field: "brokers", Value: b.Name, Wrong: "is the name of two connections", Cure: "give each its own"})
		}
		seen[b.Name] = true
	}
	if len(problems) > 0 {
		return &rouse.Invalid{Problems: problems}
	}
	return nil
}

// openBrokers adds the connections to the sink of targets at brokers. What connects does so by itself, and goes on trying.
func (n *Node) openBrokers(brokers *broker.Sink) error {
	for _, c := range n.cfg.Brokers {
		p, err := broker.Open(c, brokerChanged(n.cfg.Log, c.Name))
		if err != nil {
			return rouse.Under("brokers."+c.Name, err)
		}
		brokers.Add(c, p)
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_broker_available",
			Help: "1 while nothing keeps fires from a broker: it is connected, and takes messages.", ConstLabels: prometheus.Labels{"broker": c.Name}}, func() float64 {
			if p.Obstacle() == "" {
				return 1
			}
			return 0
		}))
	}
	return nil
}

func brokerChanged(log *slog.Logger, name string) func(error) {
	return func(err error) {
		if err != nil {
			log.Warn("a broker is away; its fires wait", "broker", name, "error", err)
			return
		}
		log.Info("a broker is back", "broker", name)
	}
}
