package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rousehq/rouse"
)

// Records returns records, newest first, hour by hour.
func (s *Store) Records(ctx context.Context, q rouse.RecordQuery) (page rouse.RecordPage, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return page, err
	}
	defer s.life.RUnlock()
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return page, s.faults.Note(readErr(ctx, err))
	}
	defer tx.Rollback()
	ended, seq := int64(math.MaxInt64), int64(math.MaxInt64)
	if q.Until != (rouse.RecordCursor{}) {
		ended, seq = int64(q.Until.Ended), int64(q.Until.Seq)
	}
	text, args := `SELECT ended, seq, name, body FROM records WHERE hour = ? AND namespace = ?`, []any{0, q.Namespace}
	if q.Name != "" {
		text,
			args = `SELECT ended, seq, name, body FROM records INDEXED BY records_by_timer WHERE hour = ? AND namespace = ? AND name = ?`, append(args, q.Name)
	}
	text += ` AND (ended, seq) < (?, ?) ORDER BY ended DESC, seq DESC LIMIT ?`
	hours, err := hoursBefore(ctx, tx, unixHour(rouse.Instant(ended)))
	if err != nil {
		return page, s.faults.Note(readErr(ctx, err))
	}
	limit := max(1, q.Limit)
	var last rouse.RecordCursor
	for _, hour := range hours {
		args[0] = hour
		rows, err := tx.QueryContext(ctx, text, append(slices.Clip(args), ended, seq, limit+1-len(page.Records))...)
		if err != nil {
			return rouse.RecordPage{}, s.faults.Note(readErr(ctx, err))
		}
		more, err := readRecords(rows, q.Namespace, limit, &page, &last)
		if err != nil {
			return rouse.RecordPage{}, s.faults.Note(readErr(ctx, err))
		}
		if more {
			page.Next = &last
			break
		}
	}
	return page, nil
}

// readRecords adds records to a page; it returns true if there are more than the limit.
func readRecords(rows *sql.Rows, namespace string, limit int, page *rouse.RecordPage,
	last *rouse.RecordCursor) (more bool, err error) {
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for rows.Next() {
		if len(page.Records) == limit {
			return true, nil
		}
		var at rouse.RecordCursor
		var name string
		var body sql.RawBytes
		if err := rows.Scan(&at.Ended, &at.Seq, &name, &body); err != nil {
			return false, err
		}
		r, err := rouse.DecodeRecord(body)
		if err != nil {
			return false, fmt.Errorf("%w: a record: %w; %s", rouse.ErrCorrupt, err, restoreCure)
		}
		r.Namespace, r.Name = namespace, name
		page.Records, page.At = append(page.Records, r), append(page.At, at)
		*last = at
	}
	return false, nil
}

func hoursBefore(ctx context.Context, tx *sql.Tx, hour int64) (hours []int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT hour FROM hours WHERE hour <= ? ORDER BY hour DESC`, hour)
	if err != nil {
		return nil, err
	}
	for err == nil && rows.Next() {
		var h int64
		err = rows.Scan(&h)
		hours = append(hours, h)
	}
	return hours, errors.Join(err, rows.Err(), rows.Close())
}
