package pebble

import (
	"bytes"
	"context"
	"maps"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"
)

// RecordNamespaces returns the namespaces that have records, sorted, and perhaps some whose records were
// deleted recently. It costs a seek for each namespace of each hour.
func (s *Store) RecordNamespaces(ctx context.Context) (names []string, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	it, err := s.db.NewIterWithContext(ctx, &lsm.IterOptions{LowerBound: []byte{tagMoment},
		UpperBound: []byte{tagMoment + 1}})
	if err != nil {
		return nil, s.faults.Note(err)
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	seen := map[string]bool{}
	for ok := it.First(); ok; {
		key := it.Key()
		end := -1
		if len(key) > 5 {
			end = bytes.IndexByte(key[5:], 0)
		}
		if end < 0 {
			return nil, s.faults.Note(errDamaged)
		}
		seen[string(key[5:5+end])] = true
		ok = it.SeekGE(keyAfterPrefix(key[:5+end+1]))
	}
	if err := it.Error(); err != nil {
		return nil, s.faults.Note(err)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
