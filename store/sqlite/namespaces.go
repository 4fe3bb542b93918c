package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"slices"
)

// RecordNamespaces returns the namespaces that have records, sorted. It costs one index lookup for each
// namespace of each hour.
func (s *Store) RecordNamespaces(ctx context.Context) ([]string, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, s.faults.Note(err)
	}
	defer tx.Rollback()
	hours, err := hoursBefore(ctx, tx, math.MaxInt64)
	if err != nil {
		return nil, s.faults.Note(err)
	}
	next, err := tx.PrepareContext(ctx,
		`SELECT namespace FROM records WHERE hour = ? AND namespace > ? ORDER BY namespace LIMIT 1`)
	if err != nil {
		return nil, s.faults.Note(err)
	}
	defer next.Close()
	seen := map[string]bool{}
	for _, hour := range hours {
		for name := ""; ; seen[name] = true {
			err := next.QueryRowContext(ctx, hour, name).Scan(&name)
			if errors.Is(err, sql.ErrNoRows) {
				break
			}
			if err != nil {
				return nil, s.faults.Note(err)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
