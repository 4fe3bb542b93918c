package engine

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/recent"
	"github.com/rousehq/rouse/internal/throttle"
)

// lanes are the queues of due rows. Namespaces take turns, and within a namespace its lanes do, so that a
// target with a million due fires delays no other target. The places of deliveries are shared by the same
// rule (throttle.Share) on both levels: a namespace whose lanes are all slow leaves a reserve to others, and
// a slow lane some places of its namespace. The mutex of the memory guards it.
type lanes struct {
	byName     map[laneKey]*lane
	namespaces map[string]*share
	ring       []*share            // namespaces with lanes that may send, each at most once
	waiting    map[*lane]struct{}  // lanes that wait only for their rate limit
	limited    map[*share]struct{} // namespaces that wait only for their quota
	weight     func(namespace string) int
	quota      func(namespace string) rouse.Quotas // of fires and deliveries on this node; nil: there are none
	max        int                                 // running deliveries
	reserve    int                                 // percent of max that a namespace leaves free
	running    int
	room       space // memory that fires which are out may take
	used       space // memory that they take
	full       *mark // env.full
	queued     int   // entries in the queues
	out        int   // fires handed to the sink and not reported yet
	quiet      *sync.Cond
	abandoned  bool
}

type laneKey struct{ namespace, name string }

// share is a namespace's turn: its lanes that may send.
type share struct {
	name    string
	ring    []*lane
	inRing  bool // also while it is limited
	turns   int  // deliveries left before the next namespace's turn
	rate    throttle.TokenBucket
	sent    int // fires since demand was asked for
	running int // deliveries
	out     space
	lanes   int
}

// The queues of a lane. Fires that catch up have their own queue, so that their rate limit delays only them.
const (
	high = iota
	normal
	low
	late
	kinds
)

// shares are how many fires of each kind may be sent per round while all kinds are queued.
var shares = [kinds]int{high: 16, normal: 4, low: 1, late: 4}

// lane is the set of queues of due entries for one target.
type lane struct {
	key     laneKey
	of      *lanes
	share   *share
	limit   int
	batch   int
	spend   bool
	queues  [kinds]queue
	round   [kinds]int           // fires that each kind may still send in this round
	all     throttle.TokenBucket // the lane's rate limit
	catchUp throttle.TokenBucket // the rate limit of catching up
	slowed  bool                 // a rate limit has delayed queued fires
	queued  int                  // entries in its queues
	bytes   int                  // of the rows of these entries
	out     int                  // fires with the sink
	running int                  // running deliveries
	inRing  bool
	speed   throttle.Speed
	recent  *recent.Minutes // nil: there are too many lanes
	busy    time.Time       // since when something has been queued
}

// queue is a FIFO queue.
type queue struct {
	fifo   []*entry // from head on; entries that have left the queue are skipped
	head   int
	queued int
}

func (l *lanes) init(v *env) {
	o := &v.opts
	l.byName, l.namespaces, l.max = map[laneKey]*lane{}, map[string]*share{}, o.MaxDeliveries
	l.waiting, l.limited, l.weight, l.quota = map[*lane]struct{}{}, map[*share]struct{}{}, o.Weight, o.Quotas
	l.reserve, l.full = o.Reserve, &v.full
	l.room = space{max(1, o.MaxRows/outPart), max(1, o.MaxBytes/outPart)}
}

// outPart and keptPart are the parts of memory, as divisors, that fires which are out, and fires that may
// stay in the queues of slow lanes, may take. Together they leave room for reading, which stops when a
// quarter is left.
const (
	outPart  = 2
	keptPart = 8
)

// enqueueFire appends a due entry to its queue. behind means that it is long overdue, and so catches up.
func (l *lanes) enqueueFire(en *entry, priority rouse.Priority, want rouse.Lane, behind bool) {
	now := time.Now()
	ln := l.ensureLane(laneKey{en.row.Key.Namespace, want.Name}, now)
	ln.limit, ln.batch, ln.spend = max(1, want.Limit), max(1, want.Batch), ln.spend || want.Spend
	ln.all.Set(want.Rate, want.Burst, now)
	ln.catchUp.Set(want.CatchUp, 0, now)
	en.state, en.lane, en.kind = queued, ln, normal
	switch {
	case behind && want.CatchUp > 0:
		en.kind = late
	case priority > 0:
		en.kind = high
	case priority < 0:
		en.kind = low
	}
	if ln.queued == 0 {
		ln.busy, ln.slowed = now, false
	}
	q := &ln.queues[en.kind]
	if left := len(q.fifo) - q.head - q.queued; left > 1024 && left > q.queued {
		q.fifo = slices.DeleteFunc(q.fifo[q.head:], func(en *entry) bool { return en.state != queued || en.lane != ln })
		q.head = 0
	}
	q.fifo = append(q.fifo, en)
	q.queued++
	ln.queued++
	en.load = Weight(&en.row)
	ln.bytes += en.load
	l.queued++
	l.addToRing(ln)
}

// ensureLane returns a lane, which it makes if it is not there.
func (l *lanes) ensureLane(key laneKey, now time.Time) *lane {
	if ln := l.byName[key]; ln != nil {
		return ln
	}
	l.sweepIdleLanes(now)
	sh := l.namespaces[key.namespace]
	if sh == nil {
		sh = &share{name: key.namespace}
		l.namespaces[key.namespace] = sh
	}
	ln := &lane{key: key, of: l, share: sh}
	if len(l.byName) < keptLanes {
		ln.recent = new(recent.Minutes)
	}
	l.byName[key] = ln
	sh.lanes++
	return ln
}

// uncountEntry removes an entry from the counts of its queue; its slot stays and is skipped.
func (ln *lane) uncountEntry(en *entry) {
	ln.queues[en.kind].queued--
	ln.queued--
	ln.bytes -= en.load
	ln.of.queued--
}

// deliveryPlaces returns how many deliveries a namespace may have now: its share of all, and no more than its
// quota.
func (l *lanes) deliveryPlaces(sh *share) int {
	n := throttle.Share(sh.running+l.max-l.running, l.max, l.reserve, l.weightOf(sh.name))
	if q := l.nodeQuotas(sh).Deliveries; q > 0 {
		n = min(n, int(q))
	}
	return n
}

// freeSpace returns how much memory further fires of a namespace may take while they are out: its share of
// the memory that all may take. Without it, few fires with large payloads to receivers that hang would fill
// memory, and nothing more would be read for the others. One fire may be out whatever its size.
func (l *lanes) freeSpace(sh *share) space {
	weight := l.weightOf(sh.name)
	most := func(own, used, room int) int {
		return throttle.Share(own+room-used, room, throttle.Reserve, weight) - own
	}
	free := space{most(sh.out.rows, l.used.rows, l.room.rows), most(sh.out.bytes, l.used.bytes, l.room.bytes)}
	if sh.out.rows == 0 {
		free = space{max(free.rows, 1), max(free.bytes, 1)}
	}
	return free
}

// hasPlace reports whether a lane may start a delivery, if its namespace may have so many: it leaves some of
// them to others.
func (ln *lane) hasPlace(most int) bool {
	return ln.running < throttle.Share(ln.running+most-ln.share.running, most, throttle.Reserve, 1)
}

// addToRing puts a lane with queued fires into its ring.
func (l *lanes) addToRing(ln *lane) {
	if ln.inRing || ln.queued == 0 || ln.out >= ln.limit {
		return
	}
	ln.inRing = true
	ln.share.ring = append(ln.share.ring, ln)
	if !ln.share.inRing {
		ln.share.inRing, ln.share.turns = true, l.weightOf(ln.share.name)
		l.ring = append(l.ring, ln.share)
	}
}

// nextBatch takes the next delivery in turn: up to a batch of entries of one lane. It returns nil if no lane
// may send.
func (l *lanes) nextBatch(take []*entry) (*lane, []*entry) {
	for turns := len(l.ring); turns > 0 && l.running < l.max; turns-- {
		sh := l.ring[0]
		most := l.allowedFires(sh)
		if most == 0 {
			l.ring = l.ring[1:]
			l.limited[sh] = struct{}{}
			continue
		}
		places := l.deliveryPlaces(sh)
		free := l.freeSpace(sh)
		if sh.running >= places || free.isUsedUp() { // it keeps its turns for when a delivery of it, or of another, ends
			l.ring = append(l.ring[1:], sh)
			continue
		}
		var got *lane
		for tries := len(sh.ring); tries > 0 && got == nil; tries-- {
			ln := sh.ring[0]
			sh.ring = sh.ring[1:]
			ln.inRing = false
			if ln.queued > 0 && ln.out < ln.limit && ln.hasPlace(places) {
				if take = ln.popEntries(take, min(ln.batch, ln.limit-ln.out, most, free.rows), free.bytes); len(take) > 0 {
					got = ln
					sh.rate.Take(len(take))
					sh.sent += len(take)
					l.beginDelivery(ln, take)
				} else if ln.queued > 0 { // its rate limits allow no more now
					l.waiting[ln], ln.slowed = struct{}{}, true
					continue
				}
				l.addToRing(ln)
			} else if ln.queued > 0 && ln.out < ln.limit {
				l.addToRing(ln) // it waits for its share of the deliveries
			}
			l.dropIdle(ln, time.Now())
		}
		// A namespace with a higher weight stays in front for several deliveries.
		if sh.turns--; got != nil && sh.turns > 0 && len(sh.ring) > 0 {
			return got, take
		}
		l.ring = l.ring[1:]
		sh.inRing, sh.turns = false, l.weightOf(sh.name)
		if len(sh.ring) > 0 {
			sh.inRing = true
			l.ring = append(l.ring, sh)
		}
		if got != nil {
			return got, take
		}
	}
	if l.running >= l.max && len(l.ring) > 0 {
		l.full.setOnce()
	}
	return nil, nil
}

// countBlocked returns how many namespaces have fires that wait for a place of a delivery, or for memory.
func (l *lanes) countBlocked() (n int) {
	for _, sh := range l.ring {
		if sh.running >= l.deliveryPlaces(sh) || l.freeSpace(sh).isUsedUp() {
			n++
		}
	}
	return n
}

func (l *lanes) weightOf(namespace string) int {
	if l.weight == nil {
		return 1
	}
	return max(1, l.weight(namespace))
}

// nodeQuotas returns the quotas of a namespace on this node.
func (l *lanes) nodeQuotas(sh *share) (q rouse.Quotas) {
	if l.quota != nil {
		q = l.quota(sh.name)
	}
	return q
}

// allowedFires returns how many fires the rate of a namespace's quota allows now.
func (l *lanes) allowedFires(sh *share) int {
	rate := l.nodeQuotas(sh).Fires
	if rate == 0 && sh.rate.Rate() == 0 {
		return math.MaxInt
	}
	now := time.Now()
	sh.rate.Set(rate, 0, now)
	return sh.rate.Allows(math.MaxInt, now)
}

// takeDemand returns how many fires of a namespace were sent since the last call, and wait.
func (l *lanes) takeDemand(namespace string) (n int) {
	sh := l.namespaces[namespace]
	if sh == nil {
		return 0
	}
	n, sh.sent = sh.sent, 0
	for key, ln := range l.byName {
		if key.namespace == namespace {
			n += ln.queued
		}
	}
	return n
}

// resumeLimited lets lanes and namespaces send again whose rate limits allow it now, and returns the time
// until the next one may.
func (l *lanes) resumeLimited(now time.Time) (wait time.Duration, any bool) {
	for sh := range l.limited {
		if l.allowedFires(sh) > 0 {
			delete(l.limited, sh)
			l.ring = append(l.ring, sh)
		} else if d := sh.rate.Wait(1); !any || d < wait {
			wait, any = d, true
		}
	}
	for ln := range l.waiting {
		d := ln.sendableIn(now)
		if d <= 0 || ln.queued == 0 {
			delete(l.waiting, ln)
			l.addToRing(ln)
			l.dropIdle(ln, now)
			continue
		}
		if !any || d < wait {
			wait, any = d, true
		}
	}
	return wait, any
}

// sendableIn returns the time until the lane's rate limits allow one of its fires.
func (ln *lane) sendableIn(now time.Time) time.Duration {
	ln.all.Allows(1, now)
	ln.catchUp.Allows(1, now)
	wait := ln.all.Wait(1)
	if ln.queued == ln.queues[late].queued {
		wait = max(wait, ln.catchUp.Wait(1))
	}
	return wait
}

// describeRates describes the rate limits of a kind of fires, as the end of a sentence.
func (ln *lane) describeRates(kind uint8) (text string) {
	if r := ln.share.rate.Rate(); r != 0 {
		text = fmt.Sprintf(", and %g of the namespace may go on this node in a second (quota %s)", r, rouse.QuotaFires)
	}
	if sh := ln.share; sh.running >= ln.of.deliveryPlaces(sh) {
		text += fmt.Sprintf(
			", and the namespace has %d deliveries in progress on this node, as many as it may have now (delivery-reserve, quota %s)", sh.running, rouse.QuotaDeliveries)
	}
	if sh := ln.share; ln.of.freeSpace(sh).isUsedUp() {
		text += fmt.Sprintf(
			", and the namespace has %d fires with %d bytes in progress on this node, as much memory as it may have now (window, window-bytes)", sh.out.rows, sh.out.bytes)
	}
	if ln.all.Rate() != 0 {
		text += fmt.Sprintf(", and %g may go in a second (limits)", ln.all.Rate())
	}
	if kind == late && ln.catchUp.Rate() != 0 {
		text += fmt.Sprintf("; as it is more than %v late, it goes at the rate of catching up, %g a second (catch-up-rate)",
			rouse.CatchUpAfter, ln.catchUp.Rate())
	}
	return text
}

// popEntries takes up to n queued entries, and no more once they have so many bytes: high ones before normal
// ones before low ones, each up to its share of the round.
func (ln *lane) popEntries(take []*entry, n, bytes int) []*entry {
	now := time.Time{}
	if ln.all.Rate() != 0 || ln.catchUp.Rate() != 0 {
		now = time.Now()
	}
	n = ln.all.Allows(n, now)
	had := len(take)
	for fresh := false; len(take)-had < n; {
		began := len(take)
		for k := range ln.queues {
			q := &ln.queues[k]
			if q.queued == 0 {
				continue
			}
			want := n - (len(take) - had)
			if q.queued != ln.queued { // other kinds are queued
				want = min(want, ln.round[k])
			}
			if k == late {
				want = ln.catchUp.Allows(want, now)
			}
			before := len(take)
			take = ln.popQueue(q, take, want, &bytes)
			got := len(take) - before
			ln.round[k] -= got
			if k == late {
				ln.catchUp.Take(got)
			}
		}
		if fresh && len(take) == began {
			break // the rest may not be sent yet
		}
		if fresh = len(take) == began; fresh {
			ln.round = shares
		}
	}
	ln.all.Take(len(take) - had)
	return take
}

// keptQueue is how many entries an empty queue keeps room for.
const keptQueue = 4096

// popQueue takes up to n entries from the front of a queue, while bytes are left.
func (ln *lane) popQueue(q *queue, take []*entry, n int, bytes *int) []*entry {
	for q.head < len(q.fifo) && n > 0 && *bytes > 0 {
		en := q.fifo[q.head]
		q.fifo[q.head] = nil
		q.head++
		if en.state == queued && en.lane == ln {
			take = append(take, en)
			en.state = sending
			ln.uncountEntry(en)
			*bytes -= en.load
			n--
		}
	}
	switch {
	case q.head == len(q.fifo) && cap(q.fifo) > keptQueue:
		q.fifo, q.head = nil, 0
	case q.head == len(q.fifo):
		q.fifo, q.head = q.fifo[:0], 0
	case q.head > 1024 && q.head > len(q.fifo)/2:
		q.fifo, q.head = slices.Delete(q.fifo, 0, q.head), 0 // keeps no pointer to entries that have left
	}
	return take
}

// popTail takes up to n queued entries from the ends of the queues, catch-up fires first and high priority
// last.
func (ln *lane) popTail(n int) (take []*entry) {
	for _, k := range [...]int{late, low, normal, high} {
		q := &ln.queues[k]
		for len(q.fifo) > q.head && len(take) < n {
			last := len(q.fifo) - 1
			en := q.fifo[last]
			q.fifo[last] = nil
			q.fifo = q.fifo[:last]
			if en.state == queued && en.lane == ln {
				take = append(take, en)
				en.state = sending
				ln.uncountEntry(en)
			}
		}
	}
	return take
}

// beginDelivery records that a call of Deliver begins, with these fires.
func (l *lanes) beginDelivery(ln *lane, taken []*entry) {
	ln.running++
	ln.share.running++
	l.running++
	ln.out += len(taken)
	l.out += len(taken)
	for _, en := range taken {
		l.addOutSpace(ln, space{1, en.load})
	}
}

// addOutSpace adds to the memory of the fires that are out.
func (l *lanes) addOutSpace(ln *lane, s space) {
	for _, of := range [...]*space{&l.used, &ln.share.out} {
		of.rows, of.bytes = of.rows+s.rows, of.bytes+s.bytes
	}
}

// endDelivery records that a call of Deliver has returned.
func (l *lanes) endDelivery(ln *lane) {
	ln.running--
	ln.share.running--
	l.running--
	l.full.setNone()
	l.addToRing(ln)
	l.dropIdle(ln, time.Now())
	l.wakeQuiet()
}

// endFires records that n fires of a lane, with so many bytes of memory, have outcomes.
func (l *lanes) endFires(ln *lane, n, bytes int, now time.Time) {
	ln.out -= n
	l.out -= n
	l.addOutSpace(ln, space{-n, -bytes})
	ln.speed.Add(n, now)
	l.addToRing(ln)
	l.dropIdle(ln, now)
	l.wakeQuiet()
}

// keptLanes is how many lanes, and how many namespaces, may stay without anything to do. Lanes up to this
// number have counts of the last minutes.
const keptLanes = 1024

// dropIdle removes an empty lane, so that lanes of past targets use no memory, and its namespace if that has
// no other. A lane that has used up a part of a rate stays until all of it is there again.
func (l *lanes) dropIdle(ln *lane, now time.Time) {
	if ln.queued > 0 || ln.out > 0 || ln.running > 0 || ln.inRing {
		return
	}
	for k := range ln.queues {
		if q := &ln.queues[k]; len(q.fifo) > q.head {
			return
		}
	}
	delete(l.waiting, ln)
	if len(l.byName) <= keptLanes || !ln.all.Full(now) || !ln.catchUp.Full(now) {
		return
	}
	sh := ln.share
	if sh.lanes == 1 {
		if sh.inRing || !sh.rate.Full(now) {
			return
		}
		delete(l.namespaces, sh.name)
	}
	sh.lanes--
	delete(l.byName, ln.key)
}

// sweepIdleLanes removes some of the lanes that had to stay when they became idle.
func (l *lanes) sweepIdleLanes(now time.Time) {
	if len(l.byName) <= keptLanes {
		return
	}
	tries := 4
	for _, ln := range l.byName { // in random order
		l.dropIdle(ln, now)
		if tries--; tries == 0 {
			return
		}
	}
}

// patience is the time to drain its queue beyond which a lane counts as slow when memory is full; trial is
// how long a lane is measured first.
const (
	patience = 10 * time.Second
	trial    = 2 * time.Second
)

// backlog is the part of a lane's queue beyond its limit when memory is full.
type backlog struct {
	lane   *lane
	excess int           // entries
	drain  time.Duration // that the lane needs for its queue
}

// findBacklogs returns the lanes that cannot send their queue within patience, of all rows that
// memory has room for; those that are furthest behind come first. Each may keep some entries, however slow it
// is, but all together no more than a part of memory: many lanes that hang are no better than one.
func (l *lanes) findBacklogs(now time.Time, room space) (list []backlog) {
	lanes := len(l.byName)
	for _, ln := range l.byName {
		if ln.queued == 0 || now.Sub(ln.busy) < trial {
			continue
		}
		r := ln.speed.PerSecond(now)
		keep := min(max(4*ln.batch, 64), room.rows/keptPart/lanes, room.bytes/keptPart/lanes/max(1, ln.bytes/ln.queued))
		if n := ln.queued - max(keep, int(r*patience.Seconds())); n > 0 {
			list = append(list, backlog{ln, n, time.Duration(float64(ln.queued) / max(r, 0.1) * float64(time.Second))})
		}
	}
	slices.SortFunc(list, func(a, b backlog) int { return b.excess - a.excess })
	return list
}

// waitUntilQuiet blocks until no fire is out and no delivery runs, or until abandon. mu is the mutex of the
// memory; it is not held.
func (l *lanes) waitUntilQuiet(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	l.quiet = sync.NewCond(mu)
	for !l.abandoned && (l.out > 0 || l.running > 0) {
		l.quiet.Wait()
	}
}

// abandonWait ends wait, even if fires are out.
func (l *lanes) abandonWait() {
	l.abandoned = true
	if l.quiet != nil {
		l.quiet.Broadcast()
	}
}

func (l *lanes) wakeQuiet() {
	if l.quiet != nil && l.out == 0 && l.running == 0 {
		l.quiet.Broadcast()
	}
}
