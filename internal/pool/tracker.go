package pool

import (
	"container/heap"
	"fmt"
	"time"
)

// Status is the desired state of a group.
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
//
// Requests that workers hold are known from counts only, which are late. So the end of the unbind delay is
// not enough to unbind a group: a count must also have shown that it held nothing after its last activity.
// Without such a count the group stays Active for maxWork longer.
type Tracker struct {
	delays     Delays
	maxWork    time.Duration // zero: counts are current, and Busy is called for all that they show
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
	due    time.Time  // when its delay ends
	next   time.Time  // when its status changes if nothing happens
	active time.Time  // of its last activity
	idle   time.Time  // as of when it certainly held no requests
	limit  time.Time  // when it is unbound although that is not after its last activity
	index  int        // in the deadlines
	owner  string     // whose requests made it; empty if that is not known
}

// NewTracker returns a tracker. The groups of the given keys are Active as if they had just been requested,
// because the time of their last request is unknown.
func NewTracker(d Delays, now time.Time, keys []string) *Tracker {
	t := &Tracker{delays: d, generation: 1, groups: map[string]*tracked{}, owned: map[string]int{},
		waiting: map[string]*waitingKey{},
		pinned:  map[string]bool{}}
	for _, key := range keys {
		if t.groups[key] == nil {
			t.trackGroup(key, now.Add(d.Unbind), now)
		}
	}
	return t
}

func (t *Tracker) trackGroup(key string, due, active time.Time) *tracked {
	g := &tracked{key: key, status: Active, since: t.generation, due: due, active: active, limit: due.Add(t.maxWork)}
	t.groups[key] = g
	heap.Push(&t.deadlines, g)
	t.scheduleChange(g)
	return g
}

// scheduleChange sets when the status of a group changes.
func (t *Tracker) scheduleChange(g *tracked) {
	g.next = g.due
	if g.status == Active && g.idle.Before(g.active) {
		g.next = g.limit
	}
	heap.Fix(&t.deadlines, g.index)
}

// Require makes the group of a key Active for the unbind delay plus extra, and returns the generation since
// which it is Active. A caller that drops some events passes as extra the time that the handled event has to
// cover for them. The time of a group is never shortened.
func (t *Tracker) Require(now time.Time, key string, extra time.Duration) Generation {
	t.Advance(now)
	return t.extendActive(now, key, extra, now.Add(extra))
}

// extendActive makes the group of a key Active for the unbind delay plus extra, because of an activity at a
// time.
func (t *Tracker) extendActive(now time.Time, key string, extra time.Duration, active time.Time) Generation {
	until := now.Add(t.delays.Unbind + extra)
	g := t.groups[key]
	switch {
	case g == nil:
		t.beginGeneration(Active)
		return t.trackGroup(key, until, active).since
	case g.status == Unbound:
		t.beginGeneration(Active)
		g.status, g.since = Active, t.generation
		g.due = until
	}
	g.due, g.active, g.limit = latestTime(g.due, until), latestTime(g.active, active),
		latestTime(g.limit, until.Add(t.maxWork))
	t.scheduleChange(g)
	return g.since
}

// Busy makes an existing group Active like Require, because a count as of a time shows requests in its queue
// or with its workers.
func (t *Tracker) Busy(now time.Time, key string, asOf time.Time) {
	if t.Advance(now); t.groups[key] != nil {
		t.extendActive(now, key, 0, asOf)
	}
}

// Idle records that a count as of a time shows no requests of a group. If the group was not unbound only for
// the lack of such a count, it is now.
func (t *Tracker) Idle(now time.Time, key string, asOf time.Time) {
	t.Advance(now)
	g := t.groups[key]
	if g == nil || !asOf.After(g.idle) {
		return
	}
	if g.idle = asOf; g.status == Active && !g.idle.Before(g.active) {
		g.due = latestTime(g.due, now)
	}
	t.scheduleChange(g)
	t.Advance(now)
}

// Advance applies due deadlines, and reports whether the target has changed.
func (t *Tracker) Advance(now time.Time) bool {
	changed := false
	for len(t.deadlines) > 0 && !t.deadlines[0].next.After(now) {
		g := t.deadlines[0]
		if t.pinned[g.key] {
			g.due = now.Add(t.delays.Unbind)
			t.scheduleChange(g)
			continue
		}
		changed = true
		if g.status == Active {
			t.beginGeneration(Unbound)
			g.status = Unbound
			g.due = g.next.Add(t.delays.Stop)
			t.scheduleChange(g)
			continue
		}
		t.endGroup(g)
	}
	if changed {
		t.promoteWaiting(now)
	}
	return changed
}

// endGroup makes a group Inactive.
func (t *Tracker) endGroup(g *tracked) {
	t.beginGeneration(Inactive)
	heap.Remove(&t.deadlines, g.index)
	delete(t.groups, g.key)
	t.releaseOwner(g)
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

// beginGeneration starts a new generation, in which a group has another status.
func (t *Tracker) beginGeneration(to Status) {
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
