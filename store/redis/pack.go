package redis

import (
	"encoding/binary"
	"math"

	"github.com/rousehq/rouse"
)

// Lists of texts and numbers are single arguments of scripts, in MessagePack: reading one takes a script a
// fraction of the time that an argument takes Redis.

// appendPacked appends a text to a list.
func appendPacked[T string | []byte](b []byte, text T) []byte {
	switch n := len(text); {
	case n < 1<<5:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, text...)
}

// appendNumber appends a number to a list.
func appendNumber(b []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

// notes are the written rows of a call, for its entry in the journal (index.lua).
type notes struct {
	columns, keys    []byte
	near             bool          // some rows are near
	earliest, latest rouse.Instant // when they are visible
}

// growForRows makes room for the rows of changes.
func (n *notes) growForRows(changes []planned) {
	size, rows := 0, 0
	for i := range changes {
		if changes[i].To != nil {
			size, rows = size+3+len(changes[i].member), rows+1
		}
	}
	n.columns, n.keys = make([]byte, 0, 12*rows), make([]byte, 0, size)
}

func (n *notes) addRowNote(r *rouse.Row, member string) {
	n.columns = binary.BigEndian.AppendUint32(n.columns, r.Bucket)
	n.columns = binary.BigEndian.AppendUint64(n.columns, uint64(r.Visible))
	n.keys = appendPacked(n.keys, member)
}

// extendReach adds the visible time of a near row.
func (n *notes) extendReach(visible rouse.Instant) {
	if !n.near {
		n.near, n.earliest, n.latest = true, math.MaxInt64, math.MinInt64
	}
	n.earliest, n.latest = min(n.earliest, visible), max(n.latest, visible)
}

// encodeReach returns the earliest and the latest time of the near rows, for the head of the entry.
func (n *notes) encodeReach() (b []byte) {
	if n.near {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(n.earliest)), uint64(n.latest))
	}
	return b
}

// encodeEntry returns the entry; the first rows are the near ones.
func (n *notes) encodeEntry(near int) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 8+len(n.columns)+len(n.keys)), uint32(near))
	b = binary.BigEndian.AppendUint32(b, uint32(len(n.columns)/12))
	return append(append(b, n.columns...), n.keys...)
}
