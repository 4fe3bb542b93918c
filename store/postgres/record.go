package postgres

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/rousehq/rouse"
)

// Records returns records, newest first.
func (s *Store) Records(ctx context.Context, q rouse.RecordQuery) (page rouse.RecordPage, err error) {
	var w where
	order := `namespace DESC, ended DESC, seq DESC`
	w.addTextCondition("namespace = ?", q.Namespace)
	if q.Name != "" {
		w.addTextCondition("name = ?", q.Name)
		order = `namespace DESC, name DESC, ended DESC, seq DESC`
	}
	if q.Until != (rouse.RecordCursor{}) {
		w.c.addInt8(int64(q.Until.Ended)).addInt8(int64(q.Until.Seq))
		n := len(w.c.args)
		w.addCondition(fmt.Sprintf("(ended, seq) < ($%d, $%d)", n-1, n))
	}
	limit := min(max(1, q.Limit), math.MaxInt32)
	text := fmt.Sprintf(`SELECT ended, seq, name, body FROM %s.records WHERE %s ORDER BY %s LIMIT %d`, s.sql.schema,
		w.String(), order, limit+1)
	var last rouse.RecordCursor
	err = s.callTimers(ctx, []*call{newCall(s.sql.plans), w.callWithText(text)}, func(i int, row [][]byte) error {
		switch {
		case i == 0:
			return nil
		case len(row) != 4:
			return errShort
		case len(page.Records) == limit:
			page.Next = &last
			return nil
		}
		r, err := rouse.DecodeRecord(bytes.Clone(row[3])) // the record shares its bytes, and the driver reuses them
		if err != nil {
			return err
		}
		r.Namespace, r.Name = q.Namespace, string(row[2])
		last = rouse.RecordCursor{Ended: rouse.Instant(readInt(row[0])), Seq: uint64(readInt(row[1]))}
		page.Records, page.At = append(page.Records, r), append(page.At, last)
		return nil
	})
	if err != nil {
		return rouse.RecordPage{}, err
	}
	return page, nil
}

// RecordNamespaces returns the namespaces that have records, sorted. It costs one index lookup for each.
func (s *Store) RecordNamespaces(ctx context.Context) (names []string, err error) {
	text := strings.ReplaceAll(`WITH RECURSIVE spaces AS (
			(SELECT r.namespace FROM {schema}.records r ORDER BY r.namespace LIMIT 1)
			UNION ALL
			SELECT (SELECT r.namespace FROM {schema}.records r WHERE r.namespace > s.namespace ORDER BY r.namespace LIMIT 1)
				FROM spaces s WHERE s.namespace IS NOT NULL
		)
		SELECT namespace FROM spaces WHERE namespace IS NOT NULL`, "{schema}", s.sql.schema)
	err = s.callTimers(ctx, []*call{newCall(s.sql.plans), newCall(text)}, func(i int, row [][]byte) error {
		if i == 1 {
			names = append(names, string(row[0]))
		}
		return nil
	})
	return names, err
}
