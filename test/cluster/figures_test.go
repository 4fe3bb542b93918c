package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
)

// figures are what a test measured, in addition to what the checker counts.
type figures struct {
	failovers []time.Duration // from a fault until a timer of the node that it hit fired again
}

// log writes a line of the table of faults: what, arrivals, how many occurrences had to arrive, were lost,
// early, doubled, how late 99 of a hundred and the latest were, failover.
func (f *figures) log(t testing.TB, s *history.Stats, lost int) {
	took := "-"
	if n := len(f.failovers); n > 0 {
		slices.Sort(f.failovers)
		took = fmt.Sprintf("p50 %v, p99 %v, max %v of %d", part(f.failovers, 50), part(f.failovers, 99), f.failovers[n-1].Round(time.Millisecond), n)
	}
	t.Logf("figures | %s | %d | %d | %d | %d | %d | %v | %v | %s |", title(t), s.Fires, s.Musts, lost, s.Early, s.Dups,
		s.Lateness.P99.Round(time.Millisecond), s.Lateness.Max.Round(time.Millisecond), took)
}

// part is the one that so many of a hundred are not longer than, of some in order; 0 of none.
func part(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1].Round(time.Millisecond)
}
