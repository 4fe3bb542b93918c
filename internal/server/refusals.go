package server

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// refusalsEvery is the log interval of each limit.
const refusalsEvery = 10 * time.Second

// sheds are the limits of concurrent requests, each with the words for its log line and error.
var sheds = map[string]string{
	"writes": "timers are being written", "reads": "lists are being read", "bulks": "bulk changes",
	"simulations": "simulations", "followers": "followers", "calls": "requests wait for their answers", "logins": "people are signing in", "open": "calls without credentials", limitMemory: "bytes are being received",
}

const (
	limitMemory     = "request-memory"
	limitReceive    = "receive-timeout"
	limitConns      = "connections"
	limitAdminConns = "admin-connections"
	limitHandshake  = "tls-handshake"
	perAddress      = "-per-address"
	limitStore      = "store" // the store is unavailable
)

// Limits are the names with which Options.Refused is called.
var Limits = append(slices.Sorted(maps.Keys(sheds)), limitReceive, limitHandshake, limitConns, limitConns+perAddress, limitAdminConns, limitAdminConns+perAddress, limitStore)

// shed is the error of a request beyond a limit.
type shed struct{ limit string }

func (e *shed) Error() string {
	return "too many " + sheds[e.limit] + " at a time: " + rouse.ErrOverloaded.Error()
}
func (e *shed) Unwrap() error { return rouse.ErrOverloaded }

// refusals reports reached limits: each to the metric, and one log line per limit in refusalsEvery.
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

// note reports that a limit was reached. There are few limits.
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

// failed reports a request that failed because the store was unavailable or a limit was reached.
func (r *refusals) failed(err error) {
	var full *shed
	switch {
	case errors.As(err, new(*rouse.StoreError)):
		r.note(limitStore, "requests failed: the store is unavailable", "err", rouse.Shorten(err.Error(), 160))
	case errors.As(err, &full) && full.limit != limitMemory: // memory is reported where it is taken
		r.note(full.limit, "requests refused: too many "+sheds[full.limit]+" at a time")
	}
}
