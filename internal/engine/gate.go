package engine

import (
	"cmp"
	"container/heap"
	"hash/maphash"
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
	spare  []*gate    // for ready
	timed  timedGates // by when the rate gives them a place
	epoch  time.Time  // times of gates count from it
	seen   uint64     // version of the limits that the gates obey
	holds  uint64     // Limits.Holds that they obey
	keys   int
	idle   []*gate         // may not be in use any more
	memory rateMemory      // of keys that are not in use
	place  func(en *entry) // takes a row that has its place
	isLost func(en *entry) bool
	lost   func(en *entry)     // takes a row that waits, and that this node may not send any more
	ends   gateDeadlines       // of rows that wait
	away   map[rouse.Key]*gate // attempts of other nodes that have places
}

// Limits are the named limits as this node knows them.
type Limits interface {
	// Limit returns a limit of a namespace; the zero Limit if there is none. known is false if that is not
	// sure: fires wait until Version changes. It is called for each fire that has a limit.
	Limit(namespace, name string) (l rouse.Limit, known bool)
	// Version changes with every change of a limit, and of a share.
	Version() uint64
	// HasTargets reports whether a namespace has limits of targets (rouse.TargetLimit).
	HasTargets(namespace string) bool
	// Share returns this node's share of a limit of a target: how many may be in progress, if its Concurrency
	// is not 0, and the part of its rate, up to 1. Of 0 parts none begins.
	Share(namespace, name string) (most int, part float64)
	// Holds changes when a limit of a target is made, or paused: fires that wait for their turn already are
	// to wait for it.
	Holds() uint64
}

type limitName struct{ namespace, name string }

// limited is a named limit on this node, with the keys that are in use.
type limited struct {
	limitName
	of       *gates
	is       rouse.Limit // the zero Limit lets everything through: it was deleted
	unknown  bool        // whether there is one is not known yet
	most     int         // in progress at each key, on this node
	interval time.Duration
	burst    time.Duration    // what the rate may be ahead
	keys     map[uint64]*gate // by the hashes of the keys
	isLarge  bool             // keys has had many
	used     []rateCohort     // keys that were in use not long ago, in this order
	floor    time.Duration    // gate.next of keys that are in neither
	waiting  int
	bytes    int // of the rows that wait
	running  int
	others   int      // of those that run: attempts of other nodes
	ages     gateAges // of the rows that wait; others in it have left
	began    beganCounts
}

// gate is the state of one key of a limit that is in use. There may be a million, so it is as small as a size
// of Go's allocator.
type gate struct {
	limit    *limited
	key      string
	queue    *gateWait     // nil while nothing waits
	next     time.Duration // theoretical time of arrival: when the next one would be on time
	running  int32         // rows that have a place
	isReady  bool          // it is in gates.ready
	isIdle   bool          // it is in gates.idle
	isClosed bool          // it is not in limited.keys
}

// gateWait has the rows that wait at a gate.
type gateWait struct {
	rows    gateQueue
	waiting int32         // of rows; others of them have left
	slot    int32         // in gates.timed; -1: none
	until   time.Duration // in gates.timed: when it is looked at
	isRated bool          // the first one waits for the rate
}

// waiting returns how many rows wait.
func (ga *gate) waiting() int {
	if ga.queue == nil {
		return 0
	}
	return int(ga.queue.waiting)
}

// ensureQueue returns the queue of a gate.
func (ga *gate) ensureQueue() *gateWait {
	if ga.queue == nil {
		ga.queue = &gateWait{slot: -1}
	}
	return ga.queue
}

// waitsAt reports whether the row still waits at a gate.
func (en *entry) waitsAt(ga *gate) bool { return en.state == atGate && en.lastGate() == ga }

// lastGate returns the gate at which the row waits, or at which it got its last place; nil if there is none.
func (en *entry) lastGate() *gate {
	if en.target != nil {
		return en.target
	}
	return en.gate
}

func (g *gates) init(v *env) {
	g.env, g.limits, g.byName, g.epoch = v, v.opts.Limits, map[limitName]*limited{}, time.Now()
	g.memory.seed, g.memory.most = maphash.MakeSeed(), maxUsedKeys
}

// now returns the time as gates count it.
func (g *gates) now() time.Duration { return time.Since(g.epoch) }

// enterGate lets a due row of a timer with a limit pass, which then has a place until leaveGate, or keeps it
// at its gate, and reports false. since is when this node got the bucket: others may have used up the burst
// before. now is the store's time.
func (g *gates) enterGate(en *entry, t *rouse.Timer, since, now rouse.Instant) bool {
	if en.gate != nil {
		if en.gate.letsGoOn(en, t) {
			return true
		}
		en.leaveGate()
	}
	ga := g.ensureGate(limitName{t.Key.Namespace, t.Spec.Limit}, t.CountedKey(), since, now)
	if ga == nil {
		return true
	}
	en.gate, en.sent = ga, 0
	return g.passGate(ga, en, t)
}

// passGate lets a row pass its last gate, or keeps it there, and reports false.
func (g *gates) passGate(ga *gate, en *entry, t *rouse.Timer) bool {
	l := ga.limit
	if ga.waiting() == 0 && g.takePlace(ga) {
		return true
	}
	q := ga.ensureQueue()
	if mostlyLeft(len(q.rows), int(q.waiting), 1024) {
		q.rows = slices.DeleteFunc(q.rows, func(w gated) bool { return !w.waitsAt(ga) })
		heap.Init(&q.rows)
	}
	heap.Push(&q.rows, l.placeInOrder(en, t.Spec.Priority))
	q.waiting++
	l.waiting++
	en.load = Weight(&en.row)
	l.bytes += en.load
	en.state = atGate
	g.ends.watchDeadline(en, t)
	heap.Push(&l.ages, aged{en, en.row.Visible})
	return false
}

// letsGoOn reports whether a row with a place, which it has kept, may begin as its limit and its timer are
// now.
func (ga *gate) letsGoOn(en *entry, t *rouse.Timer) bool {
	l := ga.limit
	return l.name == t.Spec.Limit && ga.key == t.CountedKey() && !l.unknown && !l.is.Paused &&
		(l.is.Order == rouse.OrderByDue || en.sent == 0) &&
		int(ga.running) <= l.most
}

// mostlyLeft reports whether most rows of a heap do not wait any more, and are to be removed. slack is how
// many of them may stay.
func mostlyLeft(size, waiting, slack int) bool { return size-waiting > max(slack, waiting) }

// endWait takes a row out of those that wait at its gate.
func (ga *gate) endWait(en *entry) {
	ga.queue.waiting--
	ga.limit.waiting--
	ga.limit.bytes -= en.load
	en.state = nowhere
	ga.limit.trimAges()
}

// firstAfter bounds how long the first one waits where others may have used up the rate before: longer, and
// a node that is restarted often would let none begin at a slow rate.
const firstAfter = time.Minute

// ensureGate returns the gate of a key; nil if there is no such limit.
func (g *gates) ensureGate(name limitName, key string, since, at rouse.Instant) *gate {
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
		l = &limited{limitName: name, of: g, keys: map[uint64]*gate{}, floor: math.MinInt64}
		l.setLimit(is, known)
		g.byName[name] = l
	}
	hash := g.memory.hashKey(key)
	ga := l.keys[hash]
	if ga == nil {
		ga = &gate{limit: l, key: strings.Clone(key), next: g.memory.takeRate(l, hash)}
		l.keys[hash] = ga
		l.isLarge = l.isLarge || len(l.keys) > 64
		g.keys++
	}
	if l.interval > 0 && l.is.Reset <= since { // also for a gate that is from before the bucket was elsewhere
		now, first := g.now(), l.burst+min(l.interval, firstAfter)
		if began := min(at.Sub(since), now); began < first {
			ga.next = max(ga.next, now+first-began)
		}
	}
	return ga
}

func (l *limited) setLimit(is rouse.Limit, known bool) {
	l.unknown = !known
	l.is, l.interval, l.most = is, is.Rate.Interval(), cmp.Or(is.Concurrency, math.MaxInt)
	burst := is.Rate.AtOnce()
	if rouse.IsTargetLimit(l.name) && is.Revision != 0 {
		burst = l.applyShare(burst)
	}
	l.burst = time.Duration(max(0, burst-1)) * l.interval
	for i := range l.used { // after a change to a faster rate
		l.used[i].until = min(l.used[i].until, l.of.now()+l.burst+l.interval)
	}
}

// catchUp bounds how much of a rate those that wait for it may use later, when the node looked at their gate
// late. Otherwise each look would cost a part of the rate.
const catchUp = 100 * time.Millisecond

// takePlace takes a place if the limit has one now.
func (g *gates) takePlace(ga *gate) bool {
	l := ga.limit
	if l.unknown || l.is.Paused || int(ga.running) >= l.most {
		if ga.queue != nil {
			ga.queue.isRated = false
		}
		return false
	}
	if l.interval > 0 {
		now := g.now()
		ga.next = min(ga.next, now+l.burst+l.interval) // after a change to a faster rate
		if ga.next > now+l.burst {
			ga.ensureQueue().isRated = true
			g.setTimer(ga, ga.next-l.burst)
			return false
		}
		from := now
		if ga.queue != nil && ga.queue.isRated {
			from -= catchUp
		}
		ga.next = max(ga.next, from) + l.interval
	}
	ga.running++
	l.running++
	l.began.countBegan(g.now())
	return true
}

// isHeld reports whether a row waits for a limit that is paused, until a client resumes it.
func (g *gates) isHeld(en *entry) bool {
	if en.state != atGate {
		return false
	}
	ga := en.lastGate()
	l := ga.limit
	return l.is.Paused && !l.unknown && !ga.isReady && g.seen == g.limits.Version()
}

// leaveGate gives up the places of a row at its gates, or its wait for one.
func (en *entry) leaveGate() {
	en.leaveTarget()
	en.leavePlace(&en.gate)
}

func (en *entry) leavePlace(at **gate) {
	ga := *at
	if ga == nil {
		return
	}
	waits := en.waitsAt(ga)
	if *at = nil; waits {
		ga.endWait(en)
	} else {
		ga.running--
		ga.limit.running--
		if en.sent == 0 && ga.next > ga.limit.of.now() { // it has not begun
			ga.next -= ga.limit.interval
		}
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
		g.ready = g.spare[:0]
		for _, ga := range list {
			ga.isReady = false
			g.openGate(ga)
		}
		clear(list)
		g.spare = list
	}
}

func (g *gates) openGate(ga *gate) {
	for ga.waiting() > 0 {
		first := &ga.queue.rows[0]
		en := first.en
		if !first.waitsAt(ga) {
			heap.Pop(&ga.queue.rows)
			continue
		}
		if g.isLost(en) { // its place would be used for nothing
			g.lost(en)
			continue
		}
		if !g.takePlace(ga) {
			return
		}
		heap.Pop(&ga.queue.rows)
		ga.endWait(en)
		g.place(en)
	}
	g.clearTimer(ga)
	ga.queue = nil
	if ga.running > 0 {
		return
	}
	if ga.isIdle || ga.isClosed {
		return
	}
	if ga.limit.is.Revision == 0 || len(g.idle) == maxIdle {
		g.closeGate(ga)
		return
	}
	ga.isIdle = true
	g.idle = append(g.idle, ga)
}

// maxIdle bounds the gates that stay for cohortTime after their last use, so that those in steady use are not
// made again and again.
const maxIdle = 10_000

// closeIdle closes the gates that are not in use any more, and removes what is left of limits.
func (g *gates) closeIdle(now time.Duration) {
	for _, ga := range g.idle {
		if ga.isIdle = false; ga.running == 0 && ga.waiting() == 0 {
			g.closeGate(ga)
		}
	}
	clear(g.idle)
	g.idle = g.idle[:0]
	for _, l := range g.byName {
		g.memory.dropPast(l, now)
		if len(l.keys) == 0 && l.isLarge { // a map does not shrink
			l.keys, l.isLarge = map[uint64]*gate{}, false
		}
		// one that exists stays: it counts what began
		if len(l.keys) == 0 && len(l.used) == 0 && l.floor < now && l.is.Revision == 0 {
			delete(g.byName, l.limitName)
		}
	}
}

// closeGate removes the gate of a key that is not in use.
func (g *gates) closeGate(ga *gate) {
	l, hash := ga.limit, g.memory.hashKey(ga.key)
	delete(l.keys, hash)
	ga.isClosed = true
	g.keys--
	if now := g.now(); ga.next > now {
		g.memory.noteRate(l, hash, ga.next, now)
		if g.memory.used > g.memory.most {
			g.dropUsed()
		}
	}
}

// wakeGates marks the gates ready whose time has come, or whose limit was changed. It reports whether the
// order of a limit was.
func (g *gates) wakeGates() (reordered bool) {
	if g.limits == nil {
		return false
	}
	if v := g.limits.Version(); v != g.seen {
		g.seen = v
		for _, l := range g.byName {
			is, known := g.limits.Limit(l.namespace, l.name)
			if is == l.is && known == !l.unknown && !rouse.IsTargetLimit(l.name) {
				continue
			}
			other, reset := is.Order != l.is.Order, is.Reset > l.is.Reset
			reordered = reordered || other
			l.setLimit(is, known)
			if reset {
				g.memory.dropRates(l)
			}
			for _, ga := range l.keys {
				if other {
					ga.sortQueue()
				}
				if reset {
					ga.next = math.MinInt64
				}
				g.noteReady(ga)
			}
		}
	}
	now := g.now()
	if now >= g.memory.looks {
		g.memory.looks = now + cohortTime
		g.closeIdle(now)
		g.leaveLost()
	}
	for len(g.timed) > 0 && g.timed[0].queue.until <= now {
		ga := g.timed[0]
		g.clearTimer(ga)
		g.noteReady(ga)
	}
	return reordered
}

// untilNext returns the time until wakeGates has something to do; any is false if that is unknown.
func (g *gates) untilNext() (wait time.Duration, any bool) {
	if len(g.timed) == 0 {
		return 0, false
	}
	return g.timed[0].queue.until - g.now(), true
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
			if len(taken) == most || l.waiting <= rows && l.bytes <= bytes {
				break
			}
			for ga.waiting() > 0 && len(taken) < most && (l.waiting > rows || l.bytes > bytes) {
				if w := ga.queue.rows.popLast(); w.waitsAt(ga) {
					taken = append(taken, w.en)
					w.en.leaveGate()
				}
			}
		}
	}
	return taken
}
