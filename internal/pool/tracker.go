package pool

import (
	"container/heap"
	"fmt"
	"time"
)

// Status is what a group should be.
type Status uint8

// The statuses of groups. A group that is in no target is Inactive.
const (
	Inactive Status = iota // no queue, no workers
	Active                 // its queue is bound, its workers run
	Unbound                // its workers run, new requests for it are orphans
)

// String returns the name of the status.
func (s Status) String() string {
	switch s {
	case Inactive:
		return "inactive"
	case Active:
		return "active"
	case Unbound:
		return "unbound"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Generation numbers the targets of a pool, in their order, from 1.
type Generation uint64

// Target lists the groups that should exist. It is immutable.
type Target struct {
	Generation Generation
	Groups     map[string]Status // Active or Unbound, by key
}

// Delays are how long a group stays without requests.
type Delays struct {
	Unbind time.Duration // from the last request or report until it is unbound
	Stop   time.Duration // from then until it is stopped
}

// Tracker is the state machine of a pool: it decides which groups should exist at any time. It has no clock:
// each call passes the current time, which must not be earlier than in the call before. It is not safe for
// concurrent use.
type Tracker struct {
	delays     Delays
	generation Generation
	groups     map[string]*tracked
	deadlines  deadlines
	target     *Target             // of the generation; nil if it was not asked for yet
	changes    [Unbound + 1]uint64 // how often groups changed to each status

	limits  Limits                 // of groups; zero fields are none
	owned   map[string]int         // groups, by owner
	waiting map[string]*waitingKey // keys that wait for a limit
	pinned  map[string]bool        // groups that do not end by themselves
}

// tracked is a group that is Active or Unbound.
type tracked struct {
	key    string
	status Status
	since  Generation // since when it has been Active without interruption
	next   time.Time  // when its status changes if nothing happens
	index  int        // in the deadlines
	owner  string     // whose requests made it; empty if that is not known
}

// NewTracker returns a tracker. The groups of the given keys are Active as if they had just been requested,
// because the time of their last request is unknown.
func NewTracker(d Delays, now time.Time, keys []string) *Tracker {
	t := &Tracker{delays: d, generation: 1, groups: map[string]*tracked{}, owned: map[string]int{}, waiting: map[string]*waitingKey{},
		pinned: map[string]bool{}}
	for _, key := range keys {
		if t.groups[key] == nil {
			t.add(key, now.Add(d.Unbind))
		}
	}
	return t
}

func (t *Tracker) add(key string, next time.Time) *tracked {
	g := &tracked{key: key, status: Active, since: t.generation, next: next}
	t.groups[key] = g
	heap.Push(&t.deadlines, g)
	return g
}

// Require makes the group of a key Active for the unbind delay plus extra, and returns the generation since
// which it is Active. A caller that drops some events passes as extra the time that the handled event has to
// cover for them. The time of a group is never shortened.
func (t *Tracker) Require(now time.Time, key string, extra time.Duration) Generation {
	t.Advance(now)
	until := now.Add(t.delays.Unbind + extra)
	g := t.groups[key]
	switch {
	case g == nil:
		t.change(Active)
		return t.add(key, until).since
	case g.status == Unbound:
		t.change(Active)
		g.status, g.since = Active, t.generation
		g.next = until
	case until.After(g.next):
		g.next = until
	}
	heap.Fix(&t.deadlines, g.index)
	return g.since
}

// Advance applies what is due, and reports whether the target has changed.
func (t *Tracker) Advance(now time.Time) bool {
	changed := false
	for len(t.deadlines) > 0 && !t.deadlines[0].next.After(now) {
		g := t.deadlines[0]
		if t.pinned[g.key] {
			g.next = now.Add(t.delays.Unbind)
			heap.Fix(&t.deadlines, 0)
			continue
		}
		changed = true
		if g.status == Active {
			t.change(Unbound)
			g.status = Unbound
			g.next = g.next.Add(t.delays.Stop)
			heap.Fix(&t.deadlines, 0)
			continue
		}
		t.end(g)
	}
	if changed {
		t.promote(now)
	}
	return changed
}

// end makes a group Inactive.
func (t *Tracker) end(g *tracked) {
	t.change(Inactive)
	heap.Remove(&t.deadlines, g.index)
	delete(t.groups, g.key)
	t.disown(g)
}

// Next returns when Advance will have something to do; false if never.
func (t *Tracker) Next() (time.Time, bool) {
	if len(t.deadlines) == 0 {
		return time.Time{}, false
	}
	return t.deadlines[0].next, true
}

// Target returns the groups that should exist.
func (t *Tracker) Target() Target {
	if t.target == nil {
		groups := make(map[string]Status, len(t.groups))
		for key, g := range t.groups {
			groups[key] = g.status
		}
		t.target = &Target{t.generation, groups}
	}
	return *t.target
}

// change starts a new generation, in which a group has another status.
func (t *Tracker) change(to Status) {
	t.changes[to]++
	t.generation++
	t.target = nil
}

// deadlines is a heap of groups by their next change, then by key, so that the order of a map has no
// influence.
type deadlines []*tracked

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool {
	if !d[i].next.Equal(d[j].next) {
		return d[i].next.Before(d[j].next)
	}
	return d[i].key < d[j].key
}

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *deadlines) Push(x any) {
	g := x.(*tracked)
	g.index = len(*d)
	*d = append(*d, g)
}

func (d *deadlines) Pop() any {
	old := *d
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return g
}
