package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// maxLooks limits the rows that one page of a list examines in each of its sources.
const maxLooks = 16384

// List returns the matching rows in the order of keys. It merges the sources of the query up to the last key
// that all of them have read.
func (s *Store) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	q.Limit = max(1, q.Limit)
	sources := sourcesOf(&q)
	if selectsByDue(&q) {
		few, err := s.fewDue(ctx, &q)
		if err != nil {
			return rouse.Page{}, err
		}
		if few {
			sources = slices.Clone(dueSources)
		}
	}
	calls := []*call{newCall(s.sql.plans)}
	for i := range sources {
		c, err := sources[i].newPageCall(&s.sql, &q)
		if err != nil {
			return rouse.Page{}, err
		}
		calls = append(calls, c)
	}
	err := s.callTimers(ctx, calls, func(i int, row [][]byte) error {
		if i == 0 {
			return nil
		}
		return sources[i-1].addToPage(row, q.Limit)
	})
	if err != nil {
		return rouse.Page{}, err
	}
	found := make([]rouse.Page, len(sources))
	for i, src := range sources {
		found[i] = rouse.Page{Rows: src.rows, Next: src.next}
	}
	return storekit.MergePages(q.Limit, found...), nil
}

// Count returns how many rows match. Counts by namespace and states come from the tallies; with other
// conditions it counts the rows.
func (s *Store) Count(ctx context.Context, q rouse.Query) (n int64, err error) {
	calls := []*call{newCall(s.sql.plans)}
	if q.Prefix == "" && q.Name == "" && len(q.Labels) == 0 && q.DueFrom == 0 && q.DueUntil == 0 {
		var w where
		w.addStateCondition(&q, "t.state")
		if q.Namespace != "" {
			w.addTextCondition("t.namespace = ?", q.Namespace)
		}
		calls = append(calls,
			w.callWithText(`SELECT COALESCE(sum(t.rows), 0)::bigint FROM `+s.sql.schema+`.tallies t WHERE `+w.String()))
	} else {
		q.After = rouse.Key{}
		sources := sourcesOf(&q)
		if selectsByDue(&q) {
			sources = dueSources
		}
		for _, src := range sources {
			w := src.indexConditions(&q)
			if err := src.addRowFilters(&q, &w); err != nil {
				return 0, err
			}
			calls = append(calls, w.callWithText(`SELECT count(*) FROM `+s.sql.schema+`.timers t WHERE `+w.String()))
		}
	}
	err = s.callTimers(ctx, calls, func(i int, row [][]byte) error {
		if i > 0 {
			n += readInt(row[0])
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// source is an index in the order of keys: of all rows, or of the rows in one state; or in the order of time:
// see dueSources. No row is in two sources of a query.
type source struct {
	state rouse.State // 0: all
	time  string      // the column; "" for the order of keys
	only  string      // the condition of rows in the order of time
	rows  []rouse.Row
	next  *rouse.Key
}

// sourcesOf chooses the sources of a query: those of its states if the query excludes scheduled rows, or all
// rows.
func sourcesOf(q *rouse.Query) []source {
	if q.Name != "" && q.Namespace != "" || len(q.States) == 0 || slices.Contains(q.States, rouse.StateScheduled) {
		return []source{{}}
	}
	states := slices.Clone(q.States)
	slices.Sort(states)
	var out []source
	for _, state := range slices.Compact(states) {
		out = append(out, source{state: state})
	}
	return out
}

// indexConditions returns the conditions on the index, in whose order the rows are read.
func (src *source) indexConditions(q *rouse.Query) (w where) {
	if src.time != "" {
		w = src.dueSpan(q)
		w.addCondition(src.only)
		return w
	}
	if src.state != 0 {
		w.addIntCondition("t.state = ?", int64(src.state))
		w.addCondition("t.state <> 1") // the condition of the index
	}
	addKeyConditions(&w, q)
	if len(w.parts) == 0 {
		w.addCondition("true")
	}
	return w
}

// addKeyConditions adds the conditions on the key.
func addKeyConditions(w *where, q *rouse.Query) {
	if q.Namespace != "" {
		w.addTextCondition("t.namespace = ?", q.Namespace)
		addNameConditions(w, q)
	}
	if q.After != (rouse.Key{}) {
		a := q.After
		w.addCondition(fmt.Sprintf("(t.namespace, t.name, t.fire) > (%s, %s, %s)", w.textArg(a.Namespace), w.textArg(a.Name),
			w.textArg(a.Fire)))
	}
}

// addNameConditions adds the conditions on the name: on the index below a namespace, on the rows without one.
func addNameConditions(w *where, q *rouse.Query) {
	if q.Name != "" {
		w.addTextCondition("t.name = ?", q.Name)
	}
	if q.Prefix != "" {
		w.addTextCondition("t.name >= ?", q.Prefix)
		if end := textAfterPrefix(q.Prefix); end != "" {
			w.addTextCondition("t.name < ?", end)
		}
	}
}

// addRowFilters adds the conditions on the rows.
func (src *source) addRowFilters(q *rouse.Query, w *where) error {
	w.addStateCondition(q, "t.state")
	if src.time != "" {
		addKeyConditions(w, q)
	}
	if q.Namespace == "" {
		addNameConditions(w, q)
	}
	if len(q.Labels) > 0 {
		b, err := json.Marshal(q.Labels)
		if err != nil {
			return err
		}
		w.addTextCondition("t.labels @> ?::jsonb", string(b))
	}
	if q.DueFrom != 0 {
		w.addIntCondition("t.due >= ?", int64(q.DueFrom))
	}
	if q.DueUntil != 0 {
		w.addIntCondition("t.due < ?", int64(q.DueUntil))
	}
	return nil
}

// newPageCall requests up to q.Limit rows and one more, and examines at most maxLooks. The last examined row
// is always in the answer, marked if it does not match.
func (src *source) newPageCall(sql *texts, q *rouse.Query) (*call, error) {
	if src.time != "" {
		return src.duePage(sql, q)
	}
	index := src.indexConditions(q)
	rows := where{c: index.c}
	if err := src.addRowFilters(q, &rows); err != nil {
		return nil, err
	}
	order := `t.namespace, t.name, t.fire`
	if src.state != 0 {
		order = `t.state, ` + order
	}
	return rows.callWithText(fmt.Sprintf(`SELECT %s, t.hit, t.looks = %d FROM (
			SELECT t.*, row_number() OVER () AS looks, (%s) AS hit FROM (SELECT * FROM %s.timers t WHERE %s ORDER BY %s LIMIT %d) t) t
		WHERE t.hit OR t.looks = %d LIMIT %d`,
		columns, maxLooks, rows.String(), sql.schema, index.String(), order, maxLooks, maxLooks, q.Limit+1)), nil
}

// addToPage adds a row to the source's page.
func (src *source) addToPage(v [][]byte, limit int) error {
	if len(v) != columnCount+2 {
		return errShort
	}
	hit, last := v[columnCount][0] != 0, v[columnCount+1][0] != 0
	if hit && len(src.rows) == limit {
		src.next = &src.rows[limit-1].Key
		return nil
	}
	var r rouse.Row
	if err := scanRow(v, &r); err != nil {
		return err
	}
	if hit {
		src.rows = append(src.rows, r)
	}
	if last && src.next == nil {
		src.next = &r.Key
	}
	return nil
}

// textAfterPrefix returns the first text after all texts with the prefix, "" if none exists. It is valid
// UTF-8 like the prefix, because the server requires that.
func textAfterPrefix(prefix string) string {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == utf8.RuneError && n == 1 || r == utf8.MaxRune:
			continue
		case r == 0xD7FF: // surrogates follow, which are not characters
			r = 0xE000
		default:
			r++
		}
		return prefix + string(r)
	}
	return ""
}

// where is a WHERE clause with its parameters.
type where struct {
	parts []string
	c     call
}

func (w *where) String() string { return strings.Join(w.parts, " AND ") }

func (w *where) callWithText(text string) *call {
	c := w.c
	c.text = text
	return &c
}

func (w *where) addCondition(part string) { w.parts = append(w.parts, part) }

// addTextCondition and addIntCondition add a condition with one parameter, which replaces the ?.
func (w *where) addTextCondition(part, v string) {
	w.addCondition(strings.Replace(part, "?", w.textArg(v), 1))
}

func (w *where) addIntCondition(part string, v int64) {
	w.c.addInt8(v)
	w.addCondition(strings.Replace(part, "?", w.lastParameter(), 1))
}

func (w *where) textArg(v string) string {
	w.c.addParameter(pgtype.TextOID, []byte(v))
	return w.lastParameter()
}

func (w *where) lastParameter() string { return fmt.Sprintf("$%d", len(w.c.args)) }

// addStateCondition adds the condition on the states of a query.
func (w *where) addStateCondition(q *rouse.Query, column string) {
	states := q.States
	if len(states) == 0 {
		states = rouse.ListedStates
	}
	list := newInt2Array(len(states))
	for _, s := range states {
		list.appendInt2(int(s))
	}
	w.c.addArray(list)
	w.addCondition(column + " = ANY(" + w.lastParameter() + ")")
}
