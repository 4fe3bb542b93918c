package quota

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// turnEvery is how long a node has a place of a concurrency that does not divide among the nodes that want
// it, before the next one has. While it moves, it rests for up to five seconds.
const turnEvery = 30 * time.Second

// targetDemand is what a node publishes of a limit of a target.
type targetDemand struct {
	Rate  float64 `json:"rate,omitzero"`  // occurrences that began in a second, or wait
	Wants float64 `json:"wants,omitzero"` // of Limit.Concurrency
	Has   int     `json:"has,omitzero"`   // the share of that which it may use, or what is in progress if that is more
}

// targets are this node's shares of the limits of targets. Nodes divide them as quotas, but for one thing:
// the shares of a limit are no more than the whole, as a receiver relies on it. So a node that begins, or
// that could not publish its demand, has none until the others know of it.
type targets struct {
	mu      sync.Mutex
	byName  map[rouse.Key]*targetShare
	last    division  // of a limit without demand
	begins  int       // rounds until this node has shares
	alone   bool      // there was no other node in the last round
	divided time.Time // the last round
}

// targetShare has the last divisions of a limit of a target, the newest one first, and this node's demand.
type targetShare struct {
	divisions [settled]division
	demand    targetDemand
	published int // the share of Limit.Concurrency that it may use, as others may know
}

// division is who wants how much of a limit.
type division struct {
	part  float64   // of its rate for this node
	mine  int       // this node's place in the lists
	wants []float64 // of Limit.Concurrency, by the nodes in the order of their names
	has   []int     // the same; nil is nothing
	turn  int
}

// TargetShare returns this node's share of a limit of a target: how many may be in progress, if it has a
// concurrency, and the part of its rate.
func (b *Book) TargetShare(l *rouse.Limit) (most int, part float64) {
	t := &b.targets
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begins > 0 {
		return 0, 0
	}
	if ts := t.byName[rouse.Key{Namespace: l.Namespace, Name: l.Name}]; ts != nil {
		most, part = ts.shareOf(l)
		if len(ts.divisions[0].wants) > 1 {
			most = min(most, ts.published)
		}
		return most, part
	}
	return t.last.placesOf(l.Concurrency)[t.last.mine], t.last.part
}

// shareOf returns the least of the last shares. Places that others have beyond theirs are not free yet. It is
// used once it has been published, before the others were read again: of two nodes that take the same place,
// one finds that, even if each has seen more of its own demand than of the other's.
func (ts *targetShare) shareOf(l *rouse.Limit) (most int, part float64) {
	most, part = l.Concurrency, 1
	for i := range ts.divisions {
		d := &ts.divisions[i]
		most, part = min(most, d.placesOf(l.Concurrency)[d.mine]), min(part, d.part)
	}
	d := &ts.divisions[0]
	for i, n := range d.placesOf(l.Concurrency) {
		if i != d.mine && d.has != nil {
			most -= max(0, d.has[i]-n)
		}
	}
	return max(0, most), part
}

// placesOf divides a concurrency by demand: the sum is the whole. Nodes without demand have one each, if
// there are enough. Those that are left over go round the nodes that want some.
func (d *division) placesOf(concurrency int) []int {
	n := len(d.wants)
	places, sum, turn := make([]int, n), 0.0, d.turn
	for _, w := range d.wants {
		sum += w
	}
	if concurrency >= 2*n {
		for i := range places {
			places[i] = 1
		}
		concurrency -= n
	}
	wants := d.wants
	if sum == 0 { // and none goes round
		wants, sum, turn = slices.Repeat([]float64{1}, n), float64(n), 0
	}
	left := concurrency
	for i, w := range wants {
		k := min(int(float64(concurrency)*w/sum), left)
		places[i] += k
		left -= k
	}
	for k := range n {
		if i := (turn + k) % n; left > 0 && wants[i] > 0 {
			places[i]++
			left--
		}
	}
	return places
}

// targetDemands returns the demand of this node of the limits of targets, by the names of their notes.
func (b *Book) targetDemands() map[string]targetDemand {
	limits := b.opts.Targets()
	if len(limits) == 0 {
		return nil
	}
	uses := b.opts.Uses() // before the mutex: the engine asks for shares under its own
	all := map[string]targetDemand{}
	b.targets.mu.Lock()
	defer b.targets.mu.Unlock()
	for i := range limits {
		l := &limits[i]
		key := rouse.Key{Namespace: l.Namespace, Name: l.Name}
		ts := b.targets.byName[key]
		if ts == nil {
			ts = b.targets.addShare(key)
		}
		use, d := uses[key], &ts.demand
		d.Rate += (use.Began + float64(use.Waiting)/publishEvery.Seconds() - d.Rate) / 2
		d.Wants += (float64(use.Waiting+use.InProgress) - d.Wants) / 2
		d.Has = use.InProgress
		may := 0
		if l.Concurrency > 0 && b.targets.begins <= 1 { // in this round it gets its share
			may, _ = ts.shareOf(l)
		}
		ts.published = may
		if max(d.Rate, d.Wants) < least && d.Has == 0 { // the others leave it its part
			continue
		}
		d.Has = max(d.Has, may)
		all[targetName(key)] = *d
	}
	return all
}

func targetName(key rouse.Key) string { return key.Namespace + "/" + key.Name }

// addShare adds a limit that is new: all nodes divide it as one without demand.
func (t *targets) addShare(key rouse.Key) *targetShare {
	ts := &targetShare{published: math.MaxInt} // as all nodes divide it alike
	for i := range ts.divisions {
		ts.divisions[i] = t.last
	}
	t.byName[key] = ts
	return ts
}

// divideTargets gives this node its shares of the limits of targets.
func (b *Book) divideTargets(now rouse.Instant, peers map[string]published, alone bool) {
	t := &b.targets
	names := slices.Sorted(maps.Keys(peers))
	mine, known := slices.BinarySearch(names, b.opts.Node())
	if !known {
		return
	}
	limits := b.opts.Targets()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case alone:
		t.begins = 0
	case len(names) > 1 && (t.divided.IsZero() || t.alone && t.begins > 0):
		t.begins = settled
	case t.begins > 0:
		t.begins--
	}
	t.alone = len(names) == 1
	t.divided = time.Now()
	turn := int(now.Sub(0) / turnEvery)
	t.last = division{part: wholePartOf(0, 0, len(names)), mine: mine, wants: make([]float64, len(names)), turn: turn}
	was := t.byName
	t.byName = map[rouse.Key]*targetShare{}
	for i := range limits {
		key := rouse.Key{Namespace: limits[i].Namespace, Name: limits[i].Name}
		ts := was[key]
		if ts == nil || ts.divisions[0].wants == nil { // its demand came before the first round
			ts = t.addShare(key)
		}
		t.byName[key] = ts
		d, rates := division{mine: mine, wants: make([]float64, len(names)), has: make([]int, len(names)), turn: turn}, 0.0
		for k, node := range names {
			p := peers[node].Targets[targetName(key)]
			d.wants[k], d.has[k] = p.Wants, p.Has
			rates += p.Rate
		}
		d.part = wholePartOf(peers[names[mine]].Targets[targetName(key)].Rate, rates, len(names))
		copy(ts.divisions[1:], ts.divisions[:])
		ts.divisions[0] = d
	}
	b.opts.Divided()
}

// wholePartOf is partOf where the parts of all nodes are one whole, the floor included.
func wholePartOf(mine, sum float64, nodes int) float64 {
	part := partOf(mine, sum, nodes)
	if nodes > 1 && sum > 0 {
		part /= 1 + floor
	}
	return part
}

// leaveTargets gives up this node's shares if it could not publish its demand for so long that the others may
// have taken them.
func (b *Book) leaveTargets() {
	t := &b.targets
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begins == 0 && time.Since(t.divided) >= goneAfter-publishEvery {
		t.begins = settled
		b.opts.Divided()
	}
}
