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

// Tally returns how many rows a checkpoint has in each state, and how many records, without changing it. No
// process may have it open. It reads the whole checkpoint, and fails with rouse.ErrCorrupt if a part cannot
// be read, or if rows, indexes, counters and records do not agree.
func Tally(ctx context.Context, path string) (rows map[rouse.State]int64, records int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store %s: %w", path, addCure(err))
		}
	}()
	if format, err := inspectFormat(path); err != nil || format == 0 {
		if err == nil {
			err = fs.ErrNotExist
		}
		return nil, 0, err
	}
	if err := registerVFS(); err != nil {
		return nil, 0, err
	}
	db, err := sql.Open("sqlite", dataSourceName(path, []string{"query_only(true)"})+"&immutable=1")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkIntegrity(ctx, db); err != nil {
		return nil, 0, err
	}
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

// agreement contains the counts that must be 0 in a consistent store.
var agreement = []struct{ what, count string }{
	{"rows and their counters", `SELECT COUNT(*) FROM (
		SELECT namespace, state, SUM(n) FROM (SELECT namespace, state, COUNT(*) AS n FROM timers GROUP BY namespace, state
			UNION ALL SELECT namespace, state, -rows FROM counts) GROUP BY namespace, state HAVING SUM(n) <> 0)`},
	{"records and their counters", `SELECT COUNT(*) FROM (
		SELECT hour, SUM(n) FROM (SELECT hour, COUNT(*) AS n FROM records GROUP BY hour
			UNION ALL SELECT hour, -records FROM hours) GROUP BY hour HAVING SUM(n) <> 0)`},
	{"rows and the index by label", `SELECT (SELECT COUNT(*) FROM labels) - (SELECT COUNT(*) FROM timers t, json_each(t.labels) j JOIN labels l
		ON l.label = j.key AND l.value = j.value AND l.namespace = t.namespace AND l.name = t.name AND l.fire = t.fire)`},
	{"rows and their labels",
		`SELECT (SELECT COUNT(*) FROM labels) - (SELECT COUNT(*) FROM timers t, json_each(t.labels) j)`},
	{"the rows and their revisions",
		`SELECT COUNT(*) FROM timers WHERE revision > (SELECT value FROM meta WHERE name = 'revision')`},
}

// checkIntegrity checks a whole store: every page, every index, every row.
func checkIntegrity(ctx context.Context, db *sql.DB) error {
	var first string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&first); err != nil {
		return err
	}
	if first != "ok" {
		return fmt.Errorf("%w: %s; %s", rouse.ErrCorrupt, first, restoreCure)
	}
	for _, a := range agreement {
		var wrong int64
		if err := db.QueryRowContext(ctx, a.count).Scan(&wrong); err != nil {
			return err
		}
		if wrong != 0 {
			return fmt.Errorf("%w: %s do not agree; %s", rouse.ErrCorrupt, a.what, restoreCure)
		}
	}
	rows, err := db.QueryContext(ctx, `SELECT `+columns+` FROM timers`)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		var r rouse.Row
		err = scanRow(rows, &r)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}
