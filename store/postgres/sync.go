package postgres

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rousehq/rouse"
)

// Entry is the position of a row in its bucket's order of attention, for an index in front of this store.
type Entry struct {
	Key      rouse.Key
	Bucket   uint32
	Visible  rouse.Instant
	Revision uint64 // 0: there is no such row
}

// Position returns the entry's position in its bucket's order.
func (e *Entry) Position() rouse.Position { return rouse.Position{Visible: e.Visible, Key: e.Key} }

// Look returns the rows of keys, in their order and without missing ones, until the size of their bodies
// reaches bytes (0: no limit), with the clock and the token that Claim returns. looked is the number of keys
// that it read.
func (s *Store) Look(ctx context.Context, keys []rouse.Key, bytes int) (b rouse.Batch, looked int, err error) {
	namespaces, names, fires := keyArrays(keys)
	c := newCall(`SELECT * FROM ` + s.sql.schema +
		`.index_fetch($1, $2, $3, $4)`).addArray(namespaces).addArray(names).addArray(fires).addInt8(int64(bytes))
	size, last := 0, 0
	err = s.callWithClock(ctx, c, &b, func(row [][]byte) error {
		if len(row) != columnCount+1 {
			return errShort
		}
		var r rouse.Row
		if err := scanRow(row, &r); err != nil {
			return err
		}
		b.Rows = append(b.Rows, r)
		size, last = size+len(r.Body), int(readInt(row[columnCount]))
		return nil
	})
	if err != nil {
		return rouse.Batch{}, 0, err
	}
	if bytes > 0 && size >= bytes {
		return b, last, nil
	}
	return b, len(keys), nil
}

// HoldRows holds rows that match the entries and are visible within the window's Ahead, as Claim does with a
// hold: up to the window's Bytes, skipping rows that others are about to write. elsewhere has the positions
// of rows that do not match. It uses only Ahead, Bytes and the hold of the window; the limit of entries is
// the limit of rows that Claim may hold.
func (s *Store) HoldRows(ctx context.Context, entries []Entry,
	w rouse.Window) (b rouse.Batch, elsewhere []Entry, err error) {
	if len(entries) >= blockSize {
		return b, nil, errors.New("too many rows to hold at a time")
	}
	keys, revisions := make([]rouse.Key, len(entries)), newInt8Array(len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
		revisions.appendInt8(int64(entries[i].Revision))
	}
	namespaces, names, fires := keyArrays(keys)
	c := newCall(s.sql.index).addArray(namespaces).addArray(names).addArray(fires).addArray(revisions).
		addInt8(roundUpMillis(w.Ahead)).addInt8(int64(w.Bytes)).addInt8(roundUpMillis(w.Hold)).addInt8(int64(w.Until))
	err = s.callWithClock(ctx, c, &b, func(row [][]byte) error {
		if len(row) > columnCount && row[6] == nil {
			e, err := scanEntry(row)
			elsewhere = append(elsewhere, e)
			return err
		}
		var r rouse.Row
		if err := scanRow(row, &r); err != nil {
			return err
		}
		b.Rows = append(b.Rows, r)
		return nil
	})
	if err != nil {
		return rouse.Batch{}, nil, err
	}
	slices.SortFunc(b.Rows, func(x, y rouse.Row) int { return x.Position().Compare(y.Position()) })
	return b, elsewhere, nil
}

// callWithClock makes a call whose first row has the clock and the token.
func (s *Store) callWithClock(ctx context.Context, c *call, b *rouse.Batch, read func(row [][]byte) error) error {
	first := true
	return s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		if !first {
			return read(row)
		}
		first = false
		if len(row) < 6 {
			return errShort
		}
		b.Now, b.Token = rouse.Instant(readInt(row[1])), uint64(readInt(row[5]))
		return nil
	})
}

// Critical returns the positions of the rows in a window with at least a criticality, which is 1 or more. It
// ignores Bytes, Since and Hold.
func (s *Store) Critical(ctx context.Context, least uint8,
	w rouse.Window) (entries []Entry, now rouse.Instant, err error) {
	c := newCall(`SELECT * FROM ` + s.sql.schema +
		`.index_critical($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`).addInt2(int(least))
	addBuckets(c, w.Buckets)
	c.addPosition(w.After).addInt8(roundUpMillis(w.Ahead)).addInt4(min(max(1, w.Limit),
		math.MaxInt32)).addNamespaces(w.Namespaces)
	var b rouse.Batch
	err = s.callWithClock(ctx, c, &b, entriesTo(&entries))
	return entries, b.Now, err
}

// Overdue returns the positions of the first rows behind a position that have been visible for at least ago
// milliseconds.
func (s *Store) Overdue(ctx context.Context, ago int64, after rouse.Position, limit int) (entries []Entry, err error) {
	c := newCall(`SELECT * FROM ` + s.sql.schema +
		`.index_overdue($1, $2, $3, $4, $5, $6)`).addInt8(ago).addPosition(after).addInt4(limit)
	read := entriesTo(&entries)
	err = s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error { return read(row) })
	return entries, err
}

// SyncPage is the result of SyncNext.
type SyncPage struct {
	Won   []Entry        // rows that are now marked as the owner's
	Left  int            // rows that it could not mark: others were about to write or mark them
	After rouse.Position // the position that it reached
	Ended bool           // there are no more rows
}

// SyncNext marks up to limit rows of a criticality that are missing from the index with that id as the
// owner's, among the scan rows after a position: their last_sync_id is the optimistic lock, and sync_owner is
// the owner. No row is marked twice for an id. It skips rows that need no attention.
func (s *Store) SyncNext(ctx context.Context, id int64, owner string, level uint8, after rouse.Position, scan,
	limit int) (p SyncPage, err error) {
	c := newCall(`SELECT * FROM ` + s.sql.schema +
		`.sync_next($1, $2, $3, $4, $5, $6, $7, $8, $9)`).addInt8(id).addString(owner).addInt2(int(level)).addPosition(after).
		addInt4(scan).addInt4(limit)
	first, read := true, entriesTo(&p.Won)
	err = s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		if !first {
			return read(row)
		}
		first = false
		e, err := scanEntry(row)
		p.Left, p.After, p.Ended = int(readInt(row[0])), e.Position(), e.Revision == 1
		return err
	})
	return p, err
}

// SyncKeys marks the rows of keys as the owner's, whether the index has them or not, and returns their
// positions, in the order of keys. It does not wait for rows that others are about to write; it returns their
// previous positions.
func (s *Store) SyncKeys(ctx context.Context, id int64, owner string, keys []rouse.Key) ([]Entry, error) {
	out := make([]Entry, len(keys))
	for i := range keys {
		out[i].Key = keys[i]
	}
	namespaces, names, fires := keyArrays(keys)
	c := newCall(`SELECT * FROM ` + s.sql.schema +
		`.sync_keys($1, $2, $3, $4, $5)`).addInt8(id).addString(owner).addArray(namespaces).addArray(names).addArray(fires)
	err := s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		if len(row) != 4 {
			return errShort
		}
		pos := readInt(row[3])
		if pos < 1 || pos > int64(len(out)) {
			return errShort
		}
		e := &out[pos-1]
		e.Bucket, e.Visible, e.Revision = uint32(readInt(row[0])), rouse.Instant(readInt(row[1])), uint64(readInt(row[2]))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// SyncOf returns the positions of rows that owners have marked for an id, among the scan rows after a key,
// and the key to continue after; nil at the end.
func (s *Store) SyncOf(ctx context.Context, id int64, owners []string, after rouse.Key,
	scan int) (entries []Entry, next *rouse.Key, err error) {
	list := newTextArray(len(owners), 16)
	for _, o := range owners {
		list.appendString(o)
	}
	c := newCall(`SELECT * FROM ` + s.sql.schema + `.sync_of($1, $2, $3, $4, $5, $6)`).addInt8(id).addArray(list).
		addString(after.Namespace).addString(after.Name).addString(after.Fire).addInt4(max(1, scan))
	first, read := true, entriesTo(&entries)
	err = s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		if !first {
			return read(row)
		}
		first = false
		e, err := scanEntry(row)
		if e.Revision == 0 {
			next = &e.Key
		}
		return err
	})
	return entries, next, err
}

// IndexBeat is the last known state of an index: its id and its last sign of life.
type IndexBeat struct{ ID, Beat int64 }

// IndexBeat returns the last known state of an index; the zero IndexBeat if it is unknown.
func (s *Store) IndexBeat(ctx context.Context, name string) (b IndexBeat, err error) {
	c := newCall(`SELECT sync_id, beat FROM ` + s.sql.schema + `.indexes WHERE name = $1`).addString(name)
	err = s.callLeases(ctx, []*call{c}, func(_ int, row [][]byte) error {
		b = IndexBeat{readInt(row[0]), readInt(row[1])}
		return nil
	})
	return b, err
}

// SetIndexBeat stores the state of an index, unless it was changed since it was read as old.
func (s *Store) SetIndexBeat(ctx context.Context, name string, b, old IndexBeat) (set bool, err error) {
	c := newCall(`INSERT INTO ` + s.sql.schema + `.indexes AS i VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE
		SET sync_id = excluded.sync_id, beat = excluded.beat WHERE i.sync_id = $4 AND i.beat = $5 RETURNING 1`).
		addString(name).addInt8(b.ID).addInt8(b.Beat).addInt8(old.ID).addInt8(old.Beat)
	err = s.callLeases(ctx, []*call{c}, func(int, [][]byte) error {
		set = true
		return nil
	})
	return set, err
}

// entriesTo parses rows as entries.
func entriesTo(to *[]Entry) func(row [][]byte) error {
	return func(row [][]byte) error {
		e, err := scanEntry(row)
		*to = append(*to, e)
		return err
	}
}

func scanEntry(row [][]byte) (e Entry, err error) {
	if len(row) < 6 {
		return e, errShort
	}
	return Entry{Bucket: uint32(readInt(row[0])), Visible: rouse.Instant(readInt(row[1])),
		Key:      rouse.Key{Namespace: string(row[2]), Name: string(row[3]), Fire: string(row[4])},
		Revision: uint64(readInt(row[5]))}, nil
}

// addPosition adds a position as four parameters; the zero Position is before all rows.
func (c *call) addPosition(p rouse.Position) *call {
	if p == (rouse.Position{}) {
		p.Visible = math.MinInt64
	}
	return c.addInt8(int64(p.Visible)).addString(p.Key.Namespace).addString(p.Key.Name).addString(p.Key.Fire)
}

// addNamespaces adds the namespaces of a window; none means all.
func (c *call) addNamespaces(names []string) *call {
	if len(names) == 0 {
		return c.addParameter(pgtype.TextArrayOID, nil)
	}
	list := newTextArray(len(names), 16)
	for _, name := range names {
		list.appendString(name)
	}
	return c.addArray(list)
}

func (c *call) addInt2(v int) *call {
	return c.addParameter(pgtype.Int2OID, []byte{byte(v >> 8), byte(v)})
}
