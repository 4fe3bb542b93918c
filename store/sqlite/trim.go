package sqlite

import (
	"context"
	"database/sql"
	"math"

	"github.com/rousehq/rouse"
)

// trimChunk limits the records that one transaction deletes, so that other writers get their turns in
// between.
const trimChunk = 5000

// Trim deletes records by whole hours.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (n int64, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	if err := s.trimming.Take(ctx); err != nil {
		return 0, err
	}
	defer s.trimming.Release()
	gone, err := s.expiredHours(ctx, unixHour(before), most)
	if err != nil {
		return 0, s.faults.Note(err)
	}
	for _, hour := range gone {
		for more := true; more; {
			var forgot int64
			err := s.writeInTransaction(ctx, func(w *write) (err error) {
				forgot, err = w.deleteHourRecords(hour)
				return err
			})
			if err != nil {
				return n, err
			}
			n += forgot
			more = forgot == trimChunk
		}
	}
	return n, nil
}

// expiredHours returns the hours that are too old, or that begin more than most records ago.
func (s *Store) expiredHours(ctx context.Context, before, most int64) (gone []int64, err error) {
	rows, err := s.readers.QueryContext(ctx,
		`SELECT hour, SUM(records) OVER (ORDER BY hour DESC) - records FROM hours ORDER BY hour`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var hour, left int64 // left is the number of records of all later hours
		if err := rows.Scan(&hour, &left); err != nil {
			return nil, err
		}
		if hour >= before && (most <= 0 || left < most) {
			break
		}
		gone = append(gone, hour)
	}
	return gone, rows.Err()
}

// deleteHourRecords deletes up to trimChunk records of an hour; with the last of them, the hour.
func (w *write) deleteHourRecords(hour int64) (n int64, err error) {
	w.changed = true
	res, err := w.trimRecords.ExecContext(w.ctx, hour, hour, trimChunk)
	if err != nil {
		return 0, err
	}
	if n, err = res.RowsAffected(); err != nil {
		return 0, err
	}
	if n < trimChunk {
		_, err = w.trimHour.ExecContext(w.ctx, hour)
	} else {
		w.hours[hour] -= n
	}
	return n, err
}

// TrimTimer deletes the records of a timer except its newest keep ones. It searches concurrently with the
// writer.
func (s *Store) TrimTimer(ctx context.Context, namespace, name string, keep int) (n int64, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	if err := s.trimming.Take(ctx); err != nil {
		return 0, err
	}
	defer s.trimming.Release()
	until, hours, err := s.surplusRecords(ctx, namespace, name, max(0, keep))
	if err != nil {
		return 0, s.faults.Note(err)
	}
	for _, hour := range hours {
		for more := true; more; {
			var forgot int64
			err := s.writeInTransaction(ctx, func(w *write) (err error) {
				forgot, err = w.trimTimer(hour, namespace, name, until)
				return err
			})
			if err != nil {
				return n, err
			}
			n += forgot
			more = forgot == trimChunk
		}
	}
	return n, nil
}

// surplusRecords returns the position, going back, at which the records to delete begin, and the hours that
// contain them.
func (s *Store) surplusRecords(ctx context.Context, namespace, name string,
	keep int) (until rouse.RecordCursor, hours []int64, err error) {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return until, nil, err
	}
	defer tx.Rollback()
	until = rouse.RecordCursor{Ended: rouse.Never, Seq: math.MaxInt64}
	all, err := hoursBefore(ctx, tx, math.MaxInt64)
	if err != nil {
		return until, nil, err
	}
	const where = ` FROM records INDEXED BY records_by_timer WHERE hour = ? AND namespace = ? AND name = ?`
	count, err := tx.PrepareContext(ctx, `SELECT COUNT(*) FROM (SELECT 1`+where+` LIMIT ?)`)
	if err != nil {
		return until, nil, err
	}
	defer count.Close()
	for _, hour := range all {
		var n int
		if err := count.QueryRowContext(ctx, hour, namespace, name, keep+1).Scan(&n); err != nil {
			return until, nil, err
		}
		if n > keep {
			hours = append(hours, hour)
		}
		if keep > 0 && n >= keep { // the last one to keep is here
			err := tx.QueryRowContext(ctx, `SELECT ended, seq`+where+` ORDER BY ended DESC, seq DESC LIMIT 1 OFFSET ?`, hour,
				namespace, name, keep-1).Scan(&until.Ended, &until.Seq)
			if err != nil {
				return until, nil, err
			}
		}
		keep = max(0, keep-n)
	}
	return until, hours, nil
}

// trimTimerText deletes records of a timer in an hour.
const trimTimerText = `DELETE FROM records WHERE hour = ? AND namespace = ? AND (ended, seq) IN (SELECT ended, seq
	FROM records INDEXED BY records_by_timer WHERE hour = ? AND namespace = ? AND name = ? AND (ended, seq) < (?, ?) LIMIT ?)`

// trimTimer deletes up to trimChunk records of a timer in an hour, those before until.
func (w *write) trimTimer(hour int64, namespace, name string, until rouse.RecordCursor) (n int64, err error) {
	res, err := w.trimRecordsOf.ExecContext(w.ctx, hour, namespace, hour, namespace, name, int64(until.Ended),
		int64(until.Seq), trimChunk)
	if err != nil {
		return 0, err
	}
	if n, err = res.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	w.changed = true
	w.hours[hour] -= n
	return n, nil
}
