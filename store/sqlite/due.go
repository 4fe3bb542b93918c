package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"github.com/rousehq/rouse"
)

// Rows that are due in a range of time are in two places in the order of time: those that need attention when
// they are due in timers itself, bucket by bucket, and all others, which are fewer, in timers_by_due. So no
// create pays for an index of due times. In the order of keys, a list would examine all rows to find a few.
const (
	dueIndex = `CREATE INDEX IF NOT EXISTS timers_by_due ON timers (due) WHERE due <> visible OR visible = 9223372036854775807`
	never    = `9223372036854775807`

	// byBucket reads all buckets that have rows, each with one lookup.
	byBucket = `(WITH RECURSIVE b (bucket) AS (SELECT MIN(bucket) FROM timers UNION ALL
		SELECT (SELECT MIN(bucket) FROM timers WHERE bucket > b.bucket) FROM b WHERE b.bucket IS NOT NULL)
		SELECT bucket FROM b WHERE bucket IS NOT NULL) b CROSS JOIN timers t ON t.bucket = b.bucket`
)

// selectsByDue reports whether a query selects rows by their due times, and no other index selects fewer.
func selectsByDue(q *rouse.Query) bool {
	return (q.DueFrom != 0 || q.DueUntil != 0) && q.Name == "" && len(q.Labels) == 0 &&
		(len(q.States) == 0 || slices.Contains(q.States, rouse.StateScheduled))
}

// dueSources returns the sources of rows that are due in the range of a query.
func dueSources(q *rouse.Query) []source {
	visible, due := condition{}, condition{}
	due.addCondition("(t.due <> t.visible OR t.visible = " + never + ")")
	if q.DueFrom != 0 {
		visible.addCondition("t.visible >= ?", int64(q.DueFrom))
		due.addCondition("t.due >= ?", int64(q.DueFrom))
	}
	if q.DueUntil != 0 {
		visible.addCondition("t.visible < ?", int64(q.DueUntil))
		due.addCondition("t.due < ?", int64(q.DueUntil))
	} else { // SQLite searches with one upper bound only
		visible.addCondition("t.visible < " + never)
	}
	return []source{
		{table: byBucket, alias: "t", where: visible.joinConditions(), args: visible.args, timed: true,
			only: "t.due = t.visible"},
		{table: "timers t INDEXED BY timers_by_due", alias: "t", where: due.joinConditions(), args: due.args, timed: true,
			only: "1"},
	}
}

// fewDue returns the sources of a query in the order of time if at most maxLooks rows are due in its range;
// otherwise those in the order of keys.
func fewDue(ctx context.Context, tx *sql.Tx, q *rouse.Query) ([]source, error) {
	if !selectsByDue(q) {
		return sourcesOf(q), nil
	}
	sources, all := dueSources(q), 0
	for _, src := range sources {
		n := 0
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM `+src.table+` WHERE `+src.where+` LIMIT ?)`,
			append(slices.Clone(src.args), maxLooks+1)...).Scan(&n)
		if all += n; err != nil {
			return nil, err
		}
	}
	if all > maxLooks {
		return sourcesOf(q), nil
	}
	return sources, nil
}
