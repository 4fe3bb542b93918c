package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// maxLooks limits the keys that one page of a list reads in each of its sources.
const maxLooks = 16384

// List returns the matching rows in the order of keys. It merges the sources of the query up to the last key
// that all of them have read.
func (s *Store) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return rouse.Page{}, err
	}
	defer s.life.RUnlock()
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return rouse.Page{}, s.faults.Note(readErr(ctx, err))
	}
	defer tx.Rollback()
	q.Limit = max(1, q.Limit)
	sources, err := fewDue(ctx, tx, &q)
	if err != nil {
		return rouse.Page{}, s.faults.Note(readErr(ctx, err))
	}
	var found []rouse.Page
	for _, src := range sources {
		rows, next, err := src.readQueryPage(ctx, tx, &q)
		if err != nil {
			return rouse.Page{}, s.faults.Note(readErr(ctx, err))
		}
		found = append(found, rouse.Page{Rows: rows, Next: next})
	}
	return storekit.MergePages(q.Limit, found...), nil
}

// Count returns how many rows match.
func (s *Store) Count(ctx context.Context, q rouse.Query) (n int64, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	if q.Prefix == "" && q.Name == "" && len(q.Labels) == 0 && q.DueFrom == 0 && q.DueUntil == 0 {
		var c condition
		c.addStateCondition(&q, "")
		if q.Namespace != "" {
			c.addCondition("namespace = ?", q.Namespace)
		}
		err = s.readers.QueryRowContext(ctx, `SELECT COALESCE(SUM(rows), 0) FROM counts WHERE `+c.joinConditions(),
			c.args...).Scan(&n)
		return n, s.faults.Note(readErr(ctx, err))
	}
	q.After = rouse.Key{}
	sources := sourcesOf(&q)
	if selectsByDue(&q) {
		sources = dueSources(&q)
	}
	for _, src := range sources {
		c := src.indexConditions(&q)
		src.addRowFilters(&q, &c)
		var one int64
		if err := s.readers.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+src.joinTimers()+` WHERE `+c.joinConditions(),
			c.args...).Scan(&one); err != nil {
			return 0, s.faults.Note(readErr(ctx, err))
		}
		n += one
	}
	return n, nil
}

// source is an index in the order of keys with the conditions of a query: the keys of all timers, of one
// state, or of one label; or it is in the order of time (see dueSources), and a page examines all of it. No
// row is in two sources of a query.
type source struct {
	table string // and its index
	alias string // s for a separate index; t for the timers
	where string
	args  []any
	timed bool
	only  string // the condition of rows in the order of time
}

// sourcesOf chooses the sources of a query: a label's, those of the states if the query excludes scheduled
// rows, or all keys.
func sourcesOf(q *rouse.Query) []source {
	if q.Name == "" {
		for k, v := range q.Labels {
			return []source{{table: "labels s", alias: "s", where: "s.label = ? AND s.value = ?", args: []any{k, v}}}
		}
		if len(q.States) > 0 && !slices.Contains(q.States, rouse.StateScheduled) {
			all := slices.Clone(q.States)
			slices.Sort(all)
			var out []source
			for _, state := range slices.Compact(all) {
				out = append(out, source{table: "timers t INDEXED BY timers_by_state", alias: "t",
					where: "t.state = ? AND t.state <> 1", args: []any{state}})
			}
			return out
		}
	}
	return []source{{table: "timers t INDEXED BY timers_by_key", alias: "t", where: "1"}}
}

// joinTimers returns the source joined with its timers.
func (src *source) joinTimers() string {
	if src.alias == "t" {
		return src.table
	}
	return src.table +
		` CROSS JOIN timers t INDEXED BY timers_by_key ON t.namespace = s.namespace AND t.name = s.name AND t.fire = s.fire`
}

// indexConditions returns the conditions on the source's keys, in whose order it is read.
func (src *source) indexConditions(q *rouse.Query) (c condition) {
	c.addCondition(src.where, src.args...)
	if src.timed {
		c.addCondition(src.only)
	}
	a := src.alias + "."
	if q.Namespace != "" {
		c.addCondition(a+"namespace = ?", q.Namespace)
	}
	if q.Name != "" {
		c.addCondition(a+"name = ?", q.Name)
	}
	if q.Prefix != "" {
		c.addCondition(a+"name >= ?", q.Prefix)
		if end := textAfterPrefix(q.Prefix); end != "" {
			c.addCondition(a+"name < ?", end)
		}
	}
	if q.After != (rouse.Key{}) {
		c.addCondition("("+a+"namespace, "+a+"name, "+a+"fire) > (?, ?, ?)", q.After.Namespace, q.After.Name, q.After.Fire)
	}
	return c
}

// addRowFilters adds the conditions on the timers.
func (src *source) addRowFilters(q *rouse.Query, c *condition) {
	c.addStateCondition(q, "t.")
	for k, v := range q.Labels {
		c.addCondition(
			`EXISTS (SELECT 1 FROM labels l WHERE l.label = ? AND l.value = ? AND l.namespace = t.namespace AND l.name = t.name AND l.fire = t.fire)`, k, v)
	}
	if q.DueFrom != 0 {
		c.addCondition("t.due >= ?", int64(q.DueFrom))
	}
	if q.DueUntil != 0 {
		c.addCondition("t.due < ?", int64(q.DueUntil))
	}
}

// readQueryPage reads up to q.Limit rows, and examines at most maxLooks keys. next is where the following
// page begins.
func (src *source) readQueryPage(ctx context.Context, tx *sql.Tx,
	q *rouse.Query) (rows []rouse.Row, next *rouse.Key, err error) {
	c := src.indexConditions(q)
	a := src.alias + "."
	key := a + "namespace, " + a + "name, " + a + "fire"
	var last rouse.Key
	if err = sql.ErrNoRows; !src.timed {
		err = tx.QueryRowContext(ctx,
			`SELECT `+key+` FROM `+src.table+` WHERE `+c.joinConditions()+` ORDER BY `+key+` LIMIT 1 OFFSET ?`,
			append(slices.Clone(c.args), maxLooks-1)...).Scan(&last.Namespace, &last.Name, &last.Fire)
	}
	switch {
	case err == nil:
		next = &last
		c.addCondition("("+key+") <= (?, ?, ?)", last.Namespace, last.Name, last.Fire)
	case !errors.Is(err, sql.ErrNoRows):
		return nil, nil, err
	}
	src.addRowFilters(q, &c)
	found, err := tx.QueryContext(ctx, `SELECT t.`+strings.ReplaceAll(columns, ", ",
		", t.")+` FROM `+src.joinTimers()+` WHERE `+c.joinConditions()+` ORDER BY `+key+` LIMIT ?`,
		append(c.args, q.Limit+1)...)
	if err != nil {
		return nil, nil, err
	}
	for err == nil && found.Next() {
		var r rouse.Row
		err = scanRow(found, &r)
		rows = append(rows, r)
	}
	if err := errors.Join(err, found.Err(), found.Close()); err != nil {
		return nil, nil, err
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = &rows[q.Limit-1].Key
	}
	return rows, next, nil
}

// textAfterPrefix returns the first text after all texts with the prefix, "" if none exists.
func textAfterPrefix(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return string(b[:i+1])
		}
	}
	return ""
}

// condition is a WHERE clause.
type condition struct {
	parts []string
	args  []any
}

func (c *condition) addCondition(part string, args ...any) {
	c.parts = append(c.parts, part)
	c.args = append(c.args, args...)
}

func (c *condition) joinConditions() string { return strings.Join(c.parts, " AND ") }

// addStateCondition adds the condition on the states of a query.
func (c *condition) addStateCondition(q *rouse.Query, alias string) {
	states := q.States
	if len(states) == 0 {
		states = rouse.ListedStates
	}
	marks := strings.Repeat("?, ", len(states)-1) + "?"
	args := make([]any, len(states))
	for i, s := range states {
		args[i] = s
	}
	c.addCondition(alias+"state IN ("+marks+")", args...)
}
