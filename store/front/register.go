package front

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/store/postgres"
)

func init() {
	store.Register("front", store.Driver{Open: func(ctx context.Context, url string,
		o store.Options) (rouse.Store, error) {
		return Open(ctx, url, o.Index, Options{SQL: postgres.From(o), Criticality: o.Criticality, Log: o.Log})
	}})
}

// Collectors returns the metrics of the index.
func (s *Store) Collectors() []prometheus.Collector {
	gauge := func(name, help string, read func(Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(s.Stats()) })
	}
	counter := func(name, help string, read func(Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(read(s.Stats())) })
	}
	return []prometheus.Collector{
		gauge("rouse_index_away", "1 while the index of due times is away, 0 while it is there.", func(s Stats) float64 {
			if s.Mode == WithoutIndex {
				return 1
			}
			return 0
		}),
		gauge("rouse_index_level", "The criticality from which on all timers are in the index; 0 is all, 10 none.",
			func(s Stats) float64 { return float64(s.Level) }),
		gauge("rouse_index_pending", "Timers that the index is still to be told of.",
			func(s Stats) float64 { return float64(s.Pending) }),
		counter("rouse_index_lost_total", "How often the index went away.", func(s Stats) uint64 { return s.Lost }),
		counter("rouse_index_synced_total", "Timers that this node has put into an empty index.",
			func(s Stats) uint64 { return s.Synced }),
		counter("rouse_index_found_total", "Overdue timers that the index did not know of.",
			func(s Stats) uint64 { return s.Found }),
		counter("rouse_index_mended_total", "Entries of the index that were no longer so when they were used.",
			func(s Stats) uint64 { return s.Repaired }),
	}
}
