package pebble

import (
	"encoding/binary"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// countKey identifies a counter: the rows of a namespace in a state.
type countKey struct {
	namespace string
	state     rouse.State
}

func (k countKey) appendCountKey(b []byte) []byte {
	return append(append(b, tagCount, byte(k.state)), k.namespace...)
}

// counts caches recently used counters, so that a batch writes them without reading them. Only the writer
// that has the store's turn may use it.
type counts struct {
	db   *lsm.DB
	near map[countKey]int64
}

// maxCounts limits the cached counters; when there are more, the cache is cleared.
const maxCounts = 1 << 14

func (c *counts) init(db *lsm.DB) { *c = counts{db: db, near: map[countKey]int64{}} }

func (c *counts) resetCounts() { clear(c.near) }

// writeCounts adds changes to counters.
func (c *counts) writeCounts(o *ops, changes map[countKey]int64) error {
	if len(c.near) > maxCounts {
		c.resetCounts()
	}
	var key [80]byte
	for k, d := range changes {
		if d == 0 {
			continue
		}
		name := k.appendCountKey(key[:0])
		n, ok := c.near[k]
		if !ok {
			value, err := getValue(c.db, name)
			if err != nil {
				return err
			}
			if n, err = readCount(value); err != nil {
				return err
			}
		}
		n += d
		if n == 0 {
			c.near[k] = 0 // kept, as the next change would search for it among the tombstones of all its deletes
			o.deleteKey(func(b []byte) []byte { return append(b, name...) })
			continue
		}
		c.near[k] = n
		o.setKey(func(b []byte) []byte { return append(b, name...) },
			func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) })
	}
	return nil
}

func readCount(value []byte) (int64, error) {
	if value == nil {
		return 0, nil
	}
	n, err := readFixed(value)
	return int64(n), err
}
