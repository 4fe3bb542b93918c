package sqlite

import (
	"container/heap"
	"context"
	"database/sql"
	"math"

	"github.com/rousehq/rouse"
)

const columns = `bucket, visible, namespace, name, fire, revision, generation, state, due, labels, body`

// Claim returns the rows of the window.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (b rouse.Batch, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return b, err
	}
	defer s.life.RUnlock()
	if w.Hold <= 0 {
		tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // all buckets at the same moment
		if err != nil {
			return b, s.faults.Note(readErr(ctx, err))
		}
		defer tx.Rollback()
		b, err = readWindow(ctx, tx, tx.StmtContext(ctx, s.read.window), w, s.clockNow())
		return b, s.faults.Note(readErr(ctx, err))
	}
	err = s.writeInTransaction(ctx, func(tx *write) error {
		if b, err = readWindow(tx.ctx, tx.conn, tx.window, w, s.clockNow()); err != nil {
			return err
		}
		until := w.HoldEnd(b.Now)
		for i := range b.Rows {
			if err := tx.holdRowUntil(&b.Rows[i], until); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return rouse.Batch{}, err
	}
	return b, nil
}

// holdRowUntil moves a row's visible time and gives it a new revision. The row that the caller receives keeps
// its visible time.
func (w *write) holdRowUntil(row *rouse.Row, until rouse.Instant) error {
	w.revision++
	w.changed = true
	row.Revision = w.revision
	k := row.Key
	_, err := w.move.ExecContext(w.ctx, int64(until), int64(row.Revision), row.Bucket, int64(row.Visible), k.Namespace,
		k.Name, k.Fire)
	return err
}

// windowText reads one bucket's part of a window.
const windowText = `SELECT ` + columns + ` FROM timers WHERE bucket = ?1 AND visible >= ?2 AND visible <= ?3
	AND (visible, namespace, name, fire) > (?2, ?4, ?5, ?6) ORDER BY visible, namespace, name, fire`

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// readWindow returns the rows of a window without changing them. A single bucket uses the prepared statement;
// of several, each has a statement of its own, as all are read concurrently.
func readWindow(ctx context.Context, on querier, prepared *sql.Stmt, w rouse.Window,
	now rouse.Instant) (b rouse.Batch, err error) {
	b.Now = now
	until := b.Now.Add(w.Ahead) // no duration reaches as far as Never
	after := w.After
	if after == (rouse.Position{}) {
		after.Visible = math.MinInt64
	}
	var q queues
	defer func() {
		for _, c := range q {
			c.rows.Close()
		}
	}()
	for i, bucket := range w.Buckets {
		if i > 0 && bucket == w.Buckets[i-1] {
			continue
		}
		var rows *sql.Rows
		args := []any{bucket, int64(after.Visible), int64(until), after.Key.Namespace, after.Key.Name, after.Key.Fire}
		if len(w.Buckets) == 1 {
			rows, err = prepared.QueryContext(ctx, args...)
		} else {
			rows, err = on.QueryContext(ctx, windowText, args...)
		}
		if err != nil {
			return b, err
		}
		c := &cursor{rows: rows}
		more, err := c.nextRow()
		if err != nil || !more {
			rows.Close()
		}
		if err != nil {
			return b, err
		}
		if more {
			q = append(q, c)
		}
	}
	heap.Init(&q)
	limit, size := max(1, w.Limit), 0
	for len(q) > 0 {
		if len(b.Rows) == limit || w.Bytes > 0 && size >= w.Bytes {
			b.More = true
			break
		}
		c := q[0]
		b.Rows = append(b.Rows, c.row)
		size += len(c.row.Body)
		more, err := c.nextRow()
		if err != nil {
			return b, err
		}
		if more {
			heap.Fix(&q, 0)
		} else {
			heap.Pop(&q).(*cursor).rows.Close()
		}
	}
	return b, nil
}

// cursor is a position in one bucket, at a row.
type cursor struct {
	rows *sql.Rows
	row  rouse.Row
}

func (c *cursor) nextRow() (bool, error) {
	if !c.rows.Next() {
		return false, c.rows.Err()
	}
	return true, scanRow(c.rows, &c.row)
}

// queues is a heap of cursors: the one with the earliest position is first.
type queues []*cursor

func (q queues) Len() int           { return len(q) }
func (q queues) Less(i, j int) bool { return q[i].row.Position().Compare(q[j].row.Position()) < 0 }
func (q queues) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queues) Push(x any)        { *q = append(*q, x.(*cursor)) }
func (q *queues) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// scanRow reads the columns of a row.
func scanRow(rows *sql.Rows, row *rouse.Row) error {
	var revision, generation int64
	var labels sql.RawBytes
	*row = rouse.Row{}
	err := rows.Scan(&row.Bucket, &row.Visible, &row.Key.Namespace, &row.Key.Name, &row.Key.Fire, &revision, &generation,
		&row.State, &row.Due, &labels, &row.Body)
	if err != nil {
		return err
	}
	row.Revision, row.Generation = uint64(revision), uint64(generation)
	row.Labels, err = readLabels(labels)
	return err
}
