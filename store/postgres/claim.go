package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rousehq/rouse"
)

// Claim returns the rows of the window. The comments of the functions claim and claim_hold in the schema
// describe how, and define the token; claim_at and hold_at do the same, and return where the rows are.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	limit := min(max(1, w.Limit), math.MaxInt32)
	text := s.sql.claim
	if w.Hold > 0 {
		limit = min(limit, blockSize-1)
		text = s.sql.hold
	}
	c := newCall(text)
	addBuckets(c, w.Buckets)
	after := w.After
	if after == (rouse.Position{}) {
		after.Visible = math.MinInt64
	}
	c.addInt8(int64(after.Visible)).addString(after.Key.Namespace).addString(after.Key.Name).addString(after.Key.Fire)
	c.addInt8(roundUpMillis(w.Ahead)).addInt8(int64(w.Since)).addInt4(int(s.writer.Load())).addInt4(limit).addInt8(
		int64(w.Bytes))
	if len(w.Namespaces) == 0 {
		c.addParameter(pgtype.TextArrayOID, nil)
	} else {
		list := newTextArray(len(w.Namespaces), 16)
		for _, name := range w.Namespaces {
			list.appendString(name)
		}
		c.addArray(list)
	}
	if w.Hold > 0 {
		c.addInt8(roundUpMillis(w.Hold)).addInt8(int64(w.Until))
	}
	var b rouse.Batch
	first, size := true, 0
	var at []uint64
	err := s.callTimers(ctx, []*call{c}, func(_ int, row [][]byte) error {
		if first { // the clock and the token
			first = false
			b.Now, b.Token = rouse.Instant(readInt(row[1])), uint64(readInt(row[5]))
			return nil
		}
		var r rouse.Row
		if err := scanRow(row, &r); err != nil {
			return err
		}
		if len(row) != columnCount+1 {
			return errShort
		}
		b.Rows, at = append(b.Rows, r), append(at, readTid(row[columnCount]))
		size += len(r.Body)
		return nil
	})
	if err != nil {
		return rouse.Batch{}, err
	}
	s.places.rememberRead(b.Rows, at)
	if w.Hold > 0 {
		slices.SortFunc(b.Rows, func(x, y rouse.Row) int { return x.Position().Compare(y.Position()) })
	}
	b.More = len(b.Rows) == limit || w.Bytes > 0 && size >= w.Bytes
	return b, nil
}

// bitSpan is the largest distance of buckets that are passed as bits.
const bitSpan = 1 << 16

// addBuckets adds the four parameters that select the buckets: the lowest and the highest, and unless all
// between them are selected, a bit for each, or a list if they are too far apart. Comparing with a list costs
// as much as all other work for a row.
func addBuckets(c *call, buckets []uint32) {
	low, high := int64(0), int64(-1)
	n := int64(0)
	for i, b := range buckets {
		if i == 0 || b != buckets[i-1] {
			n++
		}
	}
	if n > 0 {
		low, high = int64(buckets[0]), int64(buckets[len(buckets)-1])
	}
	c.addInt8(low).addInt8(high)
	span := high - low + 1
	switch {
	case n == span:
		c.addParameter(pgtype.ByteaOID, nil).addParameter(pgtype.Int8ArrayOID, nil)
	case span <= bitSpan:
		bits := make([]byte, (span+7)/8)
		for _, b := range buckets {
			at := int64(b) - low
			bits[at/8] |= 1 << (at % 8) // get_bit counts from the lowest bit of the first byte
		}
		c.addParameter(pgtype.ByteaOID, bits).addParameter(pgtype.Int8ArrayOID, nil)
	default:
		some := newInt8Array(len(buckets))
		for _, b := range buckets {
			some.appendInt8(int64(b))
		}
		c.addParameter(pgtype.ByteaOID, nil).addArray(some)
	}
}
