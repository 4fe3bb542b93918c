package engine

import (
	"container/heap"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// LimitUses returns how much of named limits is in use on this node: of those of a namespace, or of all
// namespaces if it is empty, without keys; or of the limit of a name, with its keys. A limit that this node
// has not met since its start is not among them. It is safe for concurrent use.
func (e *Engine) LimitUses(namespace, name string) map[rouse.Key]rouse.LimitUse {
	e.memory.Lock()
	defer e.memory.Unlock()
	g := &e.memory.gates
	uses := map[rouse.Key]rouse.LimitUse{}
	if name != "" {
		if l := g.byName[limitName{namespace, name}]; l != nil {
			use := l.countUse(g.now())
			l.addKeys(&use)
			uses[rouse.Key{Namespace: namespace, Name: name}] = use
		}
		return uses
	}
	now := g.now()
	for _, l := range g.byName {
		if namespace == "" || l.namespace == namespace {
			uses[rouse.Key{Namespace: l.namespace, Name: l.name}] = l.countUse(now)
		}
	}
	return uses
}

// countUse returns the use of a limit, without keys. Attempts of other nodes count there.
func (l *limited) countUse(now time.Duration) rouse.LimitUse {
	return rouse.LimitUse{Waiting: l.waiting, InProgress: l.running - l.others, Oldest: l.oldestAge(), Began: l.began.perSecond(now)}
}

const (
	// maxKeysSeen bounds the keys of a limit that are looked at for those with the most to do, as the mutex
	// is held; of more, it is some of them.
	maxKeysSeen = 50_000
	// maxAgesSeen bounds the rows of a key that are looked at for the oldest one. They are those that go
	// first, so it is the oldest one unless so many wait with different priorities.
	maxAgesSeen = 1000
)

// addKeys adds the keys of a limit of which most wait, and then those of which most are in progress.
func (l *limited) addKeys(use *rouse.LimitUse) {
	if !l.is.PerKey {
		return
	}
	seen, others := 0, map[*gate]int{}
	for _, ga := range l.of.away {
		others[ga]++
	}
	for _, ga := range l.keys {
		if seen++; seen > maxKeysSeen {
			use.More = true
			break
		}
		if n := int(ga.running) - others[ga]; ga.waiting() > 0 || n > 0 { // other keys remember their rate
			use.AddKey(rouse.LimitKeyUse{Key: ga.key, Waiting: ga.waiting(), InProgress: n})
		}
	}
	for i := range use.Keys {
		use.Keys[i].Oldest = l.keys[l.of.memory.hashKey(use.Keys[i].Key)].oldestSeen()
	}
}

// oldestSeen returns since when the row waits that has waited longest at a gate, of those that go first.
func (ga *gate) oldestSeen() (oldest rouse.Instant) {
	if ga.queue == nil {
		return 0
	}
	q := ga.queue.rows
	for i := range q[:min(len(q), maxAgesSeen)] {
		if w := &q[i]; w.waitsAt(ga) && (oldest == 0 || w.en.row.Visible < oldest) {
			oldest = w.en.row.Visible
		}
	}
	return oldest
}

// aged is a row that waits for a limit, since it was visible.
type aged struct {
	en *entry
	at rouse.Instant
}

// waitsFor reports whether the row still waits for the limit since then.
func (a *aged) waitsFor(l *limited) bool {
	ga := a.en.lastGate()
	return ga != nil && ga.limit == l && a.en.state == atGate && a.en.row.Visible == a.at
}

// gateAges is a heap of rows by since when they wait.
type gateAges []aged

func (q gateAges) Len() int           { return len(q) }
func (q gateAges) Less(i, j int) bool { return q[i].at < q[j].at }
func (q gateAges) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *gateAges) Push(x any) { *q = append(*q, x.(aged)) }

// Pop implements heap.Interface.
func (q *gateAges) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last] = aged{}
	*q = (*q)[:last]
	return a
}

// trimAges removes rows that have left: those at the top, and the others if they are most.
func (l *limited) trimAges() {
	l.oldestAge()
	if mostlyLeft(len(l.ages), l.waiting, 64) {
		l.ages = slices.DeleteFunc(l.ages, func(a aged) bool { return !a.waitsFor(l) })
		heap.Init(&l.ages)
	}
}

// oldestAge returns since when the row waits that has waited longest; 0 if none does. It removes those that
// have left before it.
func (l *limited) oldestAge() rouse.Instant {
	for len(l.ages) > 0 {
		if l.ages[0].waitsFor(l) {
			return l.ages[0].at
		}
		heap.Pop(&l.ages)
	}
	l.ages = nil
	return 0
}

// beganOver is the number of seconds over which the occurrences that began are counted.
const beganOver = 10

// beganCounts counts what began in the current second and in those before.
type beganCounts struct {
	counts [beganOver + 1]uint32
	second int64 // of the last count, since the epoch of the gates
}

// advance makes room for the counts of the seconds until now.
func (b *beganCounts) advance(now time.Duration) int64 {
	second := int64(now / time.Second)
	for next := max(b.second+1, second-beganOver); next <= second; next++ {
		b.counts[next%int64(len(b.counts))] = 0
	}
	b.second = second
	return second
}

func (b *beganCounts) countBegan(now time.Duration) {
	b.counts[b.advance(now)%int64(len(b.counts))]++
}

// perSecond returns how many began in a second, on average over the last whole ones.
func (b *beganCounts) perSecond(now time.Duration) float64 {
	current := b.advance(now) % int64(len(b.counts))
	sum := uint32(0)
	for i, n := range b.counts {
		if int64(i) != current {
			sum += n
		}
	}
	return float64(sum) / beganOver
}
