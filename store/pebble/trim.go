package pebble

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Trim forgets records by whole hours, each with one tombstone.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (n int64, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	var gone []uint32
	done, err := s.commit(ctx, func(w *write) error {
		all := slices.Sorted(maps.Keys(s.hours))
		var total int64
		for _, h := range all {
			total += s.hours[h]
		}
		for _, h := range all {
			if h >= hourOf(before) && (most <= 0 || total-n <= most) {
				break
			}
			n += s.hours[h]
			gone = append(gone, h)
		}
		if len(gone) == 0 {
			return nil
		}
		end := gone[len(gone)-1]
		for _, tag := range []byte{tagRecord, tagMoment, tagHour} {
			if err := w.batch.DeleteRange([]byte{tag}, after(appendHourKey(nil, tag, end)), nil); err != nil {
				return err
			}
		}
		for _, h := range gone {
			delete(s.hours, h)
		}
		return nil
	}, len(s.hours))
	if err != nil {
		return 0, err
	}
	return n, wait(ctx, done)
}

func loadHours(db *lsm.DB) (map[uint32]int64, error) {
	hours := map[uint32]int64{}
	it, err := db.NewIter(&lsm.IterOptions{LowerBound: []byte{tagHour}, UpperBound: []byte{tagHour + 1}})
	if err != nil {
		return nil, err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		if len(it.Key()) != 5 {
			err = errDamaged
			break
		}
		hours[binary.BigEndian.Uint32(it.Key()[1:])], err = readCount(it.Value())
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return hours, err
}
