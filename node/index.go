package node

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/front"
	"github.com/rousehq/rouse/store/postgres"
)

// checkIndex looks at what concerns an index in front of the store.
func (c *Config) checkIndex() (bad problems) {
	if c.IndexCriticality < 0 || c.IndexCriticality > rouse.MaxCriticality {
		bad.add("index-criticality", "is %d: give 0 to %d", c.IndexCriticality, rouse.MaxCriticality)
	}
	if c.Index == "" {
		return bad
	}
	if scheme, _, ok := strings.Cut(c.Index, "://"); !ok || !slices.Contains(redisSchemes, scheme) {
		bad.add("index", "is not the URL of a Redis: give redis://HOST:PORT/DATABASE, or nothing")
	}
	if scheme, _, err := c.store(); err == nil && scheme != "postgres" {
		bad.add("index", "is for a store in PostgreSQL: leave it out, or name one as the store")
	}
	return bad
}

// openIndexed opens a store in PostgreSQL that has an index in front of it.
func (c *Config) openIndexed(ctx context.Context, o postgres.Options) (rouse.Store, error) {
	return front.Open(ctx, c.Store, c.Index, front.Options{SQL: o, Criticality: uint8(c.IndexCriticality), Log: c.Log})
}

// watchIndex adds what is told of an index in front of the store, if there is one.
func (m *metrics) watchIndex(store rouse.Store) {
	s, ok := store.(*front.Store)
	if !ok {
		return
	}
	gauge := func(name, help string, read func(front.Stats) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return read(s.Stats()) }))
	}
	counter := func(name, help string, read func(front.Stats) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read(s.Stats())) }))
	}
	gauge("rouse_index_away", "1 while the index of due times is away, 0 while it is there.", func(s front.Stats) float64 {
		if s.Mode == front.WithoutIndex {
			return 1
		}
		return 0
	})
	gauge("rouse_index_level", "The criticality from which on all timers are in the index; 0 is all, 10 none.", func(s front.Stats) float64 { return float64(s.Level) })
	gauge("rouse_index_pending", "Timers that the index is still to be told of.", func(s front.Stats) float64 { return float64(s.Pending) })
	counter("rouse_index_lost_total", "How often the index went away.", func(s front.Stats) uint64 { return s.Lost })
	counter("rouse_index_synced_total", "Timers that this node has put into an empty index.", func(s front.Stats) uint64 { return s.Synced })
	counter("rouse_index_found_total", "Overdue timers that the index did not know of.", func(s front.Stats) uint64 { return s.Found })
	counter("rouse_index_mended_total", "Entries of the index that were no longer so when they were used.", func(s front.Stats) uint64 { return s.Mended })
}
