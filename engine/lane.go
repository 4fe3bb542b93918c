package engine

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// lanes are the queues of due rows. Namespaces take turns, and within one its lanes, so that a target with a million due
// fires delays nobody else's; a slow lane holds its own limit of fires, and never the last free delivery. The engine's mutex
// guards it.
type lanes struct {
	byName     map[laneKey]*lane
	namespaces map[string]*share
	ring       []*share // namespaces with lanes that may send, each once
	max        int      // running deliveries
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
}

// lane is a first-in-first-out queue of due entries.
type lane struct {
	key     laneKey
	share   *share
	limit   int
	batch   int
	fifo    []*entry // from head on; entries that are not queued any more are skipped
	head    int
	queued  int // entries of fifo that are still queued
	out     int // fires outstanding
	running int // deliveries running
	inRing  bool
	rate    rate
	busy    time.Time // since when there is something queued
}

// rate estimates how many fires a second a lane gets rid of.
type rate struct {
	since time.Time
	count int
	value float64
}

func (r *rate) add(n int, now time.Time) {
	r.count += n
	d := now.Sub(r.since)
	if r.since.IsZero() || d > 10*time.Second {
		r.since, r.count, r.value = now, n, r.value/2
		return
	}
	if d >= 250*time.Millisecond {
		r.value = (r.value + float64(r.count)/d.Seconds()) / 2
		r.since, r.count = now, 0
	}
}

// get returns the estimate; a lane that reported nothing for a while slows down to nothing.
func (r *rate) get(now time.Time) float64 {
	if d := now.Sub(r.since).Seconds(); d > 1 {
		return r.value / (d * d)
	}
	return r.value
}

func (l *lanes) init(max int) {
	l.byName, l.namespaces, l.max = map[laneKey]*lane{}, map[string]*share{}, max
}

// enqueue puts a due entry at the end of its lane.
func (l *lanes) enqueue(en *entry, want rouse.Lane) {
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
	ln.limit, ln.batch = max(1, want.Limit), max(1, want.Batch)
	en.state, en.lane = queued, ln
	if ln.queued == 0 {
		ln.busy = time.Now()
	}
	ln.fifo = append(ln.fifo, en)
	ln.queued++
	l.ready(ln)
}

// maySend says whether a lane may start a delivery now. A lane with none running may take the last free delivery; one with
// many may not take more than are free, so that however many lanes are slow, some stay free for others.
func (l *lanes) maySend(ln *lane) bool {
	return ln.queued > 0 && ln.out < ln.limit && l.running < l.max && (ln.running == 0 || ln.running < l.max-l.running)
}

// ready puts a lane with something to send into its ring.
func (l *lanes) ready(ln *lane) {
	if ln.inRing || ln.queued == 0 || ln.out >= ln.limit {
		return
	}
	ln.inRing = true
	ln.share.ring = append(ln.share.ring, ln)
	if !ln.share.inRing {
		ln.share.inRing = true
		l.ring = append(l.ring, ln.share)
	}
}

// next takes the next delivery in turn: up to a batch of entries of one lane. It returns nothing when no lane may send.
func (l *lanes) next(take []*entry) (*lane, []*entry) {
	for turns := len(l.ring); turns > 0 && l.running < l.max; turns-- {
		sh := l.ring[0]
		l.ring = l.ring[1:]
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
				}
				l.ready(ln)
			} else if ln.queued > 0 && ln.out < ln.limit {
				l.ready(ln) // it waits for its share of the deliveries
			}
			l.forget(ln)
		}
		sh.inRing = false
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

// pop takes up to n queued entries from the front.
func (ln *lane) pop(take []*entry, n int) []*entry {
	for ln.head < len(ln.fifo) && n > 0 {
		en := ln.fifo[ln.head]
		ln.fifo[ln.head] = nil
		ln.head++
		if en.state == queued && en.lane == ln {
			take = append(take, en)
			en.state = sending
			ln.queued--
			n--
		}
	}
	if ln.head == len(ln.fifo) {
		ln.fifo, ln.head = ln.fifo[:0], 0
	} else if ln.head > 1024 && ln.head > len(ln.fifo)/2 {
		ln.fifo = append(ln.fifo[:0], ln.fifo[ln.head:]...)
		ln.head = 0
	}
	return take
}

// popTail takes up to n queued entries from the end.
func (ln *lane) popTail(n int) (take []*entry) {
	for len(ln.fifo) > ln.head && n > 0 {
		last := len(ln.fifo) - 1
		en := ln.fifo[last]
		ln.fifo[last] = nil
		ln.fifo = ln.fifo[:last]
		if en.state == queued && en.lane == ln {
			take = append(take, en)
			en.state = sending
			ln.queued--
			n--
		}
	}
	return take
}

// returned says that a call of Deliver has returned.
func (l *lanes) returned(ln *lane) {
	ln.running--
	l.running--
	l.ready(ln)
	l.forget(ln)
	l.wakeQuiet()
}

// reported says that n fires of a lane have outcomes.
func (l *lanes) reported(ln *lane, n int, now time.Time) {
	ln.out -= n
	l.out -= n
	ln.rate.add(n, now)
	l.ready(ln)
	l.forget(ln)
	l.wakeQuiet()
}

// forget drops a lane that has nothing left, so that lanes of past targets cost nothing.
func (l *lanes) forget(ln *lane) {
	if ln.queued > 0 || ln.out > 0 || ln.running > 0 || ln.inRing || len(ln.fifo) > ln.head {
		return
	}
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
		r := ln.rate.get(now)
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
