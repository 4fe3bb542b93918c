package claim

import (
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// A node that is much slower than its peers gives its timers away: calls to the store that take long make every step of a fire late, and the
// others have time. Calls are measured where they are made, so that a slow network shows in them, and a busy processor, too. Where the
// store is slow for all nodes, all keep what they have.
const (
	slowCall   = 100 * time.Millisecond // calls that take less are quick enough, however quick the peers' are
	slowFactor = 4                      // a node is slow whose calls take so many times as long as its peers'
	paceSpan   = 2 * time.Second        // typical is the median of the calls in so long,
	paceCalls  = 3                      // and of so many at least
	paceMost   = 32                     // and at most
)

// pace is how long calls to the store took.
type pace struct {
	mu    sync.Mutex
	calls []paced // in the order of their ends
}

type paced struct {
	ended time.Time
	took  time.Duration
}

// add notes a call that began then and has just ended.
func (p *pace) add(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	old := 0
	for old < len(p.calls) && len(p.calls)-old >= paceCalls && (now.Sub(p.calls[old].ended) > paceSpan || len(p.calls)-old >= paceMost) {
		old++
	}
	p.calls = append(slices.Delete(p.calls, 0, old), paced{now, now.Sub(began)})
}

// typical returns how long a call takes now; 0 is not known.
func (p *pace) typical() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) < paceCalls {
		return 0
	}
	var took []time.Duration
	for _, c := range p.calls {
		took = append(took, c.took)
	}
	return max(1, median(took))
}

// median returns the lower median, 0 of nothing.
func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[(len(d)-1)/2]
}

// standing is what a node makes of its pace.
type standing int

const (
	quick   standing = iota
	asking           // its calls take long: the peers renew their leases, which tell how long theirs take now
	yielded          // they take long for this node alone: it takes no timers
)

// compare finds out, from a look at the leases, whether this node is slow, or is no more. What changes, the next renewal tells, at once. mu is
// held.
func (m *Member) compare(v *view) {
	own := slices.IndexFunc(v.nodes, func(n Node) bool { return n.Owner == m.owner })
	if !m.o.Fires || own < 0 {
		return
	}
	mine := m.pace.typical()
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
		if n.Until >= m.asked { // it was renewed since
			fresh = append(fresh, n.Takes)
		}
		if n.Takes >= slowCall && n.Takes >= slowFactor*mine && v.nodes[own].Until < n.Until {
			m.answers = true // it asks how quick this node is now
			m.renewSoon.Store(true)
		}
	}
	switch was := m.standing; {
	case was == yielded:
		if time.Since(m.yieldedAt) >= m.o.TTL && mine*2 < max(slowCall, slowFactor*median(peers)) || len(peers) == 0 {
			m.stand(quick, mine, median(peers))
		}
	case mine < slowCall:
		m.standing = quick
	case was == quick:
		m.standing, m.asked = asking, rouse.Never
		m.renewSoon.Store(true)
	case len(fresh) > 0 && mine >= slowFactor*median(fresh):
		m.yieldedAt = time.Now()
		m.stand(yielded, mine, median(fresh))
	}
}

// stand has the others told that this node yields, or does not any more.
func (m *Member) stand(s standing, mine, peers time.Duration) {
	m.standing = s
	m.renewSoon.Store(true)
	notify.Send(m.changed)
	if m.o.Yields != nil {
		m.o.Yields(s == yielded, mine, peers)
	}
}

// yields says whether this node leaves its timers to quicker ones.
func (m *Member) yields() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standing == yielded
}
