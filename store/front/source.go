package front

import (
	"context"
	"slices"

	"github.com/rousehq/rouse"
)

// source returns the entries to read, in the order of their positions.
type source interface {
	// nextEntries returns up to n entries that follow those returned before; more reports whether others may
	// follow.
	nextEntries(ctx context.Context, n int) (entries []entry, more bool, err error)
}

// indexed is a source of the index's entries in a window, merged from its buckets.
type indexed struct {
	s      *Store
	v      view
	w      rouse.Window
	until  rouse.Instant
	count  int // entries to request from each bucket
	queues []queue
	ready  []entry // in order, before all in the queues
}

// queue contains the next entries of a bucket.
type queue struct {
	spot    spot
	entries []entry
	more    bool // others follow in the index
}

// The minimal and maximal number of entries requested from a bucket at a time.
const leastEntries, mostEntries = 16, 2000

func newIndexed(s *Store, v view, w rouse.Window, until rouse.Instant) *indexed {
	x := &indexed{s: s, v: v, w: w, until: until, queues: make([]queue, len(w.Buckets))}
	for i, b := range w.Buckets {
		at := spot{bucket: b}
		if w.After != (rouse.Position{}) {
			at.score, at.member = scoreOf(w.After.Visible), encodeMember(&w.After.Key)
		}
		x.queues[i] = queue{spot: at, more: at.score != "" || w.After == (rouse.Position{})} // nothing comes after Never
	}
	return x
}

func (x *indexed) nextEntries(ctx context.Context, n int) (entries []entry, more bool, err error) {
	for len(x.ready) < n && x.hasMoreEntries() {
		if err := x.fillQueues(ctx, n-len(x.ready)); err != nil {
			return nil, false, err
		}
		x.sortReady()
	}
	n = min(n, len(x.ready))
	entries, x.ready = x.ready[:n:n], x.ready[n:]
	return entries, len(x.ready) > 0 || x.hasMoreEntries(), nil
}

// hasMoreEntries reports whether more entries may follow the ready ones.
func (x *indexed) hasMoreEntries() bool {
	return slices.ContainsFunc(x.queues, func(q queue) bool { return q.more || len(q.entries) > 0 })
}

// fillQueues requests the next entries of the buckets whose queues are empty.
func (x *indexed) fillQueues(ctx context.Context, n int) error {
	var spots []spot
	var of []int
	for i := range x.queues {
		if q := &x.queues[i]; q.more && len(q.entries) == 0 {
			spots, of = append(spots, q.spot), append(of, i)
		}
	}
	if len(spots) == 0 {
		return nil
	}
	x.count = min(max(leastEntries+5*n/len(spots)/4, 2*x.count), mostEntries, max(n, leastEntries))
	var level int
	var pages []page
	err := x.s.callIndex(ctx, x.v, func(ctx context.Context) (err error) {
		level, pages, err = x.s.index.readDueEntries(ctx, x.v.id, x.until, x.count, spots)
		return err
	})
	if err != nil {
		return err
	}
	x.s.state.recordLevel(x.v.id, level)
	for i, p := range pages {
		q := &x.queues[of[i]]
		q.more = p.more
		if n := len(p.entries); n > 0 {
			q.spot.score, q.spot.member = p.entries[n-1].score, encodeMember(&p.entries[n-1].Key)
		}
		q.entries = p.entries
		if len(x.w.Namespaces) > 0 {
			q.entries = slices.DeleteFunc(q.entries, func(e entry) bool {
				return !slices.Contains(x.w.Namespaces,
					e.Key.Namespace)
			})
		}
	}
	return nil
}

// sortReady moves entries to ready that no unread entry can precede: up to the smallest of the last entries
// of all buckets that have more.
func (x *indexed) sortReady() {
	var bound *rouse.Position
	for i := range x.queues {
		q := &x.queues[i]
		if !q.more {
			continue
		}
		if len(q.entries) == 0 { // all entries were filtered out: the next ones are unknown
			return
		}
		if last := q.entries[len(q.entries)-1].Position(); bound == nil || last.Compare(*bound) < 0 {
			bound = &last
		}
	}
	from := len(x.ready)
	for i := range x.queues {
		q := &x.queues[i]
		n := len(q.entries)
		if bound != nil {
			n, _ = slices.BinarySearchFunc(q.entries, *bound, func(e entry, p rouse.Position) int {
				if e.Position().Compare(p) <= 0 {
					return -1
				}
				return 1
			})
		}
		x.ready, q.entries = append(x.ready, q.entries[:n]...), q.entries[n:]
	}
	slices.SortFunc(x.ready[from:], func(a, b entry) int { return a.Position().Compare(b.Position()) })
}

// critical is a source of the rows of sufficient criticality in a window, read from PostgreSQL.
type critical struct {
	store *Store
	w     rouse.Window
	more  bool
}

func (c *critical) nextEntries(ctx context.Context, n int) (entries []entry, more bool, err error) {
	if !c.more {
		return nil, false, nil
	}
	c.w.Limit = n
	page, _, err := c.store.Critical(ctx, c.store.o.Criticality, c.w)
	if err != nil {
		return nil, false, err
	}
	for _, e := range page {
		entries = append(entries, entry{Entry: e})
		c.w.After = e.Position()
	}
	c.more = len(page) == n
	return entries, c.more, nil
}

// mergeSources merges sources and removes duplicates: an entry may move while a claim reads.
func mergeSources(sources []source) *merged {
	m := &merged{given: map[rouse.Key]bool{}}
	for _, s := range sources {
		m.sources = append(m.sources, stream{source: s, more: true})
	}
	return m
}

type merged struct {
	sources []stream
	given   map[rouse.Key]bool
}

type stream struct {
	source
	entries []entry
	more    bool
}

func (m *merged) nextEntries(ctx context.Context, n int) (entries []entry, more bool, err error) {
	for len(entries) < n {
		var least *stream
		for i := range m.sources {
			s := &m.sources[i]
			for s.more && len(s.entries) == 0 {
				if s.entries, s.more, err = s.nextEntries(ctx, n); err != nil {
					return nil, false, err
				}
			}
			if len(s.entries) > 0 && (least == nil || s.entries[0].Position().Compare(least.entries[0].Position()) < 0) {
				least = s
			}
		}
		if least == nil {
			return entries, false, nil
		}
		e := least.entries[0]
		least.entries = least.entries[1:]
		if !m.given[e.Key] {
			m.given[e.Key] = true
			entries = append(entries, e)
		}
	}
	more = slices.ContainsFunc(m.sources, func(s stream) bool { return s.more || len(s.entries) > 0 })
	return entries, more, nil
}
