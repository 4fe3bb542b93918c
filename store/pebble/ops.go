package pebble

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"
)

// ops collects the keys that a batch sets and deletes, and passes them to Pebble in the order of the keys.
// Adjacent keys are adjacent in the memtable: a batch of timers due one after another is written at twice the
// speed of alternating d and k keys.
type ops struct {
	buf   []byte // keys and values, one after another
	lists [4][]op
	spare []op // of sortOps
}

// op is a key, and its value unless it is deleted, in buf.
type op struct {
	head             uint64 // the eight bytes of the key behind the common prefix of the list; set by sortOps
	from, value, end uint32
	delete, once     bool
}

// listOf returns the list of a key by its tag: those of most keys have lists of their own, whose keys begin
// alike.
func listOf(tag byte) int {
	switch tag {
	case tagDue:
		return 0
	case tagRecord:
		return 1
	case tagKey:
		return 2
	}
	return 3
}

// keptBuf limits the buffer that is kept between batches.
const keptBuf = 4 << 20

func (o *ops) resetOps() {
	if cap(o.buf) > keptBuf {
		o.buf = nil
	}
	o.buf = o.buf[:0]
	for i := range o.lists {
		o.lists[i] = o.lists[i][:0]
	}
}

func (o *ops) hasNoOps() bool {
	for i := range o.lists {
		if len(o.lists[i]) > 0 {
			return false
		}
	}
	return true
}

// estimateSize returns about how many bytes the operations take in a batch.
func (o *ops) estimateSize() int {
	n := 64 + len(o.buf)
	for i := range o.lists {
		n += 8 * len(o.lists[i])
	}
	return n
}

func (o *ops) appendOp(p op) {
	list := &o.lists[listOf(o.buf[p.from])]
	*list = append(*list, p)
}

// setKey adds a key and its value; the functions append them to the buffer.
func (o *ops) setKey(key, value func(b []byte) []byte) {
	from := len(o.buf)
	o.buf = key(o.buf)
	at := len(o.buf)
	o.buf = value(o.buf)
	o.appendOp(op{from: uint32(from), value: uint32(at), end: uint32(len(o.buf))})
}

// deleteKey adds a key to delete.
func (o *ops) deleteKey(key func(b []byte) []byte) { o.deleteSet(false, key) }

// deleteSet adds a key to delete. once means that it was set exactly once since it was last deleted: then it
// leaves no tombstone, and the next flush or compaction that has both drops them. For a key that was set more
// often, that would bring back its earlier value.
func (o *ops) deleteSet(once bool, key func(b []byte) []byte) {
	from := len(o.buf)
	o.buf = key(o.buf)
	end := uint32(len(o.buf))
	o.appendOp(op{from: uint32(from), value: end, end: end, delete: true, once: once})
}

func (o *ops) keyOfOp(p *op) []byte { return o.buf[p.from:p.value] }

// sortOps sorts a list by the keys; operations on the same key keep their order. Most comparisons are of the
// heads.
func (o *ops) sortOps(list []op) {
	if len(list) < 2 {
		return
	}
	first := o.keyOfOp(&list[0])
	same := len(first) // bytes that all keys begin with
	for i := range list {
		key := o.keyOfOp(&list[i])
		same = min(same, len(key))
		if !bytes.Equal(key[:same], first[:same]) {
			same = commonPrefix(key[:same], first[:same])
		}
	}
	for i := range list {
		var head [8]byte // zeros behind the end of a short key: Compare decides between equal heads
		copy(head[:], o.keyOfOp(&list[i])[same:])
		list[i].head = binary.BigEndian.Uint64(head[:])
	}
	if len(list) < fewOps {
		slices.SortFunc(list, func(a, b op) int {
			if a.head != b.head {
				return cmp.Compare(a.head, b.head)
			}
			return o.compareOps(a, b)
		})
		return
	}
	o.sortHeads(list)
	for i := 0; i < len(list); {
		from := i
		for i++; i < len(list) && list[i].head == list[from].head; i++ {
		}
		if i-from > 1 {
			slices.SortFunc(list[from:i], o.compareOps)
		}
	}
}

// compareOps orders operations with equal heads.
func (o *ops) compareOps(a, b op) int {
	if c := bytes.Compare(o.buf[a.from:a.value], o.buf[b.from:b.value]); c != 0 {
		return c
	}
	return cmp.Compare(a.from, b.from)
}

// fewOps is the length of a list from which sorting by digits is faster than by comparing.
const fewOps = 256

// sortHeads sorts a list by the heads alone, byte by byte from the last one, without the bytes that all have
// in common.
func (o *ops) sortHeads(list []op) {
	var counts [8][256]uint32
	for i := range list {
		h := list[i].head
		for digit := range counts {
			counts[digit][byte(h>>(8*digit))]++
		}
	}
	o.spare = slices.Grow(o.spare[:0], len(list))[:len(list)]
	from, to := list, o.spare
	for digit := range counts {
		count := &counts[digit]
		if count[byte(from[0].head>>(8*digit))] == uint32(len(list)) {
			continue
		}
		at := uint32(0)
		for i := range count {
			count[i], at = at, at+count[i]
		}
		for i := range from {
			next := &count[byte(from[i].head>>(8*digit))]
			to[*next] = from[i]
			*next++
		}
		from, to = to, from
	}
	if &from[0] != &list[0] {
		copy(list, from)
	}
}

func commonPrefix(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// writeOps writes all operations to a batch. Operations on the same key keep their order.
func (o *ops) writeOps(batch *lsm.Batch) error {
	for _, list := range o.lists {
		o.sortOps(list)
		for i := range list {
			var err error
			switch p := &list[i]; {
			case p.once:
				err = batch.SingleDelete(o.keyOfOp(p), nil)
			case p.delete:
				err = batch.Delete(o.keyOfOp(p), nil)
			default:
				err = batch.Set(o.keyOfOp(p), o.buf[p.value:p.end], nil)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// appendNothing is the value of keys without content.
func appendNothing(b []byte) []byte { return b }
