package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rousehq/rouse"
)

// Path returns the file of the store.
func (s *Store) Path() string { return s.path }

// Tally returns how many rows a checkpoint has in each state, and how many records, without changing it. Nobody has it open.
func Tally(ctx context.Context, path string) (rows map[rouse.State]int64, records int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store %s: %w", path, explain(err))
		}
	}()
	if format, err := inspect(path); err != nil || format == 0 {
		if err == nil {
			err = fs.ErrNotExist
		}
		return nil, 0, err
	}
	db, err := sql.Open("sqlite", dsn(path, []string{"query_only(true)"})+"&immutable=1")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, `SELECT COALESCE(SUM(records), 0) FROM hours`).Scan(&records); err != nil {
		return nil, 0, err
	}
	found, err := db.QueryContext(ctx, `SELECT state, SUM(rows) FROM counts GROUP BY state`)
	if err != nil {
		return nil, 0, err
	}
	rows = map[rouse.State]int64{}
	for err == nil && found.Next() {
		var state rouse.State
		var n int64
		if err = found.Scan(&state, &n); err == nil && n != 0 {
			rows[state] = n
		}
	}
	return rows, records, errors.Join(err, found.Err(), found.Close())
}
