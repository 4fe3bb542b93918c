package pebble

import (
	"bytes"
	"container/heap"
	"context"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Claim returns the rows of the window. A claim that only reads begins right behind its After: the head of a
// queue contains the tombstones of settled rows, and a scan from the beginning would have to skip them.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return rouse.Batch{}, err
	}
	defer s.life.RUnlock()
	if w.Hold <= 0 {
		return s.readWindowRows(w)
	}
	var b rouse.Batch
	done, err := s.commitBatch(ctx, func(tx *write) (err error) {
		if b, err = s.readWindowRows(w); err != nil {
			return err
		}
		until := w.HoldEnd(b.Now)
		for i := range b.Rows {
			tx.holdRowUntil(&b.Rows[i], until)
		}
		return nil
	})
	if err != nil {
		return rouse.Batch{}, err
	}
	if err := waitUntilDurable(ctx, done); err != nil {
		return rouse.Batch{}, err
	}
	return b, nil
}

// holdRowUntil moves a row's visible time and gives it a new revision. The row that the caller receives keeps
// its visible time.
func (w *write) holdRowUntil(row *rouse.Row, until rouse.Instant) {
	have := place{exists: true, bucket: row.Bucket, visible: row.Visible, state: row.State, due: row.Due,
		labels: row.Labels}
	w.revision++
	row.Revision = w.revision
	held := place{exists: true, bucket: row.Bucket, visible: until, revision: row.Revision, generation: row.Generation,
		state: row.State,
		due:   row.Due, labels: row.Labels}
	w.moveRow(w.hasher.hashRowKey(row.Key), row.Key, &have, &held, row.Body)
	w.updateIndexes(row.Key, &have, &held)
}

// readWindowRows returns the rows of a window without changing them.
func (s *Store) readWindowRows(w rouse.Window) (b rouse.Batch, err error) {
	b.Now = s.clockNow()
	q, err := s.openQueues(w, b.Now)
	defer func() {
		if e := q.closeQueues(); err == nil {
			err = e
		}
		err = s.faults.Note(err)
	}()
	if err != nil {
		return b, err
	}
	limit, size, namespace := max(1, w.Limit), 0, ""
	for len(q) > 0 {
		if len(b.Rows) == limit || w.Bytes > 0 && size >= w.Bytes {
			b.More = true
			break
		}
		it := q[0]
		value, err := it.ValueAndErr()
		if err != nil {
			return b, err
		}
		row, err := decodeDueRow(it.Key(), value, &namespace)
		if err != nil {
			return b, err
		}
		size += len(row.Body)
		if len(b.Rows) == fewRows {
			b.Rows = slices.Grow(b.Rows, min(limit, pageRows)-fewRows)
		}
		b.Rows = append(b.Rows, row)
		if it.Next() {
			heap.Fix(&q, 0)
			continue
		}
		if err := it.Error(); err != nil {
			return b, err
		}
		heap.Remove(&q, 0).(*lsm.Iterator).Close()
	}
	return b, nil
}

// A page with more than fewRows has room for pageRows at once: growing would take twice its memory.
const (
	fewRows  = 64
	pageRows = 4096
)

// queues is a heap of iterators over the rows of one bucket each: the one with the earliest position is
// first.
type queues []*lsm.Iterator

func (q queues) Len() int           { return len(q) }
func (q queues) Less(i, j int) bool { return bytes.Compare(q[i].Key()[5:], q[j].Key()[5:]) < 0 }
func (q queues) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queues) Push(x any)        { *q = append(*q, x.(*lsm.Iterator)) }
func (q *queues) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func (q queues) closeQueues() (err error) {
	for _, it := range q {
		if e := it.Close(); err == nil {
			err = e
		}
	}
	return err
}

// openQueues returns the iterators of the window's buckets that have rows in it.
func (s *Store) openQueues(w rouse.Window, now rouse.Instant) (q queues, err error) {
	end := now.Add(w.Ahead) + 1 // inclusive; no duration reaches as far as Never
	var r lsm.Reader = s.db
	if len(w.Buckets) > 1 {
		snap := s.db.NewSnapshot() // so that a row that moves between buckets is read once
		defer snap.Close()
		r = snap
	}
	for i, bucket := range w.Buckets {
		if i > 0 && bucket == w.Buckets[i-1] {
			continue
		}
		var lower []byte
		if w.After == (rouse.Position{}) {
			lower = []byte{tagDue, byte(bucket >> 24), byte(bucket >> 16), byte(bucket >> 8), byte(bucket)}
		} else {
			lower = append(appendDueKey(nil, bucket, w.After.Visible, w.After.Key), 0) // the next possible key
		}
		it, err := r.NewIter(&lsm.IterOptions{LowerBound: lower, UpperBound: appendDueTime(nil, bucket, end)})
		if err != nil {
			return q, err
		}
		if it.First() {
			q = append(q, it)
		} else if err := it.Close(); err != nil {
			return q, err
		}
	}
	heap.Init(&q)
	return q, nil
}
