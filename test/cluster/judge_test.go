package cluster

import (
	"cmp"
	"slices"

	"github.com/rousehq/rouse/rousetest/history"
)

// echoes counts the fires that a receiver would have refused which remembers the greatest fencing token of
// each timer: those of nodes that were stopped, and do not know yet that others have gone on without them.
func echoes(h *history.History) (n int) {
	slices.SortFunc(h.Fires, func(a, b history.Fire) int { return cmp.Compare(a.T, b.T) })
	most := map[string]uint64{}
	for i := range h.Fires {
		f := &h.Fires[i]
		if f.Epoch < most[f.Timer] {
			n++
		}
		most[f.Timer] = max(most[f.Timer], f.Epoch)
	}
	return n
}
