package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/throttle"
)

// lanes are the queues of due rows. Namespaces take turns, and within one its lanes, so that a target with a million due
// fires delays nobody else's; a slow lane holds its own limit of fires, and never the last free delivery. The engine's mutex
// guards it.
type lanes struct {
	byName     map[laneKey]*lane
	namespaces map[string]*share
	ring       []*share           // namespaces with lanes that may send, each once
	waiting    map[*lane]struct{} // those that wait for their rate to allow more, and for nothing else
	weight     func(namespace string) int
	max        int // running deliveries
	running    int
	out        int // fires handed to the sink and not reported
	quiet      *sync.Cond
	abandoned  bool
}

type laneKey struct{ namespace, name string }

// share is a namespace's turn: its lanes that may send.
type share struct {
	name   string
	ring   []*lane
	inRing bool
	turns  int // deliveries that it may still have before it is the next one's turn
}

// The queues of a lane. Those that catch up have one of their own, so that the rate which holds them back holds nothing else.
const (
	high = iota
	normal
	low
	late
	kinds
)

// shares are how many fires each kind may send in a round, while there are of all of them.
var shares = [kinds]int{high: 16, normal: 4, low: 1, late: 4}

// lane is the queues of due entries for one target.
type lane struct {
	key     laneKey
	share   *share
	limit   int
	batch   int
	spend   bool
	queues  [kinds]queue
	round   [kinds]int           // what each kind may still send in this round
	all     throttle.TokenBucket // what the lane's rate allows
	catchUp throttle.TokenBucket // what the rate of catching up allows
	slowed  bool                 // its rates have held up what is queued
	queued  int                  // entries that are queued
	out     int                  // fires outstanding
	running int                  // deliveries running
	inRing  bool
	speed   throttle.Speed
	busy    time.Time // since when there is something queued
}

// queue is first in, first out.
type queue struct {
	fifo   []*entry // from head on; entries that are not queued any more are skipped
	head   int
	queued int
}

func (l *lanes) init(max int, weight func(namespace string) int) {
	l.byName, l.namespaces, l.max = map[laneKey]*lane{}, map[string]*share{}, max
	l.waiting, l.weight = map[*lane]struct{}{}, weight
}

// enqueue puts a due entry at the end of its queue. behind says that it catches up: that it is long overdue.
func (l *lanes) enqueue(en *entry, want rouse.Lane, behind bool) {
	key := laneKey{en.row.Key.Namespace, want.Name}
	ln := l.byName[key]
	if ln == nil {
		sh := l.namespaces[key.namespace]
		if sh == nil {
			sh = &share{name: key.namespace}
			l.namespaces[key.namespace] = sh
		}
		ln = &lane{key: key, share: sh}
		l.byName[key] = ln
	}
	now := time.Now()
	ln.limit, ln.batch, ln.spend = max(1, want.Limit), max(1, want.Batch), ln.spend || want.Spend
	ln.all.Set(want.Rate, want.Burst, now)
	ln.catchUp.Set(want.CatchUp, 0, now)
	en.state, en.lane, en.kind = queued, ln, normal
	switch p := en.timer.Spec.Priority; {
	case behind && want.CatchUp > 0:
		en.kind = late
	case p > 0:
		en.kind = high
	case p < 0:
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
	l.ready(ln)
}

// leave counts an entry out of its queue, where its place stays and is skipped.
func (ln *lane) leave(en *entry) {
	ln.queues[en.kind].queued--
	ln.queued--
}

// maySend reports whether a lane may start a delivery now.
func (l *lanes) maySend(ln *lane) bool {
	return ln.queued > 0 && ln.out < ln.limit && throttle.MayTake(ln.running, l.running, l.max)
}

// ready puts a lane with something to send into its ring.
func (l *lanes) ready(ln *lane) {
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

// next takes the next delivery in turn: up to a batch of entries of one lane. It returns nothing when no lane may send.
func (l *lanes) next(take []*entry) (*lane, []*entry) {
	for turns := len(l.ring); turns > 0 && l.running < l.max; turns-- {
		sh := l.ring[0]
		var got *lane
		for tries := len(sh.ring); tries > 0 && got == nil; tries-- {
			ln := sh.ring[0]
			sh.ring = sh.ring[1:]
			ln.inRing = false
			if l.maySend(ln) {
				if take = ln.pop(take, min(ln.batch, ln.limit-ln.out)); len(take) > 0 {
					got = ln
					ln.out += len(take)
					ln.running++
					l.running++
					l.out += len(take)
				} else if ln.queued > 0 { // its rates do not allow more now
					l.waiting[ln], ln.slowed = struct{}{}, true
					continue
				}
				l.ready(ln)
			} else if ln.queued > 0 && ln.out < ln.limit {
				l.ready(ln) // it waits for its share of the deliveries
			}
			l.forget(ln)
		}
		// A namespace of a greater weight stays in front for more than one delivery.
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
	return nil, nil
}

func (l *lanes) weightOf(namespace string) int {
	if l.weight == nil {
		return 1
	}
	return max(1, l.weight(namespace))
}

// refill lets lanes send again whose rates allow more by now, and returns how long it is until the next one may.
func (l *lanes) refill(now time.Time) (wait time.Duration, any bool) {
	for ln := range l.waiting {
		d := ln.sendableIn(now)
		if d <= 0 || ln.queued == 0 {
			delete(l.waiting, ln)
			l.ready(ln)
			l.forget(ln)
			continue
		}
		if !any || d < wait {
			wait, any = d, true
		}
	}
	return wait, any
}

// sendableIn returns how long it is until the lane's rates allow one of its fires.
func (ln *lane) sendableIn(now time.Time) time.Duration {
	ln.all.Allows(1, now)
	ln.catchUp.Allows(1, now)
	wait := ln.all.Wait()
	if ln.queued == ln.queues[late].queued {
		wait = max(wait, ln.catchUp.Wait())
	}
	return wait
}

// rates describes, as the end of a sentence, the rates that bound fires of a kind.
func (ln *lane) rates(kind uint8) (text string) {
	if ln.all.Rate() != 0 {
		text = fmt.Sprintf(", and %g may go in a second (limits)", ln.all.Rate())
	}
	if kind == late && ln.catchUp.Rate() != 0 {
		text += fmt.Sprintf("; as it is more than %v late, it goes at the rate of catching up, %g a second (catch-up-rate)", rouse.CatchUpAfter, ln.catchUp.Rate())
	}
	return text
}

// pop takes up to n queued entries: high ones before normal ones before low ones, each up to its share of the round.
func (ln *lane) pop(take []*entry, n int) []*entry {
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
			if q.queued != ln.queued { // there are others
				want = min(want, ln.round[k])
			}
			if k == late {
				want = ln.catchUp.Allows(want, now)
			}
			before := len(take)
			take = ln.popQueue(q, take, want)
			got := len(take) - before
			ln.round[k] -= got
			if k == late {
				ln.catchUp.Take(got)
			}
		}
		if fresh && len(take) == began {
			break // what is left may not go yet
		}
		if fresh = len(take) == began; fresh {
			ln.round = shares
		}
	}
	ln.all.Take(len(take) - had)
	return take
}

// popQueue takes up to n entries from the front of a queue.
func (ln *lane) popQueue(q *queue, take []*entry, n int) []*entry {
	for q.head < len(q.fifo) && n > 0 {
		en := q.fifo[q.head]
		q.fifo[q.head] = nil
		q.head++
		if en.state == queued && en.lane == ln {
			take = append(take, en)
			en.state = sending
			ln.leave(en)
			n--
		}
	}
	if q.head == len(q.fifo) {
		q.fifo, q.head = q.fifo[:0], 0
	} else if q.head > 1024 && q.head > len(q.fifo)/2 {
		q.fifo = append(q.fifo[:0], q.fifo[q.head:]...)
		q.head = 0
	}
	return take
}

// popTail takes up to n queued entries from the ends of its queues, those that catch up first and the high ones last.
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
				ln.leave(en)
			}
		}
	}
	return take
}

// returned notes that a call of Deliver has returned.
func (l *lanes) returned(ln *lane) {
	ln.running--
	l.running--
	l.ready(ln)
	l.forget(ln)
	l.wakeQuiet()
}

// reported notes that n fires of a lane have outcomes.
func (l *lanes) reported(ln *lane, n int, now time.Time) {
	ln.out -= n
	l.out -= n
	ln.speed.Add(n, now)
	l.ready(ln)
	l.forget(ln)
	l.wakeQuiet()
}

// forget drops a lane that has nothing left, so that lanes of past targets cost nothing.
func (l *lanes) forget(ln *lane) {
	if ln.queued > 0 || ln.out > 0 || ln.running > 0 || ln.inRing {
		return
	}
	for k := range ln.queues {
		if q := &ln.queues[k]; len(q.fifo) > q.head {
			return
		}
	}
	delete(l.waiting, ln)
	if len(l.byName) > 1024 {
		delete(l.byName, ln.key)
	}
	if len(l.namespaces) > 1024 && !ln.share.inRing {
		delete(l.namespaces, ln.share.name)
	}
}

// patience is how long a lane may need for what it has queued until it counts as slow, when memory is full; and trial is how
// long it may take to show how fast it is.
const (
	patience = 10 * time.Second
	trial    = 2 * time.Second
)

// slowest returns the lane that would take longest to send what it has queued, and how many of its entries it will not get
// rid of within patience.
func (l *lanes) slowest(now time.Time) (worst *lane, excess int, drain time.Duration) {
	for _, ln := range l.byName {
		if now.Sub(ln.busy) < trial {
			continue
		}
		r := ln.speed.PerSecond(now)
		n := ln.queued - max(4*ln.batch, 64, int(r*patience.Seconds()))
		if n > excess {
			worst, excess = ln, n
			drain = time.Duration(float64(ln.queued) / max(r, 1) * float64(time.Second))
		}
	}
	return worst, excess, drain
}

// wait blocks until no fire is out and no delivery runs, or until abandon. mu is the engine's mutex, not held.
func (l *lanes) wait(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	l.quiet = sync.NewCond(mu)
	for !l.abandoned && (l.out > 0 || l.running > 0) {
		l.quiet.Wait()
	}
}

// abandon ends a wait, whatever is out.
func (l *lanes) abandon() {
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
