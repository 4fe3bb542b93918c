package front

import (
	"context"
	"slices"

	"github.com/rousehq/rouse"
)

// source says which rows to look at, in the order of their positions.
type source interface {
	// next returns up to n entries, which follow those that it returned before; more says whether others may follow.
	next(ctx context.Context, n int) (entries []entry, more bool, err error)
}

// indexed are the entries of a window in the index: those of its buckets, put together.
type indexed struct {
	s      *Store
	v      view
	w      rouse.Window
	until  rouse.Instant
	count  int // of entries that a bucket is asked for
	queues []queue
	ready  []entry // in order, before all in the queues
}

// queue are the next entries of a bucket.
type queue struct {
	spot    spot
	entries []entry
	more    bool // others follow in the index
}

// The entries that a bucket is asked for at a time, at least and at most.
const leastEntries, mostEntries = 16, 2000

func newIndexed(s *Store, v view, w rouse.Window, until rouse.Instant) *indexed {
	x := &indexed{s: s, v: v, w: w, until: until, queues: make([]queue, len(w.Buckets))}
	for i, b := range w.Buckets {
		at := spot{bucket: b}
		if w.After != (rouse.Position{}) {
			at.score, at.member = scoreOf(w.After.Visible), memberOf(&w.After.Key)
		}
		x.queues[i] = queue{spot: at, more: at.score != "" || w.After == (rouse.Position{})} // nothing comes after Never
	}
	return x
}

func (x *indexed) next(ctx context.Context, n int) (entries []entry, more bool, err error) {
	for len(x.ready) < n && x.rest() {
		if err := x.fill(ctx, n-len(x.ready)); err != nil {
			return nil, false, err
		}
		x.sort()
	}
	n = min(n, len(x.ready))
	entries, x.ready = x.ready[:n:n], x.ready[n:]
	return entries, len(x.ready) > 0 || x.rest(), nil
}

// rest says whether anything may follow what is ready.
func (x *indexed) rest() bool {
	return slices.ContainsFunc(x.queues, func(q queue) bool { return q.more || len(q.entries) > 0 })
}

// fill asks for the next entries of the buckets of which there are none here.
func (x *indexed) fill(ctx context.Context, n int) error {
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
	err := x.s.ask(ctx, x.v, func(ctx context.Context) (err error) {
		level, pages, err = x.s.index.read(ctx, x.v.id, x.until, x.count, spots)
		return err
	})
	if err != nil {
		return err
	}
	x.s.state.reached(x.v.id, level)
	for i, p := range pages {
		q := &x.queues[of[i]]
		q.more = p.more
		if n := len(p.entries); n > 0 {
			q.spot.score, q.spot.member = p.entries[n-1].score, memberOf(&p.entries[n-1].Key)
		}
		q.entries = p.entries
		if len(x.w.Namespaces) > 0 {
			q.entries = slices.DeleteFunc(q.entries, func(e entry) bool { return !slices.Contains(x.w.Namespaces, e.Key.Namespace) })
		}
	}
	return nil
}

// sort makes those entries ready that nothing can come before any more: up to the least of the last ones that buckets have of which more
// follow.
func (x *indexed) sort() {
	var bound *rouse.Position
	for i := range x.queues {
		q := &x.queues[i]
		if !q.more {
			continue
		}
		if len(q.entries) == 0 { // all that came is for others: what follows is not known
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

// critical are the rows of a window that have enough criticality, as PostgreSQL finds them.
type critical struct {
	store *Store
	w     rouse.Window
	more  bool
}

func (c *critical) next(ctx context.Context, n int) (entries []entry, more bool, err error) {
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

// merge returns a source of what several have, each row once: an entry may move while a claim reads.
func merge(sources []source) *merged {
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

func (m *merged) next(ctx context.Context, n int) (entries []entry, more bool, err error) {
	for len(entries) < n {
		var least *stream
		for i := range m.sources {
			s := &m.sources[i]
			for s.more && len(s.entries) == 0 {
				if s.entries, s.more, err = s.next(ctx, n); err != nil {
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
