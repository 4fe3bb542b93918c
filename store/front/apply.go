package front

import (
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/store/postgres"
)

// Apply makes the changes in PostgreSQL and then updates the index. Updates that fail or are late are
// repaired later.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	began := time.Now()
	results, err := s.Store.Apply(ctx, changes)
	if err != nil { // the write may have succeeded
		for i := range changes {
			s.pending.addPending(changes[i].Key)
			for j := range changes[i].Also {
				s.pending.addPending(changes[i].Also[j].Key)
			}
		}
		return nil, err
	}
	told, doubtful := positionsAfter(changes, results)
	s.writePositions(ctx, began, told)
	s.pending.addPending(doubtful...)
	return results, nil
}

// positionsAfter returns the positions of rows after changes, and the keys of rows whose results do not
// contain it.
func positionsAfter(changes []rouse.Change, results []rouse.Result) (told []postgres.Entry, doubtful []rouse.Key) {
	told = make([]postgres.Entry, 0, len(changes))
	for i := range changes {
		c, r := &changes[i], &results[i]
		if !r.Applied {
			continue
		}
		switch {
		case c.Keep:
		case c.To != nil:
			told = append(told, postgres.Entry{Key: c.Key, Bucket: c.To.Bucket, Visible: c.To.Visible, Revision: r.Revision})
		case c.If != rouse.AnyRevision && r.Existed:
			told = append(told, postgres.Entry{Key: c.Key, Visible: rouse.Never, Revision: c.If})
		case r.Existed:
			doubtful = append(doubtful, c.Key) // its revision is unknown: the index may have an entry of a later row
		}
		for j := range c.Also {
			row := &c.Also[j]
			told = append(told, postgres.Entry{Key: row.Key, Bucket: row.Bucket, Visible: row.Visible,
				Revision: r.Also + uint64(j)})
		}
	}
	return told, doubtful
}

// writePositions writes the positions of rows that a call wrote to the index; began is when the call began.
func (s *Store) writePositions(ctx context.Context, began time.Time, entries []postgres.Entry) {
	if len(entries) == 0 {
		return
	}
	late := true
	if v := s.state.currentView(); !v.isIndexAway() {
		err := s.callIndex(context.WithoutCancel(ctx), v,
			func(ctx context.Context) error { return s.index.putEntries(ctx, v.id, entries, "") })
		late = err != nil || s.arrivedLate(began)
	}
	if late {
		for i := range entries {
			s.pending.addPending(entries[i].Key)
		}
	}
}

// arrivedLate reports whether the index received rows too late after they were marked or written: a token
// that is newer than the mark may be in use by a reader that has passed their positions.
func (s *Store) arrivedLate(began time.Time) bool { return time.Since(began) > s.pace.lag }

// pending contains the keys of rows whose entries in the index may be wrong.
type pending struct {
	most int
	wake chan struct{}

	mu       sync.Mutex
	keys     map[rouse.Key]struct{}
	taken    int  // keys that are being repaired
	overflow bool // there were too many keys: the index must be discarded
}

func (p *pending) addPending(keys ...rouse.Key) {
	if len(keys) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.overflow:
		return
	case len(p.keys)+len(keys) > p.most:
		p.keys, p.overflow = nil, true
	default:
		if p.keys == nil {
			p.keys = map[rouse.Key]struct{}{}
		}
		for _, k := range keys {
			p.keys[k] = struct{}{}
		}
	}
	p.signalPending()
}

func (p *pending) signalPending() {
	notify.Send(p.wake)
}

// takeSome removes and returns up to n keys. Keys that were taken before count as repaired.
func (p *pending) takeSome(n int) (keys []rouse.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.taken = len(keys) }()
	for k := range p.keys {
		if len(keys) == n {
			break
		}
		keys = append(keys, k)
		delete(p.keys, k)
	}
	return keys
}

func (p *pending) countPendingKeys() (n int, overflow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.keys) + p.taken, p.overflow
}

// clearOverflow resets overflow: the index that missed the keys no longer exists.
func (p *pending) clearOverflow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.overflow = false
}
