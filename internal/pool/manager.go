package pool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Config configures a pool, independent of its transport.
type Config struct {
	Name string

	Delays // both at least a millisecond

	// ExtraLifetime is the window in which reports of the workers of one key count as one; 1s if zero.
	ExtraLifetime time.Duration

	// MaxWork is how long workers may hold a request, and how long a group counts as busy if the transport
	// cannot count its requests; at least a millisecond. If zero, there is no limit, and the transport must
	// call Term.Loads with current numbers, several times in the unbind delay.
	MaxWork time.Duration

	// Namespaces is Shared or Apart: whether namespaces share the group of a key; Shared if empty.
	Namespaces string

	Workers int // of a group; 1 if zero
	Limits  Limits
	Windows []Window // when workers may run; always if empty
	Pinned  []string // names of the groups that are always there
	Timing  Timing
	Driver  driver.Driver
	Log     *slog.Logger // slog.Default if nil
	Metrics *Metrics
}

func (c *Config) checkPoolConfig() error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"unbind_delay", c.Unbind}, {"stop_delay", c.Stop}} {
		if d.value < time.Millisecond {
			return rouse.Refuse(d.name, d.value.String(), "is no delay", "give at least 1ms; minutes are usual")
		}
	}
	switch {
	case c.ExtraLifetime < 0:
		return rouse.Refuse("extra_lifetime", c.ExtraLifetime.String(), "is negative", "give 1s, or leave it out")
	case c.MaxWork < 0 || c.MaxWork > 0 && c.MaxWork < time.Millisecond:
		return rouse.Refuse("max_work", c.MaxWork.String(), "is no time that work takes",
			"leave it out, or give at least 1ms; more than the longest request takes")
	case c.Workers < 0 || c.Workers > 1000:
		return rouse.Refuse("workers", fmt.Sprint(c.Workers), "is no number of workers for a key", "give 1 to 1000")
	case len(c.Pinned) > maxPinned:
		return rouse.Refuse("pinned", fmt.Sprint(len(c.Pinned)), "are too many keys", fmt.Sprintf("name up to %d", maxPinned))
	case c.Namespaces != Shared && c.Namespaces != Apart:
		return rouse.Refuse("namespaces", c.Namespaces, "is neither shared nor apart",
			"write shared for one group of all namespaces, or apart for a group of each")
	case c.Driver == nil:
		return rouse.Refuse("driver", "", "is missing", "name what starts the workers")
	case c.Metrics == nil:
		return rouse.Refuse("metrics", "", "is missing", "make them with NewRegistry")
	}
	for _, name := range c.Pinned {
		if _, err := c.ParseGroup(name); err != nil {
			return rouse.Under("pinned", err)
		}
	}
	if err := checkWindows(c.Windows); err != nil {
		return err
	}
	return c.Limits.checkLimits(max(1, c.Workers))
}

// Manager manages a pool during terms, in which its transport leads the pool.
type Manager struct {
	config Config
	log    *slog.Logger

	mu     sync.Mutex
	term   *Term           // nil while there is none
	pinned map[string]bool // groups of each term
}

// maxPinned is the maximum number of pinned keys of a pool.
const maxPinned = 1000

// NewManager returns a manager, which is idle until Begin starts a term.
func NewManager(c Config) (*Manager, error) {
	c.Namespaces = cmp.Or(c.Namespaces, Shared)
	if err := c.checkPoolConfig(); err != nil {
		return nil, fmt.Errorf("pool %q: %w", c.Name, err)
	}
	c.ExtraLifetime = cmp.Or(c.ExtraLifetime, time.Second)
	c.Workers = cmp.Or(c.Workers, 1)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Timing, c.Limits = c.Timing.withTimingDefaults(), c.Limits.withLimitDefaults()
	m := &Manager{config: c, log: c.Log.With("pool", c.Name), pinned: map[string]bool{}}
	for _, name := range c.Pinned {
		group, err := c.ParseGroup(name)
		if err != nil {
			return nil, fmt.Errorf("pool %q: %w", c.Name, err)
		}
		m.pinned[group] = true
	}
	return m, nil
}

// Config returns the configuration, with its defaults.
func (m *Manager) Config() Config { return m.config }

// Log returns the log of the pool.
func (m *Manager) Log() *slog.Logger { return m.log }

// Metrics returns the metrics of the pool.
func (m *Manager) Metrics() *Metrics { return m.config.Metrics }

// Begin starts a term: it lists the existing queues, whose groups count as just requested, and runs the loops
// until ctx ends. There is at most one term at a time; Term.Wait returns when it has ended.
func (m *Manager) Begin(ctx context.Context, queues Queues) (*Term, error) {
	listing, cancel := context.WithTimeout(ctx, m.config.Timing.Call)
	defer cancel()
	there, err := queues.List(listing)
	if err != nil {
		return nil, fmt.Errorf("list the request queues of pool %s: %w", m.config.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term != nil {
		return nil, fmt.Errorf("pool %s: there is a term already", m.config.Name)
	}
	if p, ok := m.config.Driver.(driver.Pauser); ok {
		p.Retry()
	}
	m.term = newTerm(m, queues, there)
	m.term.runLoops(ctx)
	return m.term, nil
}

func (m *Manager) dropTerm(t *Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term == t {
		m.term = nil
	}
}

func (m *Manager) currentTerm() *Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}
