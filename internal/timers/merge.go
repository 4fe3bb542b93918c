package timers

import (
	"context"

	"github.com/rousehq/rouse"
)

// merge reads the histories of several namespaces as one, newest first.
type merge struct {
	store rouse.Store
	of    []*reading
	from  rouse.RecordCursor
	size  int // of the records that the last call returned, in bytes
}

// reading is the history of one namespace, as far as it was read.
type reading struct {
	q     rouse.RecordQuery
	known []placed // not taken yet
	end   bool     // there are none after these
}

// newMerge returns the records of the query from a place on until before another.
func (p *past) newMerge(from, until rouse.RecordCursor) *merge {
	m := &merge{store: p.store, from: from}
	for _, name := range p.names {
		q := rouse.RecordQuery{Namespace: name, Name: p.q.Name, Until: until, Limit: p.chunk}
		if len(p.names) > 1 {
			q.Limit = min(firstRecords, p.chunk)
		}
		m.of = append(m.of, &reading{q: q})
	}
	return m
}

// takeNewest returns the next records: n, or fewer at the end or if they have more than bounds.recordBytes.
func (m *merge) takeNewest(ctx context.Context, n int) (out []placed, err error) {
	for m.size = 0; len(out) < n && m.size <= bounds.recordBytes; {
		var newest *reading
		for i := 0; i < len(m.of); i++ {
			r := m.of[i]
			if err := m.fillReading(ctx, r); err != nil {
				return nil, err
			}
			if len(r.known) == 0 {
				m.of[i] = m.of[len(m.of)-1]
				m.of = m.of[:len(m.of)-1]
				i--
				continue
			}
			if newest == nil || byEnd(r.known[0].at, newest.known[0].at) > 0 {
				newest = r
			}
		}
		if newest == nil {
			return out, nil
		}
		out = append(out, newest.known[0])
		m.size += recordSize(&newest.known[0].Record)
		newest.known = newest.known[1:]
	}
	return out, nil
}

// fillReading reads more of a history if all its known records were taken.
func (m *merge) fillReading(ctx context.Context, r *reading) error {
	for len(r.known) == 0 && !r.end {
		page, err := m.store.Records(ctx, r.q)
		if err != nil {
			return err
		}
		if r.end = page.Next == nil; !r.end {
			r.q.Until = *page.Next
		}
		for i := range page.Records {
			if byEnd(page.At[i], m.from) < 0 {
				r.end = true
				break
			}
			r.known = append(r.known, placed{page.Records[i], page.At[i]})
		}
		r.q.Limit = min(recordChunk, 4*r.q.Limit)
	}
	return nil
}
