package pebble

import (
	"context"
	"errors"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Get returns the rows of the keys.
func (s *Store) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	rows := make([]rouse.Row, len(keys))
	var b []byte
	for i, k := range keys {
		b = appendKeyKey(b[:0], k)
		p, err := getPlace(snap, b)
		if err != nil {
			return nil, s.faults.Note(err)
		}
		if !p.exists {
			continue
		}
		if rows[i], b, err = getRow(snap, k, &p, b); err != nil {
			return nil, s.faults.Note(err)
		}
	}
	return rows, nil
}

// getRow returns the row of a place. b is a buffer for its key.
func getRow(r lsm.Reader, k rouse.Key, p *place, b []byte) (rouse.Row, []byte, error) {
	b = appendDueKey(b[:0], p.bucket, p.visible, k)
	value, closer, err := r.Get(b)
	if errors.Is(err, lsm.ErrNotFound) {
		return rouse.Row{}, b, errDamaged
	}
	if err != nil {
		return rouse.Row{}, b, addCure(err)
	}
	row, err := decodeDueRow(b, value, &k.Namespace)
	if e := closer.Close(); err == nil {
		err = e
	}
	return row, b, err
}
