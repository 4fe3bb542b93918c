package engine

import (
	"sync"

	"github.com/rousehq/rouse"
)

// freezer has the timers whose attempts an edit prevents from starting, with the number of such edits. The
// firing side asks it while it takes rows from a lane, under the mutex of the memory: an edit that looks at
// the row after Freeze therefore finds either that an attempt is out, or that none will start.
type freezer struct {
	mu     sync.Mutex
	frozen map[rouse.Key]int
}

func (f *freezer) freezeKeys(keys []rouse.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil {
		f.frozen = map[rouse.Key]int{}
	}
	for _, key := range keys {
		f.frozen[key]++
	}
}

func (f *freezer) unfreezeKeys(keys []rouse.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		if f.frozen[key]--; f.frozen[key] == 0 {
			delete(f.frozen, key)
		}
	}
}

// splitFrozen divides entries into those that may be sent, in place, and those that are frozen.
func (f *freezer) splitFrozen(taken []*entry) (live, frozen []*entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.frozen) == 0 {
		return taken, nil
	}
	live = taken[:0]
	for _, en := range taken {
		if f.frozen[en.row.Key] == 0 {
			live = append(live, en)
		} else {
			frozen = append(frozen, en)
		}
	}
	return live, frozen
}
