package engine

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"
)

// A key of a rate that nothing waits for, and of which nothing is in progress, has no gate. Only its
// gate.next is kept, by the hash of the key, until it has passed: the key is as new then. Such keys come in
// cohorts, which leave as a whole, so that nothing looks at each of millions.

// rateMemory has what all limits of a node have in common for that.
type rateMemory struct {
	seed  maphash.Seed
	used  int           // keys in cohorts
	most  int           // of them
	looks time.Duration // when it looks again for cohorts that have passed
}

// rateCohort are keys whose last use was at about the same time, or the largest part of them.
type rateCohort struct {
	next  map[uint64]time.Duration // gate.next, by the hash of the key
	turn  time.Duration            // until when it takes keys
	until time.Duration            // when the last one is as new
}

const (
	// maxUsedKeys bounds the keys of all limits in cohorts. They take about 40 bytes each.
	maxUsedKeys = 2_000_000
	// cohortPart is the part of them that one cohort may have.
	cohortPart = 16
	// cohortTime is the least time for which a cohort takes keys, and after which those that have passed
	// leave.
	cohortTime = time.Second
)

// hashKey returns the hash of a key. Its seed is secret, so keys that collide, which count as one, cannot be
// made on purpose.
func (m *rateMemory) hashKey(key string) uint64 { return maphash.String(m.seed, key) }

// noteRate keeps the rate of a key that is not in use any more.
func (m *rateMemory) noteRate(l *limited, hash uint64, next, now time.Duration) {
	last := len(l.used) - 1
	if last < 0 || len(l.used[last].next) >= m.most/cohortPart || l.used[last].turn <= now {
		l.used = append(l.used, rateCohort{next: map[uint64]time.Duration{}, turn: max(next, now+cohortTime)})
		last++
	}
	c := &l.used[last]
	c.next[hash], c.until = next, max(c.until, next)
	m.used++
}

// takeRate returns gate.next of a key that comes into use, and removes it from its cohort.
func (m *rateMemory) takeRate(l *limited, hash uint64) time.Duration {
	for i := len(l.used) - 1; i >= 0; i-- {
		if next, ok := l.used[i].next[hash]; ok {
			delete(l.used[i].next, hash)
			m.used--
			return next
		}
	}
	return l.floor
}

// dropPast removes the cohorts of a limit whose keys are all as new.
func (m *rateMemory) dropPast(l *limited, now time.Duration) {
	l.used = slices.DeleteFunc(l.used, func(c rateCohort) bool {
		past := c.until <= now
		if past {
			m.used -= len(c.next)
		}
		return past
	})
	if len(l.used) == 0 {
		l.used = nil
	}
}

// dropRates removes the rates of all keys of a limit that are not in use.
func (m *rateMemory) dropRates(l *limited) {
	for i := range l.used {
		m.used -= len(l.used[i].next)
	}
	l.used, l.floor = nil, math.MinInt64
}

// dropUsed makes room for keys: the limit with the most loses its first cohort. From then on, keys of it that
// are not known count as used as those were, so that none exceeds its rate; but those that were not used wait
// as long.
func (g *gates) dropUsed() {
	var most *limited
	size := 0
	for _, l := range g.byName {
		n := 0
		for i := range l.used {
			n += len(l.used[i].next)
		}
		if n > size {
			most, size = l, n
		}
	}
	if most == nil {
		return
	}
	c := most.used[0]
	most.floor = max(most.floor, c.until)
	most.used = slices.Delete(most.used, 0, 1)
	g.memory.used -= len(c.next)
	g.opts.Events.emitFailed("limit", fmt.Errorf("limit %s of namespace %s has more keys with used rates than fit into memory: "+
		"its other keys wait for %v; use a faster rate, or fewer keys", most.name, most.namespace, (c.until-g.now()).Round(time.Second)))
}
