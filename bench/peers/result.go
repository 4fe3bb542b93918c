package main

import (
	"fmt"
	"strings"
)

// result holds the figures of a peer.
type result struct {
	Peer     string   `json:"peer"`
	Scenario scenario `json:"scenario"`
	Store    string   `json:"store"`
	Settings string   `json:"settings"`
	Jobs     int64    `json:"jobs"`
	Seconds  float64  `json:"seconds"`
	Rate     float64  `json:"rate_per_second"` // of inserts, or of jobs that were inserted and worked
	OwnCPU   float64  `json:"cpu_us_per_job"`  // of the process that inserts and works
	StoreCPU float64  `json:"store_cpu_us_per_job"`
	P50      float64  `json:"p50_ms,omitempty"` // how late jobs were worked; negative if early
	P99      float64  `json:"p99_ms,omitempty"`
	Max      float64  `json:"max_ms,omitempty"`
	Early    *int64   `json:"early,omitempty"` // jobs that were worked before they were due
}

func (r *result) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("peer", "%s: %s", r.Peer, r.Settings)
	line("scenario", "%s", r.Scenario)
	line("store", "%s", r.Store)
	line("jobs", "%d in %.2f s", r.Jobs, r.Seconds)
	line("rate", "%.0f/s", r.Rate)
	line("CPU", "%.1f µs a job, and %.1f µs of the store", r.OwnCPU, r.StoreCPU)
	if r.Early != nil {
		line("lag", "p50 %.0f ms, p99 %.0f ms, max %.0f ms", r.P50, r.P99, r.Max)
		line("early", "%d", *r.Early)
	}
	b.WriteByte('\n')
	return b.String()
}
