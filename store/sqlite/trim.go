package sqlite

import (
	"context"

	"github.com/rousehq/rouse"
)

// trimChunk bounds the records that one transaction forgets, so that others get their turns in between.
const trimChunk = 5000

// Trim forgets records by whole hours.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (n int64, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	gone, err := s.doomed(ctx, hourOf(before), most)
	if err != nil {
		return 0, explain(err)
	}
	for _, hour := range gone {
		for more := true; more; {
			var forgot int64
			err := s.commit(ctx, func(w *write) (err error) {
				forgot, err = w.trim(hour)
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

// doomed returns the hours that are too old, or too many.
func (s *Store) doomed(ctx context.Context, before, most int64) (gone []int64, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT hour, SUM(records) OVER (ORDER BY hour DESC) FROM hours ORDER BY hour`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var hour, left int64 // left counts the records of this hour and of all after it
		if err := rows.Scan(&hour, &left); err != nil {
			return nil, err
		}
		if hour >= before && (most <= 0 || left <= most) {
			break
		}
		gone = append(gone, hour)
	}
	return gone, rows.Err()
}

// trim forgets up to trimChunk records of an hour; with the last of them, the hour.
func (w *write) trim(hour int64) (n int64, err error) {
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
