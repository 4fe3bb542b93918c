package node

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/sink/broker"
)

// checkBrokers checks the connections to brokers that targets name.
func (c *Config) checkBrokers() error {
	var bad rouse.Invalid
	seen := map[string]bool{}
	for i := range c.Brokers {
		b := &c.Brokers[i]
		bad.Add(rouse.Under("brokers."+rouse.Shorten(b.Name, 64), b.Check()))
		if seen[b.Name] {
			bad.Add(rouse.Refuse("brokers", b.Name, "is the name of two connections", "give each its own"))
		}
		seen[b.Name] = true
	}
	return bad.Err()
}

// brokerHost returns the host of a URL whose user and password may be references to secrets.
func brokerHost(address string) string {
	plain, err := rouse.ExpandSecrets(address, func(string) (string, error) { return "x", nil })
	if err != nil {
		return ""
	}
	u, err := url.Parse(plain)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// openBrokers adds the connections to the sink of targets at brokers. Publishers connect by themselves, and
// retry.
func (n *Node) openBrokers(brokers *broker.Sink) error {
	var sealed []*broker.Sealed
	for _, c := range n.cfg.Brokers {
		var p broker.Publisher
		var err error
		if rouse.HasSecrets(c.URL) {
			var s *broker.Sealed
			host := brokerHost(c.URL)
			s, err = broker.OpenSealed(c, brokerChanged(n.cfg.Log, c.Name), func(namespace, name string) (string, error) {
				return n.secrets.Value(namespace, name, host)
			})
			p, sealed = s, append(sealed, s)
		} else {
			p, err = broker.Open(c, brokerChanged(n.cfg.Log, c.Name))
		}
		if err != nil {
			return rouse.Under("brokers."+c.Name, err)
		}
		brokers.Add(c, p)
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_broker_available",
			Help:        "1 while nothing keeps fires from a broker: it is connected, and takes messages.",
			ConstLabels: prometheus.Labels{"broker": c.Name}}, func() float64 {
			if p.Obstacle() == "" {
				return 1
			}
			return 0
		}))
	}
	if len(sealed) > 0 {
		n.addPart(parts.Part{Name: "secrets of brokers",
			Work: func(ctx context.Context) error {
				refreshBrokers(ctx, n.secrets.Changed(), n.cfg.Log, sealed)
				return nil
			}})
	}
	return nil
}

// refreshBrokers connects to brokers again when secrets in their URLs change, until ctx ends.
func refreshBrokers(ctx context.Context, changed <-chan struct{}, log *slog.Logger, sealed []*broker.Sealed) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		for _, s := range sealed {
			if err := s.Refresh(); err != nil {
				log.Warn("a broker is not connected to with the new value of a secret", "error", err)
			}
		}
	}
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
