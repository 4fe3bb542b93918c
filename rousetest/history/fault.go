package history

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// windows are the times that faults excuse, each widened at its end by how long it is felt, in the order of
// their beginnings.
type windows struct {
	list   []window
	latest []Time // latest[i] is the latest end of list[:i+1]
}

type window struct{ from, to Time }

// newWindows returns the windows of the faults for which of is true.
func newWindows(h *History, felt time.Duration, of func(*Fault) bool) windows {
	healed := make(map[string]Time, len(h.Heals))
	for _, heal := range h.Heals {
		healed[heal.FID] = heal.T
	}
	var w windows
	for i := range h.Faults {
		f := &h.Faults[i]
		if !of(f) {
			continue
		}
		end, ok := healed[f.FID]
		if !ok {
			end = forever
		}
		if f.Excuse > 0 {
			end = min(end, f.T.Add(f.Excuse))
		}
		w.list = append(w.list, window{f.T, end.Add(felt)})
	}
	slices.SortFunc(w.list, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	var latest Time
	for _, f := range w.list {
		latest = max(latest, f.to)
		w.latest = append(w.latest, latest)
	}
	return w
}

// blames maps the causes that need a fault to the word that kinds of faults begin with which can be that
// cause.
var blames = map[string]string{"server_down": "server", "store_unavailable": "store", "clock_moved": "clock"}

// newCauseWindows returns the windows of the faults that can have had each of these causes: those whose kind
// names nothing else that broke.
func newCauseWindows(h *History) map[string]windows {
	by := make(map[string]windows, len(blames))
	for cause, broken := range blames {
		by[cause] = newWindows(h, h.Config.Recovery, func(f *Fault) bool {
			word, _, _ := strings.Cut(f.Kind, "-")
			return word == broken || !slices.Contains(slices.Collect(maps.Values(blames)), word)
		})
	}
	return by
}

// firstWindow returns the first window that may reach from or beyond.
func (w *windows) firstWindow(from Time) int {
	return sort.Search(len(w.latest), func(i int) bool { return w.latest[i] >= from })
}

// hasFaultBetween reports whether a fault touches the time between two.
func (w *windows) hasFaultBetween(from, to Time) bool {
	for _, f := range w.list[w.firstWindow(from):] {
		if f.from > to {
			return false
		}
		if f.to >= from {
			return true
		}
	}
	return false
}

// postponeDeadline moves a deadline that counts from lo: every fault that touches the time between, also as
// it grows by this, puts it off until maxLate after the recovery.
func (w *windows) postponeDeadline(lo, deadline Time, maxLate time.Duration) Time {
	for _, f := range w.list[w.firstWindow(lo):] {
		if f.from > deadline {
			break
		}
		if f.to >= lo {
			deadline = max(deadline, f.to.Add(maxLate))
		}
	}
	return deadline
}
