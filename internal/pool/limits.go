package pool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Limits bound the groups and workers of a pool. Those beyond a limit wait and are shown in the status. Zero
// fields mean the default.
type Limits struct {
	Groups         int // groups at the same time; default 10,000
	NamespaceOwned int // groups created by requests of one namespace; no limit by default
	Workers        int // workers at the same time, including those that drain; default 1,000
	Starts         int // workers started per second, averaged over some seconds; default 50

	Owned *Owned                      // counts the groups of all pools with the same one; may be nil
	Room  func(namespace string) bool // whether there may be another group of a namespace; nil: always
}

// Owned counts groups by the namespaces whose requests created them. It is safe for concurrent use.
type Owned struct {
	mu sync.Mutex
	n  map[string]int
}

// Of returns how many groups the requests of a namespace have created.
func (o *Owned) Of(namespace string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n[namespace]
}

// countOwned counts groups; of nil it does nothing.
func (o *Owned) countOwned(namespace string, by int) {
	if o == nil || namespace == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = map[string]int{}
	}
	if o.n[namespace] += by; o.n[namespace] == 0 {
		delete(o.n, namespace)
	}
}

// The names of the limits in settings, metrics and the status.
const (
	LimitGroups     = "max_groups"
	LimitNamespace  = "max_groups_per_namespace"
	LimitWorkers    = "max_workers"
	LimitStarts     = "max_starts_per_second"
	defaultGroups   = 10_000
	defaultWorkers  = 1000
	defaultStarts   = 50
	startBurst      = 2       // seconds of starts that may come at once
	mostWaiting     = 1 << 16 // keys that keep their place in line; others must ask again when there is room
	waitingLifetime = 10 * time.Second
)

// ErrLimit is why a group is not started yet.
var ErrLimit = errors.New("a limit of the pool is reached")

func (l Limits) withLimitDefaults() Limits {
	l.Groups, l.Workers, l.Starts = cmp.Or(l.Groups, defaultGroups), cmp.Or(l.Workers, defaultWorkers),
		cmp.Or(l.Starts, defaultStarts)
	return l
}

func (l Limits) checkLimits(size int) error {
	for _, n := range []struct {
		name  string
		value int
	}{{LimitGroups, l.Groups}, {LimitNamespace, l.NamespaceOwned}, {LimitWorkers, l.Workers}, {LimitStarts, l.Starts}} {
		if n.value < 0 || n.value > 1_000_000 {
			return rouse.Refuse(n.name, fmt.Sprint(n.value), "is out of range", "leave it out, or give 1 to 1000000")
		}
	}
	if l.Workers > 0 && l.Workers < size {
		return rouse.Refuse(LimitWorkers, fmt.Sprint(l.Workers), fmt.Sprintf("is less than a group has workers, %d", size),
			"give at least as many")
	}
	return nil
}

// waitingKey is a key whose group would exceed a limit.
type waitingKey struct {
	key, owner string
	since      time.Time // when it asked first
	asked      time.Time // when it asked last
	limit      string
}

// Ask is Require within the limits: it returns false if another group would exceed one. The limit of the
// owner applies in addition to the total; an empty owner has none. Refused keys that keep asking get their
// turn in order of arrival.
func (t *Tracker) Ask(now time.Time, key, owner string, extra time.Duration) (Generation, bool) {
	t.Advance(now)
	if t.groups[key] == nil {
		t.promoteWaiting(now)
	}
	if t.groups[key] == nil {
		if limit := t.exceededLimit(owner); limit != "" {
			t.enqueueWaiting(now, key, owner, limit)
			return 0, false
		}
		delete(t.waiting, key)
		g := t.Require(now, key, extra)
		t.assignOwner(key, owner)
		return g, true
	}
	return t.Require(now, key, extra), true
}

// exceededLimit returns the limit that another group of an owner would exceed.
func (t *Tracker) exceededLimit(owner string) string {
	switch {
	case t.limits.Groups > 0 && len(t.groups) >= t.limits.Groups:
		return LimitGroups
	case owner != "" && t.limits.NamespaceOwned > 0 && t.owned[owner] >= t.limits.NamespaceOwned:
		return LimitNamespace
	case owner != "" && t.limits.Room != nil && !t.limits.Room(owner):
		return rouse.QuotaPoolGroups
	}
	return ""
}

func (t *Tracker) assignOwner(key, owner string) {
	t.groups[key].owner = owner
	if owner != "" {
		t.owned[owner]++
		t.limits.Owned.countOwned(owner, 1)
	}
}

// releaseOwned ends the counting of groups: another node may lead the pool now.
func (t *Tracker) releaseOwned() {
	for owner, n := range t.owned {
		t.limits.Owned.countOwned(owner, -n)
	}
	t.limits.Owned = nil
}

// releaseOwner is called when a group ends.
func (t *Tracker) releaseOwner(g *tracked) {
	if g.owner == "" {
		return
	}
	t.limits.Owned.countOwned(g.owner, -1)
	if t.owned[g.owner]--; t.owned[g.owner] == 0 {
		delete(t.owned, g.owner)
	}
}

func (t *Tracker) enqueueWaiting(now time.Time, key, owner, limit string) {
	w := t.waiting[key]
	if w == nil {
		if len(t.waiting) >= mostWaiting {
			return
		}
		w = &waitingKey{key: key, owner: owner, since: now}
		t.waiting[key] = w
	}
	w.asked, w.limit = now, limit
}

// promoteWaiting creates groups for waiting keys if there is room. Keys that stopped asking lose their turn.
func (t *Tracker) promoteWaiting(now time.Time) {
	if len(t.waiting) == 0 || t.limits.Groups > 0 && len(t.groups) >= t.limits.Groups {
		return
	}
	for _, w := range t.Waiting() {
		switch {
		case now.Sub(w.asked) > waitingLifetime:
			delete(t.waiting, w.key)
		case t.exceededLimit(w.owner) == "":
			delete(t.waiting, w.key)
			t.Require(now, w.key, 0)
			t.assignOwner(w.key, w.owner)
		}
	}
}

// Waiting returns the keys that wait for a limit, in order of arrival.
func (t *Tracker) Waiting() []waitingKey {
	list := make([]waitingKey, 0, len(t.waiting))
	for _, w := range t.waiting {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b waitingKey) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.key, b.key)) })
	return list
}

// Pin keeps the group of a key Active until it is unpinned. After that it has the unbind delay left.
func (t *Tracker) Pin(now time.Time, key string, on bool) {
	if on {
		t.Require(now, key, 0)
		t.pinned[key] = true
	} else if t.pinned[key] {
		delete(t.pinned, key)
		t.Require(now, key, 0)
	}
}

// Stop makes a group Inactive, as if it had been idle for long. It returns false if there is no such group.
func (t *Tracker) Stop(now time.Time, key string) bool {
	t.Advance(now)
	g := t.groups[key]
	if g == nil {
		return false
	}
	delete(t.pinned, key)
	t.endGroup(g)
	return true
}
