package transport

import (
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// refusalsEvery is the log interval of each limit.
const refusalsEvery = 10 * time.Second

// Limits of connections and their memory, by the names with which Refusals report them.
const (
	LimitMemory    = "request-memory"
	LimitReceive   = "receive-timeout"
	LimitHandshake = "tls-handshake"

	// PerAddress ends the name of the limit of Conns from one address.
	PerAddress = "-per-address"
)

// RetryAfter is when a client should retry a request that was refused because a limit was reached.
const RetryAfter = time.Second

// Overload is the error of a request beyond a limit.
type Overload struct {
	Limit string // its name
	What  string // of which there are too many
}

func (e *Overload) Error() string {
	return "too many " + e.What + " at a time: " + rouse.ErrOverloaded.Error()
}

// Unwrap returns rouse.ErrOverloaded.
func (e *Overload) Unwrap() error { return rouse.ErrOverloaded }

// NewOverload returns the error of a request beyond a limit, with when to retry it.
func NewOverload(limit, what string) error {
	return &rouse.RetryAfter{Err: &Overload{limit, what}, After: RetryAfter}
}

// NewMemoryOverload returns the error of a request that does not fit into a Budget.
func NewMemoryOverload() error { return NewOverload(LimitMemory, "bytes are being received") }

// Refusals reports reached limits: each to the metric, and one log line per limit in refusalsEvery.
type Refusals struct {
	log   *slog.Logger
	count func(limit string) // may be nil

	mu   sync.Mutex
	seen map[string]*seen
}

type seen struct {
	at    time.Time
	times int
}

// NewRefusals returns refusals that are logged, and counted by a function that may be nil.
func NewRefusals(log *slog.Logger, count func(limit string)) *Refusals {
	return &Refusals{log: log, count: count, seen: map[string]*seen{}}
}

// NoteRefusal reports that a limit was reached. There are few limits.
func (r *Refusals) NoteRefusal(limit, message string, args ...any) {
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
