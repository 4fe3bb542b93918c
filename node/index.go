package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

// checkIndex checks the settings of an index in front of the store.
func (c *Config) checkIndex() error {
	var bad rouse.Invalid
	if c.IndexCriticality < 0 || c.IndexCriticality > rouse.MaxCriticality {
		bad.Wrong("index-criticality", "is %d: give 0 to %d", c.IndexCriticality, rouse.MaxCriticality)
	}
	if c.Index == "" {
		return bad.Err()
	}
	if k, err := store.KindOf(c.Index); err != nil || k.Name != "redis" {
		bad.Wrong("index", "is not the URL of a Redis: give redis://HOST:PORT/DATABASE, or nothing")
	}
	if k, err := store.KindOf(c.storeURL()); err == nil && k.Name != "postgres" {
		bad.Wrong("index", "is for a store in PostgreSQL: leave it out, or name one as the store")
	}
	return bad.Err()
}

// watchStore adds the metrics of a store that has its own.
func (m *metrics) watchStore(store rouse.Store) {
	if s, ok := store.(interface{ Collectors() []prometheus.Collector }); ok {
		m.registry.MustRegister(s.Collectors()...)
	}
}
