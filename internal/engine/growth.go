package engine

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"

	"github.com/rousehq/rouse"
)

// growthSlots is how many counts of written records there are. Timers share them by the hashes of their
// names.
const growthSlots = 1 << 15

// growth counts the records that this node writes, of whatever made them and of whichever timers had a name,
// so that those of a name are trimmed when there are RecordsPerTimer/2 more. Of names that share a count, any
// one may be trimmed when it is full, the more likely the more records it has got. The counts begin at
// random, so that they come to their ends as often where nodes are restarted.
type growth struct {
	every uint32         // records of a count between two trims; 0: none is trimmed
	grown chan rouse.Key // timers that may have too many records
	seed  maphash.Seed

	mu     sync.Mutex
	counts []uint32
}

func newGrowth(most int) *growth {
	g := &growth{grown: make(chan rouse.Key, 1024), seed: maphash.MakeSeed()}
	if most <= 0 {
		return g
	}
	g.every = max(1, uint32(most)/2)
	g.counts = make([]uint32, growthSlots)
	for i := range g.counts {
		g.counts[i] = rand.Uint32N(g.every)
	}
	return g
}

// noteRecords counts records that were written, and requests trimming.
func (g *growth) noteRecords(list []rouse.Record) {
	if g.every == 0 || len(list) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range list {
		key := rouse.Key{Namespace: list[i].Namespace, Name: list[i].Name}
		n := &g.counts[(maphash.String(g.seed, key.Name)<<1^maphash.String(g.seed, key.Namespace))%growthSlots]
		if *n++; *n < g.every {
			continue
		}
		select {
		case g.grown <- key:
			*n = 0
		default: // the next record requests it again
		}
	}
}
