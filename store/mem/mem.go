// Package mem is a store in memory, for tests and experiments, and the model that tests compare other
// stores with. It loses everything when the process ends.
//
//	n, err := node.Open(ctx, "mem:") // or, for tests of stores, mem.New()
//
// It reads every row for every claim and list: it is meant to be obviously correct, not fast. It has no
// files to copy, so it is not a rouse.Checkpointer.
package mem

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Store is a rouse.Shared in memory.
type Store struct {
	mu       sync.Mutex
	rows     map[rouse.Key]rouse.Row
	records  []kept // in the order of (Ended, seq)
	leases   map[string]rouse.Lease
	members  map[*attendance]struct{} // the members that attend
	server   int                      // how often NextServer was called
	revision uint64
	closed   bool
	clock    func() time.Time
}

type kept struct {
	rouse.Record
	at rouse.RecordCursor
}

// New returns an empty store that uses the machine's wall clock.
func New() *Store { return NewWithClock(time.Now) }

// NewWithClock returns an empty store that uses the given clock, which must be safe for concurrent use.
func NewWithClock(clock func() time.Time) *Store {
	return &Store{rows: map[rouse.Key]rouse.Row{}, leases: map[string]rouse.Lease{}, members: map[*attendance]struct{}{},
		clock: clock, revision: rouse.FirstRevision(time.Now())}
}

// Now returns the store's clock.
func (s *Store) Now(ctx context.Context) (rouse.Instant, error) {
	return rouse.Reached(s.clock()), ctx.Err()
}

// Close deletes everything; later calls fail with rouse.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.rows, s.records = true, nil, nil
	return nil
}

func (s *Store) checkUsable(ctx context.Context) error {
	if s.closed {
		return rouse.ErrClosed
	}
	return ctx.Err()
}

// Get returns the rows of the keys.
func (s *Store) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make([]rouse.Row, len(keys))
	for i, k := range keys {
		rows[i] = s.rows[k]
	}
	return rows, s.checkUsable(ctx)
}

// List returns the matching rows, in the order of keys.
func (s *Store) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []rouse.Row
	for _, r := range s.rows {
		if q.Selects(&r) && r.Key.Compare(q.After) > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b rouse.Row) int { return a.Key.Compare(b.Key) })
	page := rouse.Page{Rows: rows}
	if limit := max(1, q.Limit); len(rows) > limit {
		page.Rows = rows[:limit:limit]
		next := page.Rows[limit-1].Key
		page.Next = &next
	}
	return page, s.checkUsable(ctx)
}

// Count returns how many rows match.
func (s *Store) Count(ctx context.Context, q rouse.Query) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, r := range s.rows {
		if q.Selects(&r) {
			n++
		}
	}
	return n, s.checkUsable(ctx)
}

// Claim returns the rows of the window.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return rouse.Batch{}, err
	}
	b := rouse.Batch{Now: rouse.Reached(s.clock()), Token: s.revision + 1}
	until := b.Now.Add(w.Ahead)
	var rows []rouse.Row
	for _, r := range s.rows {
		ours := slices.Contains(w.Buckets, r.Bucket) && (len(w.Namespaces) == 0 ||
			slices.Contains(w.Namespaces, r.Key.Namespace))
		if ours && r.Visible <= until && r.Visible != rouse.Never && r.Revision >= w.Since &&
			r.Position().Compare(w.After) > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b rouse.Row) int { return a.Position().Compare(b.Position()) })
	bytes := 0
	for _, r := range rows {
		if len(b.Rows) == w.Limit || w.Bytes > 0 && bytes >= w.Bytes {
			b.More = true
			break
		}
		bytes += len(r.Body)
		if w.Hold > 0 {
			s.revision++
			r.Revision = s.revision
			held := r
			held.Visible = w.HoldEnd(b.Now)
			s.rows[r.Key] = held
		}
		b.Rows = append(b.Rows, r)
	}
	return b, nil
}

// Apply makes the changes.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	results := make([]rouse.Result, len(changes))
	for i := range changes {
		results[i] = s.applyChange(&changes[i])
	}
	return results, nil
}

func (s *Store) applyChange(c *rouse.Change) rouse.Result {
	have, existed := s.rows[c.Key]
	res := rouse.Result{Revision: have.Revision, Existed: existed}
	if c.If != rouse.AnyRevision && c.If != have.Revision {
		return res
	}
	res.Applied = true
	switch {
	case c.Keep:
	case c.To == nil:
		delete(s.rows, c.Key)
		res.Revision = 0
	default:
		row := *c.To
		row.Key = c.Key
		res.Revision = s.storeRow(row)
	}
	for i, row := range c.Also {
		if revision := s.storeRow(row); i == 0 {
			res.Also = revision
		}
	}
	for _, r := range c.Log {
		s.insertRecord(r)
	}
	return res
}

func (s *Store) storeRow(row rouse.Row) uint64 {
	s.revision++
	row.Revision = s.revision
	row.Generation = cmp.Or(row.Generation, s.revision)
	row.Labels, row.Criticality = maps.Clone(row.Labels), 0
	s.rows[row.Key] = row
	return s.revision
}

func (s *Store) insertRecord(r rouse.Record) {
	s.revision++
	k := kept{r, rouse.RecordCursor{Ended: r.Ended, Seq: s.revision}}
	at := sort.Search(len(s.records), func(i int) bool { return isNewer(s.records[i].at, k.at) })
	s.records = slices.Insert(s.records, at, k)
}

func isNewer(a, b rouse.RecordCursor) bool {
	return a.Ended > b.Ended || a.Ended == b.Ended && a.Seq > b.Seq
}

// Records returns records, newest first.
func (s *Store) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page rouse.RecordPage
	var last rouse.RecordCursor
	for _, k := range slices.Backward(s.records) {
		if k.Namespace != q.Namespace || q.Name != "" && k.Name != q.Name ||
			q.Until != (rouse.RecordCursor{}) && !isNewer(q.Until, k.at) {
			continue
		}
		if len(page.Records) == max(1, q.Limit) {
			page.Next = &last
			break
		}
		last = k.at
		page.Records, page.At = append(page.Records, k.Record), append(page.At, last)
	}
	return page, s.checkUsable(ctx)
}

// RecordNamespaces returns the namespaces that have records, sorted.
func (s *Store) RecordNamespaces(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for i := range s.records {
		seen[s.records[i].Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen)), s.checkUsable(ctx)
}

// Trim deletes records by whole hours.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.records) && unixHour(s.records[n].Ended) < unixHour(before) {
		n++
	}
	if extra := int64(len(s.records)) - most; most > 0 && extra > int64(n) {
		h := unixHour(s.records[extra].Ended) // of the oldest of the newest most
		for unixHour(s.records[n].Ended) < h {
			n++
		}
	}
	s.records = slices.Clone(s.records[n:])
	return int64(n), s.checkUsable(ctx)
}

func unixHour(i rouse.Instant) int64 { return int64(i) / 3_600_000 }

// TrimTimer deletes the records of a timer except its newest keep ones.
func (s *Store) TrimTimer(ctx context.Context, namespace, name string, keep int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make([]kept, 0, len(s.records))
	for _, k := range slices.Backward(s.records) {
		if k.Namespace == namespace && k.Name == name {
			if keep <= 0 {
				continue
			}
			keep--
		}
		left = append(left, k)
	}
	n := len(s.records) - len(left)
	slices.Reverse(left)
	s.records = left
	return int64(n), s.checkUsable(ctx)
}
