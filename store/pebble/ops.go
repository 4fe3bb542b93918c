package pebble

import (
	"bytes"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"
)

// ops collects the keys that a batch sets and deletes, and passes them to Pebble in the order of the keys.
// Adjacent keys are adjacent in the memtable: a batch of timers due one after another is written at twice the
// speed of alternating d and k keys.
type ops struct {
	buf  []byte // keys and values, one after another
	list []op
}

// op is a key, and its value unless it is deleted, in buf.
type op struct {
	from, value, end int
	delete, once     bool
}

// keptBuf limits the buffer that is kept between batches.
const keptBuf = 4 << 20

func (o *ops) reset() {
	if cap(o.buf) > keptBuf {
		o.buf = nil
	}
	o.buf, o.list = o.buf[:0], o.list[:0]
}

// set adds a key and its value; the functions append them to the buffer.
func (o *ops) set(key, value func(b []byte) []byte) {
	from := len(o.buf)
	o.buf = key(o.buf)
	at := len(o.buf)
	o.buf = value(o.buf)
	o.list = append(o.list, op{from: from, value: at, end: len(o.buf)})
}

// delete adds a key to delete.
func (o *ops) delete(key func(b []byte) []byte) { o.deleteSet(false, key) }

// deleteSet adds a key to delete. once means that it was set exactly once since it was last deleted: then it leaves no tombstone, and the
// next flush or compaction that has both drops them. For a key that was set more often, that would bring back its earlier value.
func (o *ops) deleteSet(once bool, key func(b []byte) []byte) {
	from := len(o.buf)
	o.buf = key(o.buf)
	o.list = append(o.list, op{from: from, value: len(o.buf), end: len(o.buf), delete: true, once: once})
}

func (o *ops) key(p op) []byte { return o.buf[p.from:p.value] }

// write writes all operations to a batch. Operations on the same key keep their order.
func (o *ops) write(batch *lsm.Batch) error {
	slices.SortFunc(o.list, func(a, b op) int {
		if c := bytes.Compare(o.key(a), o.key(b)); c != 0 {
			return c
		}
		return a.from - b.from
	})
	for _, p := range o.list {
		var err error
		switch {
		case p.once:
			err = batch.SingleDelete(o.key(p), nil)
		case p.delete:
			err = batch.Delete(o.key(p), nil)
		default:
			err = batch.Set(o.key(p), o.buf[p.value:p.end], nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty is the value of keys without content.
func empty(b []byte) []byte { return b }
