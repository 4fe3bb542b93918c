package cluster

import (
	"cmp"
	"os"
	"slices"

	"github.com/rousehq/rouse/rousetest/history"
)

// judge lets the checker judge what was written.
func (w *witness) judge(floor int) {
	w.t.Helper()
	if err := w.w.Flush(); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.Open(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Read(f)
	if err != nil {
		w.t.Fatalf("the history is unusable: %v", err)
	}
	report := history.Check(h)
	w.t.Logf("%v; faults=%d echoes=%d", report.Stats, len(h.Faults), echoes(h))
	told, lost, excused := map[[2]string]bool{}, 0, 0 // one of each rule for each timer says enough
	for _, v := range report.Violations {
		// A node that deletes what another one is trying writes down that it was cut off. The attempt may end well all the same.
		if v.Rule == "R2-ending" && w.open[v.Timer] {
			excused++
			continue
		}
		if v.Rule == "C1-lost" {
			lost++
		}
		if key := [2]string{v.Rule, v.Timer}; !told[key] && len(told) < 20 {
			told[key] = true
			w.t.Error(v)
		}
	}
	if n := len(report.Violations) - excused; n > len(told) {
		w.t.Errorf("%d violations in all", n)
	}
	if report.Stats.Early > 0 && w.cfg.EarlyTol == 0 {
		w.t.Errorf("%d occurrences arrived early", report.Stats.Early)
	}
	if report.Stats.Musts < floor {
		w.t.Errorf("%d occurrences had to arrive; that proves nothing, it takes %d", report.Stats.Musts, floor)
	}
	w.figures.log(w.t, &report.Stats, lost)
	if w.t.Failed() {
		w.t.Logf("with -artifacts the history is kept")
	}
}

// echoes counts the fires that a receiver would have refused which remembers the greatest fencing token of each timer: those of
// nodes that were stopped, and do not know yet that others have gone on without them.
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
