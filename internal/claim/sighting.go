package claim

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// The store's clock decides when a lease ends. If that clock was ahead and is set right, leases of that time
// end as much too late: a node that died would keep its buckets for hours. So no lease is believed for longer
// than it lasts. A node notes when it first saw each lease as it is, by its own clock; one that its owner has
// not renewed for as long as it lasts has ended, whatever the store's clock shows, and is ended in the store.
// The owner, if it lives, has not relied on it for a tenth of that time.

// observedLease is a lease as a look found it.
type observedLease struct {
	owner string
	epoch uint64
	until rouse.Instant
	since time.Time     // no later than when its owner wrote it
	lasts time.Duration // without a renewal
}

// observedLeases are the leases of other owners, by name. It is used by one goroutine.
type observedLeases struct {
	seen  map[string]observedLease
	heard time.Time     // when the answer of the last look arrived
	now   rouse.Instant // the store's clock in it
}

// longestLease is the duration of a lease whose owner does not publish it: no node has longer ones.
const longestLease = 10 * time.Minute

// noteLeases updates the sightings from a look, and returns the leases that have ended.
func (s *observedLeases) noteLeases(v *view, self string) (ended []rouse.Lease) {
	was := s.seen
	s.seen = make(map[string]observedLease, len(v.live))
	for _, l := range v.live {
		if l.Owner == self {
			continue
		}
		old, known := was[l.Name]
		is := observedLease{owner: l.Owner, epoch: l.Epoch, until: l.Until, lasts: v.lasts[l.Owner]}
		same := known && old.owner == is.owner && old.epoch == is.epoch
		if is.lasts <= 0 && same {
			is.lasts = old.lasts
		}
		if is.lasts <= 0 {
			is.lasts = longestLease
		}
		if is.since = s.writtenAt(v, &is); same && old.until == is.until {
			is.since = old.since
		}
		s.seen[l.Name] = is
		if v.asked.Sub(is.since) >= is.lasts {
			ended = append(ended, l)
		}
	}
	s.heard, s.now = v.heard, v.now
	return ended
}

// writtenAt returns when a lease was written that the last look did not find as it is: between the two looks;
// as its end shows, if the store's clock was not moved between them.
func (s *observedLeases) writtenAt(v *view, is *observedLease) time.Time {
	passed := v.heard.Sub(s.heard)
	if s.heard.IsZero() || (v.now.Sub(s.now)-passed).Abs() > is.lasts/20 {
		return v.heard
	}
	age := is.lasts - is.until.Sub(v.now)
	return v.heard.Add(-min(max(age, 0), passed))
}

// nextLook returns when to look again: at the given time, or sooner if a lease ends before it unless its
// owner renews it, but not at once.
func (s *observedLeases) nextLook(at, soonest time.Time) time.Time {
	for _, l := range s.seen {
		if end := l.since.Add(l.lasts); end.Before(at) {
			at = end
		}
	}
	if at.Before(soonest) {
		return soonest
	}
	return at
}

// endOutlived ends the leases in the store that have ended by this node's clock, so that all nodes find them
// free. One that its owner has renewed since the look stays: the owner relies on it again. It reports whether
// it may have ended some.
func (m *Member) endOutlived(ctx context.Context, v *view) (some bool) {
	ended := m.sightings.noteLeases(v, m.owner)
	locks, ok := m.locks.(rouse.LeaseEnder)
	if !ok || len(ended) == 0 {
		return false
	}
	ending, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	defer cancel()
	if locks.EndLeases(ending, ended) != nil {
		return false // the next look tries again
	}
	if slices.ContainsFunc(ended, func(l rouse.Lease) bool {
		return l.Name == nodePrefix+m.o.Node ||
			l.Name == leaderName
	}) {
		m.renewSoon.Store(true)
		notify.Send(m.wake)
	}
	m.announceChange(ctx)
	return true
}

// Leases of nodes stay when they have ended, and every look reads all: where each process has a name of its
// own, there would be more and more of them.
const (
	// goneAfter is for how long the lease of a node has ended when it is deleted. Until then all nodes have
	// seen that it was shut down.
	goneAfter = time.Hour
	// maxGone bounds the leases that are deleted at a time.
	maxGone = 1000
)

// dropGone deletes leases of nodes that are long gone, if this node leads.
func (m *Member) dropGone(ctx context.Context, v *view) {
	locks, ok := m.locks.(rouse.LeaseDropper)
	if !ok || len(v.gone) == 0 || !m.Leader() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	defer cancel()
	_ = locks.DropLeases(ctx, v.gone) // those that are left are deleted by the next look
}
