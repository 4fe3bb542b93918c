package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// refusalsEvery is how often one limit is logged at most.
const refusalsEvery = 10 * time.Second

// refusals reports that limits were reached: each to the metric, and one line a limit in refusalsEvery to the log.
type refusals struct {
	log   *slog.Logger
	count func(limit string) // may be nil

	mu   sync.Mutex
	seen map[string]*seen
}

type seen struct {
	at    time.Time
	times int
}

func newRefusals(o *Options) *refusals {
	return &refusals{log: o.Log, count: o.Refused, seen: map[string]*seen{}}
}

// note reports that a limit, of which there are few, was reached.
func (r *refusals) note(limit, message string, args ...any) {
	if r.count != nil {
		r.count(limit)
	}
	r.mu.Lock()
	s := r.seen[limit]
	if s == nil {
		s = &seen{}
		r.seen[limit] = s
	}
	s.times++
	now, times := time.Now(), s.times
	quiet := !s.at.IsZero() && now.Sub(s.at) < refusalsEvery
	if !quiet {
		s.at, s.times = now, 0
	}
	r.mu.Unlock()
	if !quiet {
		r.log.Warn(message, append([]any{"limit", limit, "times", times}, args...)...)
	}
}

// away reports a request that failed because the store did.
func (r *refusals) away(err error) {
	r.note("store", "requests failed: the store is unavailable", "err", rouse.Shorten(err.Error(), 160))
}
