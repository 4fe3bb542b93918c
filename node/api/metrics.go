package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/server"
)

// refusalCounter returns a function that counts a request or a connection that was refused because a limit
// was reached.
func refusalCounter(r prometheus.Registerer) func(limit string) {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_refused_total",
		Help: "Requests and connections that were refused because a limit was reached, or the store was away."},
		[]string{"limit"})
	for _, limit := range server.Limits {
		count.WithLabelValues(limit)
	}
	r.MustRegister(count)
	return func(limit string) { count.WithLabelValues(limit).Inc() }
}

// watchLoad adds metrics of the load of requests.
func watchLoad(r prometheus.Registerer, s *server.Server) {
	gauge := func(name, help string, read func(server.Load) float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(s.Load()) }))
	}
	gauge("rouse_api_connections", "Connections to the API.", func(l server.Load) float64 { return float64(l.Conns) })
	gauge("rouse_request_memory_bytes", "Bytes of requests that are being received, decoded and handled.",
		func(l server.Load) float64 { return float64(l.Memory) })
}
