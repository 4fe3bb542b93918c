package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/server"
)

// limited counts a request or a connection that was refused because a limit was reached.
func (m *metrics) limited(limit string) { m.refused.WithLabelValues(limit).Inc() }

// watchServer adds what requests take.
func (m *metrics) watchServer(s *server.Server) {
	gauge := func(name, help string, read func(server.Load) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return read(s.Load()) }))
	}
	gauge("rouse_api_connections", "Connections to the API.", func(l server.Load) float64 { return float64(l.Conns) })
	gauge("rouse_request_memory_bytes", "Bytes of requests that are being received, decoded and handled.", func(l server.Load) float64 { return float64(l.Memory) })
}
