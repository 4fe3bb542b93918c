package postgres

import (
	"context"
	"math"

	"github.com/rousehq/rouse"
)

// trimChunk limits the records that one transaction deletes, so that it is short.
const trimChunk = 5000

// Trim deletes records by whole hours.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (n int64, err error) {
	gone, err := s.expiredHours(ctx, int64(before)/hourMillis, most)
	if err != nil {
		return 0, err
	}
	for _, hour := range gone {
		deleted, err := s.deleteInChunks(ctx, newCall(s.sql.trimHour).addInt8(hour).addInt4(trimChunk))
		n += deleted
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

const hourMillis = 3_600_000

// expiredHours returns the hours that are too old, or that begin more than most records ago, oldest first.
func (s *Store) expiredHours(ctx context.Context, before, most int64) (gone []int64, err error) {
	left := int64(0) // the records of all later hours
	err = s.callTimers(ctx, []*call{newCall(s.sql.hours)}, func(_ int, row [][]byte) error {
		if len(row) != 2 {
			return errShort
		}
		hour := readInt(row[0])
		if hour < before || most > 0 && left >= most {
			gone = append(gone, hour)
		}
		left += readInt(row[1])
		return nil
	})
	for i, j := 0, len(gone)-1; i < j; i, j = i+1, j-1 {
		gone[i], gone[j] = gone[j], gone[i]
	}
	return gone, err
}

// TrimTimer deletes the records of a timer except its newest keep ones.
func (s *Store) TrimTimer(ctx context.Context, namespace, name string, keep int) (n int64, err error) {
	keep = min(max(0, keep), math.MaxInt32)
	return s.deleteInChunks(ctx,
		newCall(s.sql.trimTimer).addString(namespace).addString(name).addInt4(keep).addInt4(trimChunk))
}

// deleteInChunks repeats a call until it deletes less than a chunk.
func (s *Store) deleteInChunks(ctx context.Context, c *call) (n int64, err error) {
	for {
		deleted := int64(0)
		err := s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
			deleted = readInt(row[0])
			return nil
		})
		if err != nil {
			return n, err
		}
		n += deleted
		if deleted < trimChunk {
			return n, nil
		}
	}
}
