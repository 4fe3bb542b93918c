package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/rousehq/rouse"
)

// Rows that are due in a range of time are in two indexes in the order of time: those that need attention
// when they are due in timers_by_visible, and all others, which are fewer, in timers_by_due. So no create
// pays for an index of due times. In the order of keys, a list would examine all rows to find a few.
var dueSources = []source{
	{time: "t.visible", only: `t.due = t.visible`},
	{time: "t.due", only: `(t.due <> t.visible OR t.visible = 9223372036854775807)`}, // the condition of the index
}

// selectsByDue reports whether a query selects rows by their due times, and those of no state in particular.
func selectsByDue(q *rouse.Query) bool {
	return (q.DueFrom != 0 || q.DueUntil != 0) && q.Name == "" &&
		(len(q.States) == 0 || slices.Contains(q.States, rouse.StateScheduled))
}

// dueSpan returns the condition on the time of an index.
func (src *source) dueSpan(q *rouse.Query) (w where) {
	if src.time == "t.visible" {
		w.addCondition("t.visible < 9223372036854775807") // the condition of the index
	}
	if q.DueFrom != 0 {
		w.addIntCondition(src.time+" >= ?", int64(q.DueFrom))
	}
	if q.DueUntil != 0 {
		w.addIntCondition(src.time+" < ?", int64(q.DueUntil))
	}
	return w
}

// fewDue reports whether at most maxLooks rows are due in the range of a query: then a page examines all of
// them.
func (s *Store) fewDue(ctx context.Context, q *rouse.Query) (few bool, err error) {
	calls := []*call{newCall(s.sql.plans)}
	for i := range dueSources {
		src := &dueSources[i]
		w := src.dueSpan(q)
		if src.time == "t.due" {
			w.addCondition(src.only)
		}
		calls = append(calls,
			w.callWithText(fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s.timers t WHERE %s ORDER BY %s LIMIT %d) t`,
				s.sql.schema, w.String(), src.time, maxLooks+1)))
	}
	n := int64(0)
	err = s.callTimers(ctx, calls, func(i int, row [][]byte) error {
		if i > 0 {
			n += readInt(row[0])
		}
		return nil
	})
	return n <= maxLooks, err
}

// duePage requests up to q.Limit rows and one more, of all in the range.
func (src *source) duePage(sql *texts, q *rouse.Query) (*call, error) {
	in := src.dueSpan(q)
	in.addCondition(src.only)
	rows := where{c: in.c}
	if err := src.addRowFilters(q, &rows); err != nil {
		return nil, err
	}
	return rows.callWithText(fmt.Sprintf(`SELECT %s, true, false FROM (SELECT * FROM %s.timers t WHERE %s ORDER BY %s) t
		WHERE %s ORDER BY t.namespace, t.name, t.fire LIMIT %d`, columns, sql.schema, in.String(), src.time, rows.String(), q.Limit+1)), nil
}
