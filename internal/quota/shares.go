package quota

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/note"
)

const (
	// publishEvery is how often a node publishes its demand, and takes new shares.
	publishEvery = 2 * time.Second
	// goneAfter is how long the published demand of a node counts.
	goneAfter = 4 * publishEvery
	// floor is the part of a rate that the nodes have without demand, so that one that gets its first request
	// may serve some.
	floor = 0.05
	// least is the smallest demand that is published, in requests a second.
	least = 0.1
)

// shares divides rates among nodes by their demand.
type shares struct {
	book *Book
	kind *access.Kind

	mu     sync.Mutex
	peers  map[string]published // by live node, also this one
	dead   map[string]published // by node of which there is nothing new, until its note is deleted
	past   map[string]written   // of runs of nodes that have ended
	live   int
	leader string // the first of the live nodes, in the order of their names
}

// maxPast bounds the ended runs whose writes are known. Bytes of further ones are measured again.
const maxPast = 256

// written is by how many bytes a run of a node has changed namespaces, since it began.
type written map[string]int64

// published is the note of a node: its demand in requests a second by namespace and kind, the bytes that it
// has written, its groups of workers, and its demand of the limits of targets.
type published struct {
	At      rouse.Instant             `json:"at"`
	Run     string                    `json:"run,omitempty"` // of the node: it begins to count at 0
	Demand  map[string][kinds]float64 `json:"demand,omitempty"`
	Written written                   `json:"written,omitempty"`
	Groups  map[string]int            `json:"groups,omitempty"`
	Targets map[string]targetDemand   `json:"targets,omitempty"` // by namespace, "/", and the name of the limit

	revision uint64 // of the note
}

func (s *shares) init(b *Book, shared *access.Shared) {
	s.book, s.live = b, 1
	s.peers, s.dead, s.past = map[string]published{}, map[string]published{}, map[string]written{}
	s.kind = shared.Kind("demand", func(n note.Note) {
		p := published{revision: n.Revision}
		s.mu.Lock()
		defer s.mu.Unlock()
		gone := n.Revision == 0 || n.Read(&p) != nil
		old, known := s.dead[n.Name]
		if !known {
			old = s.peers[n.Name]
		}
		if len(old.Written) > 0 && (gone || old.Run != p.Run) {
			if len(s.past) >= maxPast {
				clear(s.past)
			}
			s.past[old.Run] = old.Written
		}
		delete(s.peers, n.Name)
		delete(s.dead, n.Name)
		if !gone {
			s.peers[n.Name] = p // if it is old, current finds that
		}
	})
}

// writtenExcept returns by how many bytes each run of a node has changed a namespace, except for this run.
func (s *shares) writtenExcept(namespace, except string) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int64{}
	for run, w := range s.past {
		all[run] = w[namespace]
	}
	for _, nodes := range []map[string]published{s.dead, s.peers} {
		for _, p := range nodes {
			all[p.Run] = p.Written[namespace]
		}
	}
	delete(all, except)
	return all
}

// totalGroups returns how many groups of workers all nodes have for a namespace.
func (s *shares) totalGroups(namespace string) (sum int64) {
	mine, others := s.groupsOf(namespace)
	return mine + others
}

// groupsOf returns how many groups of workers this node and the others have for a namespace.
func (s *shares) groupsOf(namespace string) (mine, others int64) {
	if s.book.opts.Groups != nil {
		mine = int64(s.book.opts.Groups(namespace))
	}
	node := s.book.opts.Node()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.peers {
		if name != node {
			others += int64(p.Groups[namespace])
		}
	}
	return mine, others
}

// liveNodes returns how many nodes share the rates.
func (s *shares) liveNodes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// Run publishes the demand of this node, and takes its shares, until ctx ends. alone: no other node uses the
// store.
func (b *Book) Run(ctx context.Context, alone bool) {
	var measuring sync.WaitGroup
	defer measuring.Wait()
	measuring.Go(func() { b.measureNamespaces(ctx) })
	measuring.Go(func() { b.observeUsage(ctx) })
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for last, round := time.Now(), 0; ; round++ {
		// While there are no namespaces, each second round is enough for the nodes to know how many they are
		// when the first one is created.
		if alone || round%2 == 0 || b.hasNamespaces() || len(b.opts.Targets()) > 0 {
			mine := b.newPublished(time.Since(last).Seconds())
			last = time.Now()
			if b.isPublished(&mine) {
				b.divideRates(b.shares.copyPeers())
			} else if now, err := b.opts.Now(ctx); err == nil { // else the shares stay
				if b.publishDemand(ctx, now, mine, alone) == nil {
					peers := b.shares.livePublished(now)
					b.divideRates(peers)
					b.divideTargets(now, peers, alone)
					b.deleteDead(ctx)
				}
			}
		}
		b.leaveTargets()
		select {
		case <-ctx.Done():
			if !alone { // the others take this node's shares
				ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishEvery)
				_ = b.shares.kind.Write(ending, access.Change{Name: b.opts.Node(), If: rouse.AnyRevision})
				cancel()
			}
			return
		case <-tick.C:
		}
	}
}

// publishDemand publishes the demand of this node. A node without demand counts as well: it may get the next
// request.
func (b *Book) publishDemand(ctx context.Context, now rouse.Instant, mine published, alone bool) error {
	mine.At = now
	if alone {
		b.shares.setOwnPublished(b.opts.Node(), mine)
		return nil
	}
	return b.shares.kind.Write(ctx, access.Change{Name: b.opts.Node(), Value: mine, If: rouse.AnyRevision})
}

// hasNamespaces reports whether any namespace has been created.
func (b *Book) hasNamespaces() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.spaces) > 0
}

// isPublished reports whether a round would publish what is published, and there is no other node to find:
// the node is alone, and its demand has not changed.
func (b *Book) isPublished(mine *published) bool {
	if b.opts.Alone == nil || !b.opts.Alone() || len(b.opts.Targets()) > 0 {
		return false
	}
	b.shares.mu.Lock()
	defer b.shares.mu.Unlock()
	was, known := b.shares.peers[b.opts.Node()]
	return known && len(b.shares.peers) == 1 && len(b.shares.dead) == 0 && was.Run == mine.Run &&
		maps.Equal(was.Demand, mine.Demand) && maps.Equal(was.Written, mine.Written) &&
		maps.Equal(was.Groups, mine.Groups) && maps.Equal(was.Targets, mine.Targets)
}

// newPublished returns the note of this node, without its time.
func (b *Book) newPublished(seconds float64) published {
	p := published{Run: b.sizes.run, Demand: b.demandPerSecond(seconds), Written: written{},
		Groups: map[string]int{}, Targets: b.targetDemands()}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for name, sp := range b.spaces {
		sp.mu.Lock()
		bounded, n := sp.is.Quotas.PoolGroups > 0, sp.written
		sp.mu.Unlock()
		if n != 0 {
			p.Written[name] = n
		}
		if bounded && b.opts.Groups != nil {
			if n := b.opts.Groups(name); n > 0 {
				p.Groups[name] = n
			}
		}
	}
	return p
}

// demandPerSecond returns the demand of this node, in requests a second.
func (b *Book) demandPerSecond(seconds float64) map[string][kinds]float64 {
	b.mu.RLock()
	spaces := maps.Clone(b.spaces)
	b.mu.RUnlock() // Fires takes locks under which the engine asks for quotas
	all := map[string][kinds]float64{}
	for name, sp := range spaces {
		fired := 0
		if b.opts.Fires != nil {
			fired = b.opts.Fires(name)
		}
		if d := sp.smoothDemand(fired, seconds); slices.Max(d[:]) >= least {
			all[name] = d
		}
	}
	return all
}

func (s *shares) setOwnPublished(node string, p published) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[node] = p
}

// copyPeers returns the notes of the nodes that lived in the last round.
func (s *shares) copyPeers() map[string]published {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.peers)
}

// livePublished returns the notes of the live nodes. Those of the others count no longer, except for the
// bytes that they have written.
func (s *shares) livePublished(now rouse.Instant) map[string]published {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, p := range s.peers {
		if p.At.Add(goneAfter) <= now {
			s.dead[node] = p
			delete(s.peers, node)
		}
	}
	s.live, s.leader = max(1, len(s.peers)), ""
	for node := range s.peers {
		if s.leader == "" || node < s.leader {
			s.leader = node
		}
	}
	return maps.Clone(s.peers)
}

// deleteDead deletes the notes of dead nodes, if this is the first one of those that live: a process of the
// same name may never start. A note stays until all bytes that it has are in a measurement, so that a node
// that starts later misses none. One that was written again stays as well.
func (b *Book) deleteDead(ctx context.Context) {
	if !b.shares.isFirstLive(b.opts.Node()) {
		return
	}
	b.shares.mu.Lock()
	dead := maps.Clone(b.shares.dead)
	b.shares.mu.Unlock()
	var deletes []access.Change
	for node, p := range dead {
		if len(deletes) < maxPast && b.measuredAll(p) {
			deletes = append(deletes, access.Change{Name: node, If: p.revision})
		}
	}
	if len(deletes) > 0 {
		_ = b.shares.kind.Write(ctx, deletes...) // those that are left are deleted in the next round
	}
}

// totalDemand returns the demand of a namespace on all nodes, in requests a second.
func (s *shares) totalDemand(namespace string) (sum [kinds]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		for i, d := range p.Demand[namespace] {
			sum[i] += d
		}
	}
	return sum
}

// divideRates gives each namespace this node's parts of its rates. All nodes divide by the same numbers, so
// that the parts are one whole and the floor.
func (b *Book) divideRates(peers map[string]published) {
	mine, known := peers[b.opts.Node()]
	nodes := len(peers)
	if !known { // nothing has been asked of this node
		nodes++
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for name, sp := range b.spaces {
		var part [kinds]float64
		for i := range part {
			sum := 0.0
			for _, p := range peers {
				sum += p.Demand[name][i]
			}
			part[i] = partOf(mine.Demand[name][i], sum, nodes)
		}
		sp.setShares(part, nodes)
		b.updateWeight(sp)
		if b.opts.Groups != nil {
			sp.setGroupCount(int64(b.opts.Groups(name)))
		}
	}
}

// partOf returns the part of a rate of one of the nodes, by its demand and that of all.
func partOf(mine, sum float64, nodes int) float64 {
	switch {
	case nodes == 1:
		return 1
	case sum > 0:
		return mine/sum + floor/float64(nodes)
	}
	return 1 / float64(nodes)
}
