package postgres

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
)

// Now returns the server's clock. It uses the connections for leases.
func (s *Store) Now(ctx context.Context) (now rouse.Instant, err error) {
	err = s.callLeases(ctx, []*call{newCall(s.sql.now)}, func(_ int, row [][]byte) error {
		now = rouse.Instant(readInt(row[0]))
		return nil
	})
	return now, err
}

// Get returns the rows of the keys at one moment.
func (s *Store) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	out := make([]rouse.Row, len(keys))
	if len(keys) == 0 {
		return out, s.checkUsable(ctx)
	}
	namespaces, names, fires := keyArrays(keys)
	c := newCall(s.sql.fetch).addArray(namespaces).addArray(names).addArray(fires)
	err := s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		if len(row) != columnCount+1 {
			return errShort
		}
		pos := readInt(row[columnCount])
		if pos < 1 || pos > int64(len(out)) {
			return errShort
		}
		return scanRow(row, &out[pos-1])
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Revisions returns the revisions of the rows of the keys. It asks the primary, so it sees every change that
// was acknowledged before. A row that is where it was with the revision that it had is not searched by its
// key.
func (s *Store) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	out := make([]uint64, len(keys))
	if len(keys) == 0 {
		return out, s.checkUsable(ctx)
	}
	known, at := s.places.placesOfKeys(keys)
	if at.n > 0 {
		err := s.callTimers(ctx, []*call{newCall(s.sql.revisionsAt).addArray(at)}, func(_ int, row [][]byte) error {
			list, err := readInts(row[0])
			there := make(map[uint64]bool, len(list))
			for _, revision := range list {
				there[uint64(revision)] = true
			}
			for i, revision := range known {
				if there[revision] {
					out[i] = revision
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var rest []rouse.Key
	var places []int
	for i, revision := range out {
		if revision == 0 {
			rest, places = append(rest, keys[i]), append(places, i)
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	namespaces, names, fires := keyArrays(rest)
	c := newCall(s.sql.revisions).addArray(namespaces).addArray(names).addArray(fires)
	err := s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		list, err := readInts(row[0])
		if err != nil || len(list) != len(rest) {
			return errShort
		}
		for i := range list {
			out[places[i]] = uint64(list[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Raise makes revisions continue above the given one.
func (s *Store) Raise(ctx context.Context, revision uint64) error {
	const most = 1 << 62
	if revision > most {
		return fmt.Errorf("store %s: revisions cannot continue above %d; the maximum is %d", s.name, revision, uint64(most))
	}
	return s.callTimers(ctx, []*call{newCall(s.sql.raise).addInt8(int64(revision))}, nil)
}
