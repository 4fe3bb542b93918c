package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/store"
)

// checkIndex looks at what concerns an index in front of the store.
func (c *Config) checkIndex() (bad setting.Problems) {
	if c.IndexCriticality < 0 || c.IndexCriticality > rouse.MaxCriticality {
		bad.Add("index-criticality", "is %d: give 0 to %d", c.IndexCriticality, rouse.MaxCriticality)
	}
	if c.Index == "" {
		return bad
	}
	if k, err := store.KindOf(c.Index); err != nil || k.Name != "redis" {
		bad.Add("index", "is not the URL of a Redis: give redis://HOST:PORT/DATABASE, or nothing")
	}
	if k, err := store.KindOf(c.storeURL()); err == nil && k.Name != "postgres" {
		bad.Add("index", "is for a store in PostgreSQL: leave it out, or name one as the store")
	}
	return bad
}

// watchStore adds the metrics of a store that has its own.
func (m *metrics) watchStore(store rouse.Store) {
	if s, ok := store.(interface{ Collectors() []prometheus.Collector }); ok {
		m.registry.MustRegister(s.Collectors()...)
	}
}
