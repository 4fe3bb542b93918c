package engine

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// gates hold back due rows of timers with a named limit (rouse.Limit) until it lets them begin. All timers
// that count for one limit and key are in one bucket, so that the owner of the bucket, which has all of them,
// counts exactly. The mutex of the memory guards them.
//
//	due ─► gate: waits ─► place ─► lane of its target ─► delivery ─► outcome ─► the place is free
//
// A rate is the generic cell rate algorithm (ITU-T I.371): a key keeps one time, however fast it goes.
type gates struct {
	*env
	limits Limits // nil: there are none
	byName map[limitName]*limited
	ready  []*gate    // may have places for rows that wait
	timed  timedGates // by when the rate gives them a place, or until they are as new
	epoch  time.Time  // times of gates count from it
	seen   uint64     // version of the limits that the gates obey
	keys   int
	place  func(en *entry)     // takes a row that has its place
	away   map[rouse.Key]*gate // attempts of other nodes that have places
}

// Limits are the named limits as this node knows them.
type Limits interface {
	// Limit returns a limit of a namespace; the zero Limit if there is none. known is false if that is not
	// sure: fires wait until Version changes. It is called for each fire that has a limit.
	Limit(namespace, name string) (l rouse.Limit, known bool)
	// Version changes with every change of a limit.
	Version() uint64
}

type limitName struct{ namespace, name string }

// limited is a named limit on this node, with the keys that are in use.
type limited struct {
	limitName
	of       *gates
	is       rouse.Limit // the zero Limit lets everything through: it was deleted
	unknown  bool        // whether there is one is not known yet
	interval time.Duration
	burst    time.Duration // what the rate may be ahead
	keys     map[string]*gate
	waiting  int
	bytes    int // of the rows that wait
	running  int
	ages     gateAges // of the rows that wait; others in it have left
	began    beganCounts
}

// gate is the state of one key of a limit. There may be millions.
type gate struct {
	limit   *limited
	key     string
	queue   *gateQueue    // nil while nothing waits
	next    time.Duration // theoretical time of arrival: when the next one would be on time
	until   time.Duration // in gates.timed: when it is looked at
	waiting int32         // rows in queue; others in it have left
	running int32         // rows that have a place
	slot    int32         // in gates.timed; -1: none
	isReady bool          // it is in gates.ready
}

// gated is a row that waits, with its place in the order.
type gated struct {
	en    *entry
	class rouse.Priority
	at    rouse.Instant
}

// waitsAt reports whether the row still waits at a gate.
func (w *gated) waitsAt(ga *gate) bool { return w.en.gate == ga && w.en.state == atGate }

func (g *gates) init(v *env) {
	g.env, g.limits, g.byName, g.epoch = v, v.opts.Limits, map[limitName]*limited{}, time.Now()
}

// now returns the time as gates count it.
func (g *gates) now() time.Duration { return time.Since(g.epoch) }

// enterGate lets a due row of a timer with a limit pass, which then has a place until leaveGate, or keeps it
// at its gate, and reports false. since is when this node got the bucket: others may have used up the burst
// before.
func (g *gates) enterGate(en *entry, t *rouse.Timer, since rouse.Instant) bool {
	if en.gate != nil { // it kept its place
		if l := en.gate.limit; !l.unknown && !l.is.Paused {
			return true
		}
		en.leaveGate()
	}
	ga := g.ensureGate(limitName{t.Key.Namespace, t.Spec.Limit}, t.Spec.LimitKey, since)
	if ga == nil {
		return true
	}
	en.gate = ga
	l := ga.limit
	if ga.waiting == 0 && g.takePlace(ga) {
		return true
	}
	w := l.placeInOrder(en, t.Spec.Priority)
	if ga.queue == nil {
		ga.queue = new(gateQueue)
	}
	if mostlyLeft(len(*ga.queue), int(ga.waiting), 1024) {
		*ga.queue = slices.DeleteFunc(*ga.queue, func(w gated) bool { return !w.waitsAt(ga) })
		heap.Init(ga.queue)
	}
	heap.Push(ga.queue, w)
	ga.waiting++
	l.waiting++
	en.load = Weight(&en.row)
	l.bytes += en.load
	en.state = atGate
	l.noteAge(en)
	return false
}

// mostlyLeft reports whether most rows of a heap do not wait any more, and are to be removed. slack is how
// many of them may stay.
func mostlyLeft(size, waiting, slack int) bool { return size-waiting > max(slack, waiting) }

// endWait takes a row out of those that wait at its gate.
func (ga *gate) endWait(en *entry) {
	ga.waiting--
	ga.limit.waiting--
	ga.limit.bytes -= en.load
	en.state = nowhere
	ga.limit.oldestAge()
}

// placeInOrder returns a row with its place in the order of those that wait.
func (l *limited) placeInOrder(en *entry, p rouse.Priority) gated {
	if l.is.Order == rouse.OrderByDue {
		return gated{en, 0, en.occ.Due}
	}
	return gated{en, -p, en.row.Visible}
}

// firstAfter bounds how long the first one waits where others may have used up the rate before: longer, and
// a node that is restarted often would let none begin at a slow rate.
const firstAfter = time.Minute

// ensureGate returns the gate of a key; nil if there is no such limit.
func (g *gates) ensureGate(name limitName, key string, since rouse.Instant) *gate {
	if g.limits == nil {
		return nil
	}
	l := g.byName[name]
	if l == nil {
		is, known := g.limits.Limit(name.namespace, name.name)
		if known && is.Revision == 0 {
			return nil
		}
		name = limitName{strings.Clone(name.namespace), strings.Clone(name.name)} // they share the memory of a row
		l = &limited{limitName: name, of: g, keys: map[string]*gate{}}
		l.setLimit(is, known)
		g.byName[name] = l
	}
	ga := l.keys[key]
	if ga == nil {
		key = strings.Clone(key)
		ga = &gate{limit: l, key: key, slot: -1, next: math.MinInt64}
		first := l.burst + min(l.interval, firstAfter)
		began := min(g.Now().Sub(since), g.now())
		if l.interval > 0 && began < first && l.is.Reset <= since {
			ga.next = g.now() + first - began
		}
		l.keys[key] = ga
		g.keys++
	}
	return ga
}

func (l *limited) setLimit(is rouse.Limit, known bool) {
	l.unknown = !known
	l.is, l.interval = is, is.Rate.Interval()
	l.burst = time.Duration(max(0, is.Rate.AtOnce()-1)) * l.interval
}

// takePlace takes a place if the limit has one now.
func (g *gates) takePlace(ga *gate) bool {
	l := ga.limit
	if l.unknown || l.is.Paused || l.is.Concurrency > 0 && int(ga.running) >= l.is.Concurrency {
		return false
	}
	if l.interval > 0 {
		now := g.now()
		ga.next = min(ga.next, now+l.burst+l.interval) // after a change to a faster rate
		if ga.next > now+l.burst {
			g.setTimer(ga, ga.next-l.burst)
			return false
		}
		ga.next = max(ga.next, now) + l.interval
	}
	ga.running++
	l.running++
	l.began.countBegan(g.now())
	return true
}

// leaveGate gives up the place of a row at its gate, or its wait for one.
func (en *entry) leaveGate() {
	ga := en.gate
	if ga == nil {
		return
	}
	en.gate = nil
	if en.state == atGate {
		ga.endWait(en)
	} else {
		ga.running--
		ga.limit.running--
	}
	ga.limit.of.noteReady(ga)
}

// keepsPlace reports whether a row that is tried again keeps its place until then.
func (en *entry) keepsPlace() bool {
	return en.gate != nil && en.state != atGate && en.gate.limit.is.Order == rouse.OrderByDue && (en.row.State == rouse.StateRetrying ||
		en.row.State == rouse.StateScheduled && en.row.Due == en.occ.Due && !en.occ.Manual)
}

// retriesInPlace reports whether a row with this outcome may keep its place until it is tried again. Once it
// is settled, keepsPlace decides.
func (en *entry) retriesInPlace(o rouse.Outcome) bool {
	return en.gate != nil && en.gate.limit.is.Order == rouse.OrderByDue && !en.orphan &&
		(o.Verdict == rouse.Failed || o.Verdict == rouse.Deferred)
}

func (g *gates) noteReady(ga *gate) {
	if !ga.isReady {
		ga.isReady = true
		g.ready = append(g.ready, ga)
	}
}

// openGates gives places to rows that wait at gates that may have some.
func (g *gates) openGates() {
	for len(g.ready) > 0 {
		list := g.ready
		g.ready = nil
		for _, ga := range list {
			ga.isReady = false
			g.openGate(ga)
		}
	}
}

func (g *gates) openGate(ga *gate) {
	for ga.waiting > 0 {
		first := &(*ga.queue)[0]
		en := first.en
		if !first.waitsAt(ga) {
			heap.Pop(ga.queue)
			continue
		}
		if !g.takePlace(ga) {
			return
		}
		heap.Pop(ga.queue)
		ga.endWait(en)
		g.place(en)
	}
	ga.queue = nil
	if ga.running > 0 {
		return
	}
	if now := g.now(); ga.next > now { // it remembers its rate until it is as new
		g.setTimer(ga, ga.next)
		return
	}
	g.clearTimer(ga)
	if l := ga.limit; l.keys[ga.key] == ga {
		delete(l.keys, ga.key)
		g.keys--
		g.dropUnused(l)
	}
}

// dropUnused removes a limit that does not exist any more. One that exists stays: it counts what began.
func (g *gates) dropUnused(l *limited) {
	if len(l.keys) == 0 && l.is.Revision == 0 {
		delete(g.byName, l.limitName)
	}
}

// wakeGates marks the gates ready whose time has come, or whose limit was changed.
func (g *gates) wakeGates() {
	if g.limits == nil {
		return
	}
	if v := g.limits.Version(); v != g.seen {
		g.seen = v
		for _, l := range g.byName {
			is, known := g.limits.Limit(l.namespace, l.name)
			if is == l.is && known == !l.unknown {
				continue
			}
			reset := is.Reset > l.is.Reset
			l.setLimit(is, known)
			for _, ga := range l.keys {
				if reset {
					ga.next = math.MinInt64
				}
				g.noteReady(ga)
			}
			g.dropUnused(l)
		}
	}
	now := g.now()
	for len(g.timed) > 0 && g.timed[0].until <= now {
		ga := g.timed[0]
		g.clearTimer(ga)
		g.noteReady(ga)
	}
}

// untilNext returns the time until wakeGates has something to do; any is false if that is unknown.
func (g *gates) untilNext() (wait time.Duration, any bool) {
	if len(g.timed) == 0 {
		return 0, false
	}
	return g.timed[0].until - g.now(), true
}

// shedWaiting takes up to most rows that wait at gates out of a full window with so much room, from the
// limits with the most bytes: late ones in their order, as far as a heap tells. Those that stay take no more
// than a part of the room.
func (g *gates) shedWaiting(room space, most int) (taken []*entry) {
	list := slices.DeleteFunc(slices.Collect(maps.Values(g.byName)), func(l *limited) bool { return len(l.keys) == 0 })
	slices.SortFunc(list, func(a, b *limited) int { return b.bytes - a.bytes })
	for _, l := range list {
		rows, bytes := room.rows/keptPart/len(list), room.bytes/keptPart/len(list)
		for _, ga := range l.keys {
			for ga.waiting > 0 && len(taken) < most && (l.waiting > rows || l.bytes > bytes) {
				if w := ga.queue.popLast(); w.waitsAt(ga) {
					taken = append(taken, w.en)
					w.en.leaveGate()
				}
			}
		}
	}
	return taken
}

// gateQueue is a heap of the rows that wait at a gate.
type gateQueue []gated

func (q gateQueue) Len() int { return len(q) }

func (q gateQueue) Less(i, j int) bool {
	return q[i].goesBefore(&q[j])
}

func (w *gated) goesBefore(b *gated) bool {
	return cmp.Or(cmp.Compare(w.class, b.class), cmp.Compare(w.at, b.at), w.en.row.Key.Compare(b.en.row.Key)) < 0
}

func (q gateQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *gateQueue) Push(x any) { *q = append(*q, x.(gated)) }

// Pop implements heap.Interface.
func (q *gateQueue) Pop() any { return q.popLast() }

// popLast takes the last element of the slice, which is no earlier than those above it in the heap.
func (q *gateQueue) popLast() gated {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = gated{}
	*q = (*q)[:last]
	return w
}

// maxCounted bounds the rows that countBefore looks at: the mutex is held.
const maxCounted = 10_000

// countBefore returns how many rows wait at a gate that go before one that does; more reports that it has not
// looked at all of them.
func (ga *gate) countBefore(w gated) (n int, more bool) {
	if ga.queue == nil {
		return 0, false
	}
	q := (*ga.queue)[:min(len(*ga.queue), maxCounted)]
	for i := range q {
		if q[i].en != w.en && q[i].waitsAt(ga) && q[i].goesBefore(&w) {
			n++
		}
	}
	return n, len(q) < len(*ga.queue)
}

// timedGates is a heap of gates by when they are to be looked at.
type timedGates []*gate

func (g *gates) setTimer(ga *gate, until time.Duration) {
	ga.until = until
	if ga.slot >= 0 {
		heap.Fix(&g.timed, int(ga.slot))
		return
	}
	heap.Push(&g.timed, ga)
}

func (g *gates) clearTimer(ga *gate) {
	if ga.slot >= 0 {
		heap.Remove(&g.timed, int(ga.slot))
	}
}

func (q timedGates) Len() int           { return len(q) }
func (q timedGates) Less(i, j int) bool { return q[i].until < q[j].until }

func (q timedGates) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *timedGates) Push(x any) {
	ga := x.(*gate)
	ga.slot = int32(len(*q))
	*q = append(*q, ga)
}

// Pop implements heap.Interface.
func (q *timedGates) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	last.slot = -1
	*q = old[:len(old)-1]
	return last
}
