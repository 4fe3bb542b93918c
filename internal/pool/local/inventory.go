package local

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// State returns whether the pool is managed.
func (p *Pool) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == nil {
		return pool.StateConnecting
	}
	return pool.StateLeading
}

// Leader returns an empty string: each node leads for the keys whose requests it fires.
func (p *Pool) Leader() string { return "" }

// errDead is the answer to requests for poison: requests that workers died with are dead letters, like those
// of all timers.
var errDead = rouse.Refuse("poison", "", "is not kept apart in rouse's own store", "use rouse dead list, show, redrive and purge")

// ListPoison fails, as do the three methods below.
func (p *Pool) ListPoison(context.Context, int) ([]pool.Poison, error) { return nil, errDead }

// InspectPoison fails.
func (p *Pool) InspectPoison(context.Context, string) (pool.Poison, error) {
	return pool.Poison{}, errDead
}

// ReplayPoison fails.
func (p *Pool) ReplayPoison(context.Context, string) (int, error) { return 0, errDead }

// PurgePoison fails.
func (p *Pool) PurgePoison(context.Context, string) (int, error) { return 0, errDead }

var _ pool.Transport = (*Pool)(nil)
