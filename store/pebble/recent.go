package pebble

import "github.com/rousehq/rouse"

// recent remembers the places of rows that were written lately, so that a timer that fires soon after it was made, and one
// that is settled and comes again, cost no look-up in the tree. The store has one writer, so what is remembered is what is
// there. It has two generations of a bounded size; the older is forgotten as a whole.
type recent struct {
	young, old map[rouse.Key]place
}

// recentMost bounds a generation; a place takes about 130 bytes.
const recentMost = 128 << 10

func (r *recent) get(k rouse.Key) (place, bool) {
	if p, ok := r.young[k]; ok {
		return p, true
	}
	p, ok := r.old[k]
	return p, ok
}

// take remembers what a batch wrote.
func (r *recent) take(seen map[rouse.Key]place) {
	if len(r.young)+len(seen) > recentMost {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[rouse.Key]place, len(seen))
	}
	for k, p := range seen {
		if p.exists {
			r.young[k] = p
		} else {
			delete(r.young, k)
			delete(r.old, k)
		}
	}
}
