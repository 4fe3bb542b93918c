package claim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Balance configures when the leader splits and merges shares.
type Balance struct {
	Every time.Duration // interval at which it compares the loads; it acts when two comparisons in a row agree; 0 is 30 s

	// Hot is the number of fires per second that make a share worth splitting if it also has more than
	// twice the mean; 0 is 100.
	Hot float64
}

func (b Balance) withDefaults() Balance {
	b.Every = cmp.Or(max(b.Every, 0), 30*time.Second)
	b.Hot = cmp.Or(max(b.Hot, 0), 100)
	return b
}

// balanceLayout adapts the layout to the loads that the nodes report, one step at a time. The leader calls
// it. With two leaders, only one write succeeds; without a leader, the shares do not change.
func (s *Share) balanceLayout(ctx context.Context, v *view) {
	k := &s.loop
	if time.Since(k.ruled) < s.o.Balance.Every {
		return
	}
	k.ruled = time.Now()
	load := map[uint32]float64{}
	for _, n := range v.nodes {
		for b, fires := range n.Load {
			load[b] += fires
		}
	}
	to, better := v.layout.fitLoads(load, v.countSharing(), s.o.Balance.Hot)
	if !better || !to.equalLayout(k.planned) {
		k.planned = to
		return
	}
	k.planned = Layout{}
	ctx, cancel := context.WithTimeout(ctx, s.o.callTimeout())
	defer cancel()
	_, _ = EditLayout(ctx, s.locks, s.o.Buckets, func(is Layout) (Layout, error) { // an error is retried next time
		if !is.equalLayout(v.layout) {
			return is, errChanged
		}
		return to, nil
	})
}

var errChanged = errors.New("the layout has changed in the meantime")

// fitLoads returns a layout that is one step closer to the loads, and whether one exists. A hot share is
// split: it has more than twice the mean, and more fires per second than hot. The widest share is split while
// there are fewer than two for each node. Two neighbours are merged if together they have less than half the
// mean and a tenth of hot, and if more shares remain than the initial number and four for each node.
func (l Layout) fitLoads(load map[uint32]float64, nodes int, hot float64) (Layout, bool) {
	shares := make([]float64, len(l.Starts))
	sum := 0.0
	for b, fires := range load {
		if b < l.Buckets && fires > 0 {
			shares[l.Of(b)] += fires
			sum += fires
		}
	}
	mean := sum / float64(len(shares))
	hottest, widest := -1, 0
	for i, fires := range shares {
		if fires > hot && fires > 2*mean && l.shareWidth(i) > 1 && (hottest < 0 || fires > shares[hottest]) {
			hottest = i
		}
		if l.shareWidth(i) > l.shareWidth(widest) {
			widest = i
		}
	}
	switch {
	case hottest >= 0:
		to, err := l.Split(l.splitPoint(hottest, load))
		return to, err == nil
	case len(shares) < 2*nodes && l.shareWidth(widest) > 1:
		to, err := l.Split(l.splitPoint(widest, load))
		return to, err == nil
	case len(shares) > max(len(NewLayout(l.Buckets).Starts), 4*nodes):
		least := min(mean/2, hot/10)
		idlest := 0
		load := func(i int) float64 { return shares[i-1] + shares[i] }
		width := func(i int) uint32 { return l.shareWidth(i-1) + l.shareWidth(i) }
		for i := 1; i < len(shares); i++ {
			if load(i) > 0 && load(i) >= least {
				continue
			}
			// Among equally idle ones the narrowest: it reverts a split.
			if idlest == 0 || cmp.Or(cmp.Compare(load(i), load(idlest)), cmp.Compare(width(i), width(idlest))) < 0 {
				idlest = i
			}
		}
		if idlest > 0 {
			to, err := l.Merge(l.Starts[idlest])
			return to, err == nil
		}
	}
	return l, false
}

func (l Layout) shareWidth(share int) uint32 {
	from, end := l.Range(share)
	return end - from
}

// splitPoint returns the bucket that divides a share's load most evenly, or its width, if there is no load.
func (l Layout) splitPoint(share int, load map[uint32]float64) uint32 {
	from, end := l.Range(share)
	whole := 0.0
	for b := from; b < end; b++ {
		whole += load[b]
	}
	if whole <= 0 {
		return from + (end-from)/2
	}
	type cut struct {
		at   uint32
		most float64 // of the heavier part
	}
	var cuts []cut
	left := 0.0
	for at := from + 1; at < end; at++ {
		left += load[at-1]
		cuts = append(cuts, cut{at, max(left, whole-left)})
	}
	return slices.MinFunc(cuts, func(a, b cut) int { return cmp.Compare(a.most, b.most) }).at
}
