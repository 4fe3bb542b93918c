package claim

import (
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// A node that is much slower than its peers yields its timers to them: slow store calls delay every step of
// a fire. Calls are measured at the caller, so they include slow networks and busy processors. If the store
// is slow for all nodes, no node yields.
const (
	slowCall   = 100 * time.Millisecond // faster calls never count as slow
	slowFactor = 4                      // a node is slow if its calls take this many times as long as its peers'
	paceSpan   = 2 * time.Second        // typicalDuration is the median of the calls in this span,
	paceCalls  = 3                      // of at least this many
	paceMost   = 32                     // and at most this many calls
)

// pace measures store calls.
type pace struct {
	mu    sync.Mutex
	calls []paced // ordered by their ends
}

type paced struct {
	ended time.Time
	took  time.Duration
}

// addCall records a call that has just ended.
func (p *pace) addCall(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	old := 0
	for old < len(p.calls) && len(p.calls)-old >= paceCalls &&
		(now.Sub(p.calls[old].ended) > paceSpan || len(p.calls)-old >= paceMost) {
		old++
	}
	p.calls = append(slices.Delete(p.calls, 0, old), paced{now, now.Sub(began)})
}

// typicalDuration returns the current duration of a call; 0 if unknown.
func (p *pace) typicalDuration() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) < paceCalls {
		return 0
	}
	var took []time.Duration
	for _, c := range p.calls {
		took = append(took, c.took)
	}
	return max(1, lowerMedian(took))
}

// lowerMedian returns the lower median; 0 for no values.
func lowerMedian(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[(len(d)-1)/2]
}

// standing is how a node compares to its peers.
type standing int

const (
	quick   standing = iota
	asking           // its calls are slow: it waits for fresh measurements in the leases of its peers
	yielded          // only its calls are slow: it takes no timers
)

// comparePace decides from the leases whether this node is slow. The next renewal, which it triggers,
// announces a change. mu is held.
func (m *Member) comparePace(v *view) {
	own := slices.IndexFunc(v.nodes, func(n Node) bool { return n.Owner == m.owner })
	if !m.o.Fires || own < 0 {
		return
	}
	mine := m.pace.typicalDuration()
	if told := &v.nodes[own]; m.standing == asking && m.asked == rouse.Never && told.Takes >= slowCall {
		m.asked = told.Until
	}
	var peers, fresh []time.Duration
	for i := range v.nodes {
		n := &v.nodes[i]
		if i == own || n.Takes == 0 {
			continue
		}
		peers = append(peers, n.Takes)
		if n.Until >= m.asked { // renewed since
			fresh = append(fresh, n.Takes)
		}
		if n.Takes >= slowCall && n.Takes >= slowFactor*mine && v.nodes[own].Until < n.Until {
			m.answers = true // that node needs to know how fast this one is
			m.renewSoon.Store(true)
		}
	}
	switch was := m.standing; {
	case was == yielded:
		if time.Since(m.yieldedAt) >= m.o.TTL && mine*2 < max(slowCall, slowFactor*lowerMedian(peers)) || len(peers) == 0 {
			m.changeStanding(quick, mine, lowerMedian(peers))
		}
	case mine < slowCall:
		m.standing = quick
	case was == quick:
		m.standing, m.asked = asking, rouse.Never
		m.renewSoon.Store(true)
	case len(fresh) > 0 && mine >= slowFactor*lowerMedian(fresh):
		m.yieldedAt = time.Now()
		m.changeStanding(yielded, mine, lowerMedian(fresh))
	}
}

// changeStanding changes between yielding and not, and announces it.
func (m *Member) changeStanding(s standing, mine, peers time.Duration) {
	m.standing = s
	m.renewSoon.Store(true)
	notify.Send(m.changed)
	if m.o.Yields != nil {
		m.o.Yields(s == yielded, mine, peers)
	}
}

// isYielding reports whether this node leaves its timers to faster ones.
func (m *Member) isYielding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standing == yielded
}
