package pebble

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Trim deletes records by whole hours, each with one tombstone.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (n int64, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	if err := s.trimming.Take(ctx); err != nil {
		return 0, err
	}
	defer s.trimming.Release()
	var gone []uint32
	done, err := s.commitBatch(ctx, func(w *write) error {
		all := slices.Sorted(maps.Keys(s.hours))
		var total int64
		for _, h := range all {
			total += s.hours[h]
		}
		for _, h := range all {
			if h >= clampedHour(before) && (most <= 0 || total-n-s.hours[h] < most) {
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
			if err := w.batch.DeleteRange([]byte{tag}, keyAfterPrefix(appendHourKey(nil, tag, end)), nil); err != nil {
				return err
			}
		}
		for _, h := range gone {
			delete(s.hours, h)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, waitUntilDurable(ctx, done)
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

// trimChunk limits the records of a timer that one batch deletes, so that other writers get their turns in
// between.
const trimChunk = 4096

// TrimTimer deletes the records of a timer except its newest keep ones, each with a tombstone. Its main cost
// is a seek or two for each hour that has any records; it searches concurrently with writers.
func (s *Store) TrimTimer(ctx context.Context, namespace, name string, keep int) (n int64, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	if err := s.trimming.Take(ctx); err != nil {
		return 0, err
	}
	defer s.trimming.Release()
	until := rouse.RecordCursor{Ended: rouse.Never, Seq: 1<<64 - 1}
	if keep > 0 {
		left := keep
		err := ofTimer(ctx, s.db, namespace, name, until, func(m *moment, _ []byte) (bool, error) {
			if left--; left == 0 {
				until = m.RecordCursor
			}
			return left > 0, nil
		})
		if err != nil || left > 0 {
			return 0, s.faults.Note(err)
		}
	}
	for {
		var gone []moment
		err := ofTimer(ctx, s.db, namespace, name, until, func(m *moment, _ []byte) (bool, error) {
			gone = append(gone, *m)
			return len(gone) < trimChunk, nil
		})
		if err != nil || len(gone) == 0 {
			return n, s.faults.Note(err)
		}
		done, err := s.commitBatch(ctx, func(w *write) error { return w.removeRecords(namespace, gone) })
		if err == nil {
			err = waitUntilDurable(ctx, done)
		}
		if err != nil {
			return n, err
		}
		if n += int64(len(gone)); len(gone) < trimChunk {
			return n, nil
		}
	}
}

// removeRecords deletes records. When an hour has no records left, it is deleted with its pages.
func (w *write) removeRecords(namespace string, gone []moment) error {
	for i := range gone {
		w.log.deleteLogRecord(&w.ops, namespace, &gone[i])
	}
	for hour, lost := range w.log.hours {
		if w.s.hours[hour]+lost > 0 {
			continue
		}
		page := appendHourKey(nil, tagMoment, hour)
		if err := w.batch.DeleteRange(page, keyAfterPrefix(page), nil); err != nil {
			return err
		}
	}
	return nil
}
