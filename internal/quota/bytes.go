package quota

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/note"
)

const (
	// measureEvery is the shortest time between two measurements of a namespace.
	measureEvery = 10 * time.Second
	// measurePage is how many rows are read at a time, and measurePause how much longer than that the pause
	// after them is: a node that measures uses a twentieth of the store's time for it.
	measurePage  = 500
	measurePause = 19
	// underway is how long a write may be on its way from its admission to the store. A measurement begins so
	// much later than the list of written bytes, so that no write of the list is missing in the rows.
	underway = 500 * time.Millisecond
)

// sizes has how many bytes the namespaces with a quota of bytes take. No store keeps this sum, so one of the
// nodes reads the rows of such a namespace, again only if they have changed, and shares the sum. To it come
// the bytes that each node has written since. Rows that have ended since are still in it, and bytes that were
// written during the measurement count twice: the sum is too high rather than too low until the next
// measurement.
type sizes struct {
	kind *access.Kind
	run  string // of this node

	mu   sync.Mutex
	last map[string]measured // by namespace
}

// measured is the size of a namespace.
type measured struct {
	Bytes   int64            `json:"bytes"`
	Rows    int64            `json:"rows"`
	Written map[string]int64 `json:"written,omitempty"` // by the runs of nodes, when it was measured
}

func (s *sizes) init(b *Book, shared *access.Shared) {
	s.run, s.last = rand.Text(), map[string]measured{}
	s.kind = shared.Kind("size", func(n note.Note) {
		var m measured
		s.mu.Lock()
		if n.Revision == 0 || n.Read(&m) != nil {
			delete(s.last, n.Name)
		} else {
			s.last[n.Name] = m
		}
		s.mu.Unlock()
		if sp := b.findSpace(n.Name); sp != nil {
			b.updateWeight(sp)
		}
	})
}

func (s *sizes) lastMeasured(namespace string) measured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[namespace]
}

// writtenSince returns the bytes that were written after a measurement. A node that has written nothing then
// has begun to count later. The bytes known of another node may be older than the measurement.
func (m *measured) writtenSince(written map[string]int64) (sum int64) {
	for run, n := range written {
		sum += max(0, n-m.Written[run])
	}
	return sum
}

// hasNewWrites reports whether anything was written after a measurement.
func (m *measured) hasNewWrites(written map[string]int64) bool {
	for run, n := range written {
		if n != m.Written[run] {
			return true
		}
	}
	return false
}

// measuredAll reports whether the bytes that a run of a node has written were measured, as far as namespaces
// have a quota of bytes.
func (b *Book) measuredAll(p published) bool {
	for namespace, n := range p.Written {
		if sp := b.findSpace(namespace); sp != nil && sp.hasBytesQuota() &&
			b.sizes.lastMeasured(namespace).Written[p.Run] != n {
			return false
		}
	}
	return true
}

// hasBytesQuota reports whether the bytes of the namespace have a quota.
func (sp *space) hasBytesQuota() bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.is.Quotas.Bytes > 0
}

// writtenByRun returns by how many bytes each run of a node has changed a namespace.
func (b *Book) writtenByRun(sp *space) map[string]int64 {
	all := b.shares.writtenExcept(sp.name, b.sizes.run)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.written != 0 {
		all[b.sizes.run] = sp.written
	}
	return all
}

// updateWeight adds up the bytes of a namespace without this node's own: those that were measured, and those
// that other nodes have written since.
func (b *Book) updateWeight(sp *space) {
	m := b.sizes.lastMeasured(sp.name)
	others := m.Bytes + m.writtenSince(b.shares.writtenExcept(sp.name, b.sizes.run)) - m.Written[b.sizes.run]
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.weight = others
}

// usedBytes returns how many bytes a namespace takes; 0 without a quota.
func (sp *space) usedBytes() int64 {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.is.Quotas.Bytes == 0 {
		return 0
	}
	return max(0, sp.weight+sp.written)
}

// reserveSizes takes the sizes of a list of which all fit. The writes of the others are known within three
// rounds of shares, so that a node takes a third of its part of the room in each.
func (sp *space) reserveSizes(sizes []int64) (int, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	most, nodes := sp.is.Quotas.Bytes, int64(max(1, sp.nodes))
	if most == 0 {
		return len(sizes), nil
	}
	left := most - sp.weight - sp.written
	for i, n := range sizes {
		if n > 0 && (n > left || nodes > 1 && sp.spent+n > max(left+sp.spent, 0)/(3*nodes) &&
			(sp.spent > 0 || n > left/nodes)) {
			after := countAgain
			if n <= left { // it is another node's part
				after = publishEvery
			}
			return i, quotaExceeded(sp.name, rouse.QuotaBytes, strconv.FormatInt(most, 10), after)
		}
		sp.written += n
		if left -= n; n > 0 {
			sp.spent += n
		}
	}
	return len(sizes), nil
}

// measureNamespaces measures namespaces until ctx ends.
func (b *Book) measureNamespaces(ctx context.Context) {
	for {
		for _, sp := range b.limitedBytes() {
			if err := b.measureOne(ctx, sp); err != nil && ctx.Err() == nil {
				b.opts.Log.Warn("the bytes of a namespace cannot be measured; what was measured last stays in force", "namespace",
					sp.name, "err", err)
			}
		}
		if !backoff.Sleep(ctx, measureEvery) {
			return
		}
	}
}

// limitedBytes returns the namespaces with a quota of bytes, if this is the node that measures them: the
// first one that lives.
func (b *Book) limitedBytes() (list []*space) {
	if !b.shares.isFirstLive(b.opts.Node()) {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(b.spaces)) {
		if sp := b.spaces[name]; sp.hasBytesQuota() {
			list = append(list, sp)
		}
	}
	return list
}

// isFirstLive reports whether a node is the first one of those that live.
func (s *shares) isFirstLive(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader == "" || s.leader == node
}

// measureOne measures a namespace if it has changed.
func (b *Book) measureOne(ctx context.Context, sp *space) error {
	states := append([]rouse.State{rouse.StateNote}, rouse.AllStates...) // calendars are notes
	rows, err := b.store.Count(ctx, rouse.Query{Namespace: sp.name, States: states})
	if err != nil {
		return err
	}
	old, m := b.sizes.lastMeasured(sp.name), measured{Rows: rows, Written: b.writtenByRun(sp)}
	if old.Rows == rows && !old.hasNewWrites(m.Written) {
		return nil
	}
	if !backoff.Sleep(ctx, underway) {
		return ctx.Err()
	}
	q := rouse.Query{Namespace: sp.name, States: states, Limit: measurePage}
	for {
		began := time.Now()
		page, err := b.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			m.Bytes += page.Rows[i].Size()
		}
		if page.Next == nil {
			return b.sizes.kind.Write(ctx, access.Change{Name: sp.name, Value: m, If: rouse.AnyRevision})
		}
		q.After = *page.Next
		if !backoff.Sleep(ctx, measurePause*time.Since(began)) {
			return ctx.Err()
		}
	}
}
