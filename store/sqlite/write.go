package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

// write is the current transaction, with its prepared statements. It belongs to the writer that has the
// store's turn.
type write struct {
	s        *Store
	ctx      context.Context
	conn     *sql.Conn
	revision uint64
	low      bool // the disk has too little space to add rows
	changed  bool
	counts   map[countKey]int64
	hours    map[int64]int64
	scratch  []byte

	all                                                     []*sql.Stmt
	beginS, commitS, rollbackS                              *sql.Stmt
	find, insert, remove, removePlain, update               *sql.Stmt
	addLabel, dropLabel, addCount, addRecord, addHour, last *sql.Stmt
	window, move, trimRecords, trimRecordsOf, trimHour      *sql.Stmt
	dropHour                                                *sql.Stmt
}

type countKey struct {
	namespace string
	state     rouse.State
}

func (w *write) beginTransaction() error {
	w.revision, w.low, w.changed = w.s.last, w.s.disk.Low(), false
	clear(w.counts)
	clear(w.hours)
	_, err := w.beginS.ExecContext(w.ctx)
	return err
}

func (w *write) rollbackTransaction() {
	_, _ = w.rollbackS.ExecContext(w.ctx) // fails if SQLite has rolled back by itself
}

// commitTransaction adds the values written once per transaction, and commits.
func (w *write) commitTransaction() error {
	if !w.changed {
		w.rollbackTransaction()
		return nil
	}
	for k, d := range w.counts {
		if d != 0 {
			if _, err := w.addCount.ExecContext(w.ctx, k.namespace, k.state, d); err != nil {
				return err
			}
		}
	}
	for h, n := range w.hours {
		if _, err := w.addHour.ExecContext(w.ctx, h, n); err != nil {
			return err
		}
		if n < 0 { // records were deleted: the hour may have none left
			if _, err := w.dropHour.ExecContext(w.ctx, h); err != nil {
				return err
			}
		}
	}
	if w.revision == w.s.last { // each commit ends at a different revision, which identifies it
		w.revision++
	}
	if _, err := w.last.ExecContext(w.ctx, int64(w.revision)); err != nil {
		return err
	}
	w.s.last = w.revision // even if the commit fails, these revisions are not repeated
	_, err := w.commitS.ExecContext(w.ctx)
	return err
}

// place is the known state of a key: the position of its row, and the fields for conditions and indexes.
type place struct {
	exists   bool
	bucket   uint32
	visible  rouse.Instant
	revision uint64
	state    rouse.State
	labels   map[string]string
}

// makeChange makes one change, if its condition holds.
func (w *write) makeChange(c *rouse.Change, res *rouse.Result) error {
	done, err := w.changeDirectly(c, res)
	if err != nil {
		return err
	}
	if !done {
		have, err := w.lookupPlace(c.Key)
		if err != nil {
			return err
		}
		res.Revision, res.Existed = have.revision, have.exists
		if c.If != rouse.AnyRevision && c.If != have.revision {
			return nil
		}
		res.Applied = true
		switch {
		case c.Keep:
		case c.To == nil:
			res.Revision = 0
			err = w.deleteRowAt(c.Key, &have)
		default:
			if w.low && !have.exists {
				return rouse.ErrFull
			}
			res.Revision, err = w.putRow(c.Key, &have, c.To)
		}
		if err != nil {
			return err
		}
	}
	if !res.Applied {
		return nil
	}
	for i := range c.Also {
		row := &c.Also[i]
		have, err := w.lookupPlace(row.Key)
		if err != nil {
			return err
		}
		revision, err := w.putRow(row.Key, &have, row)
		if err != nil {
			return err
		}
		if i == 0 {
			res.Also = revision
		}
	}
	for i := range c.Log {
		if err := w.writeRecord(&c.Log[i]); err != nil {
			return err
		}
	}
	return nil
}

// changeDirectly makes the two most frequent changes, a create and the delete of a scheduled row without
// labels, with one statement that includes the condition. It returns false if the condition did not hold, or
// if the change needs the general way.
func (w *write) changeDirectly(c *rouse.Change, res *rouse.Result) (bool, error) {
	switch {
	case c.Keep || c.If == rouse.AnyRevision:
		return false, nil
	case c.If == rouse.NoRow && c.To != nil && !w.low:
		revision, err := w.putRow(c.Key, &place{}, c.To)
		if errors.Is(err, errTaken) {
			return false, nil
		}
		*res = rouse.Result{Revision: revision, Applied: true}
		return err == nil, err
	case c.If != rouse.NoRow && c.To == nil:
		r, err := w.removePlain.ExecContext(w.ctx, c.Key.Namespace, c.Key.Name, c.Key.Fire, int64(c.If))
		if err != nil {
			return false, err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return false, err
		}
		w.changed = true
		*res = rouse.Result{Applied: true, Existed: true}
		w.counts[countKey{c.Key.Namespace, rouse.StateScheduled}]--
		return true, nil
	}
	return false, nil
}

// scanOneRow scans the one row of a statement.
func (w *write) scanOneRow(stmt *sql.Stmt, args []any, to ...any) error {
	rows, err := stmt.QueryContext(w.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(to...); err != nil {
		return err
	}
	return nil
}

// lookupPlace returns the place of a key.
func (w *write) lookupPlace(k rouse.Key) (place, error) {
	p := place{exists: true}
	var labels []byte
	err := w.scanOneRow(w.find, []any{k.Namespace, k.Name, k.Fire}, &p.bucket, &p.visible, &p.revision, &p.state, &labels)
	if errors.Is(err, sql.ErrNoRows) {
		return place{}, nil
	}
	if err != nil {
		return place{}, err
	}
	p.labels, err = readLabels(labels)
	return p, err
}

var errTaken = errors.New("the key is taken")

// putRow replaces a row or creates it, and returns its new revision.
func (w *write) putRow(k rouse.Key, have *place, row *rouse.Row) (uint64, error) {
	revision := w.revision + 1
	generation := row.Generation
	generation = cmp.Or(generation, revision)
	labels, err := writeLabels(row.Labels)
	if err != nil {
		return 0, err
	}
	if have.exists {
		_, err = w.update.ExecContext(w.ctx, row.Bucket, int64(row.Visible), int64(revision), int64(generation), row.State,
			int64(row.Due), labels, row.Body,
			have.bucket, int64(have.visible), k.Namespace, k.Name, k.Fire)
	} else {
		var res sql.Result
		res, err = w.insert.ExecContext(w.ctx, row.Bucket, int64(row.Visible), k.Namespace, k.Name, k.Fire, int64(revision),
			int64(generation), row.State, int64(row.Due), labels, row.Body)
		if err == nil {
			if n, e := res.RowsAffected(); e != nil || n == 0 {
				return 0, errors.Join(errTaken, e)
			}
		}
	}
	if err != nil {
		return 0, err
	}
	w.revision, w.changed = revision, true
	return revision, w.updateIndexes(k, have, &place{exists: true, state: row.State, labels: row.Labels})
}

// deleteRowAt removes an existing row.
func (w *write) deleteRowAt(k rouse.Key, have *place) error {
	if !have.exists {
		return nil
	}
	if _, err := w.remove.ExecContext(w.ctx, have.bucket, int64(have.visible), k.Namespace, k.Name, k.Fire); err != nil {
		return err
	}
	w.changed = true
	return w.updateIndexes(k, have, &place{})
}

// updateIndexes updates labels and counters from the previous place of a key to the new one.
func (w *write) updateIndexes(k rouse.Key, from, to *place) error {
	if from.exists != to.exists || from.state != to.state {
		if from.exists {
			w.counts[countKey{k.Namespace, from.state}]--
		}
		if to.exists {
			w.counts[countKey{k.Namespace, to.state}]++
		}
	}
	for l, v := range from.labels {
		if now, ok := to.labels[l]; !ok || now != v {
			if _, err := w.dropLabel.ExecContext(w.ctx, l, v, k.Namespace, k.Name, k.Fire); err != nil {
				return err
			}
		}
	}
	for l, v := range to.labels {
		if was, ok := from.labels[l]; !ok || was != v {
			if _, err := w.addLabel.ExecContext(w.ctx, l, v, k.Namespace, k.Name, k.Fire); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeRecord writes a record.
func (w *write) writeRecord(r *rouse.Record) error {
	w.revision++
	w.changed = true
	w.scratch = rouse.AppendRecord(w.scratch[:0], r)
	hour := unixHour(r.Ended)
	w.hours[hour]++
	_, err := w.addRecord.ExecContext(w.ctx, hour, r.Namespace, int64(r.Ended), int64(w.revision), r.Name, w.scratch)
	return err
}

func unixHour(i rouse.Instant) int64 { return int64(i) / 3_600_000 }

// writeLabels returns labels in the format of the column: nil for none.
func writeLabels(labels map[string]string) (any, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(labels)
	return string(b), err
}

func readLabels(b []byte) (labels map[string]string, err error) {
	if len(b) > 0 {
		if err := json.Unmarshal(b, &labels); err != nil {
			return nil, fmt.Errorf("%w: labels of a row: %w; %s", rouse.ErrCorrupt, err, restoreCure)
		}
	}
	return labels, nil
}
