package pebble

import (
	"bytes"
	"context"
	"errors"

	lsm "github.com/cockroachdb/pebble/v2"
)

// names finds most new keys without reading the tree, because most creates have a new name. It counts rows in
// cells by the hash of their key: a key whose cell is empty has no row. A cell is half a byte; a full cell
// stays full. With more rows, more cells are used and more creates read the tree: 6 of 100 at a million rows,
// 45 at ten million.
//
// When a store is opened, its rows are counted in the background, in the order of their keys.
type names struct {
	cells   []uint8
	counted []byte // the k keys before this one are counted
	all     bool   // all are
	hasher  *hasher
}

// The number of cells, the number of rows that are counted at most when a store is opened (with more, the
// cells would be of little use), and how many of them at once, while no writer may write.
const (
	nameCells = 16 << 20
	mostNames = 4 << 20
	namesStep = 1024
)

func (n *names) init(h *hasher) {
	*n = names{cells: make([]uint8, nameCells/2), counted: []byte{tagKey}, hasher: h}
}

// surelyAbsent reports whether a key has no row for sure.
func (n *names) surelyAbsent(h hash) bool {
	return n.all && n.cells != nil && n.readCell(h) == 0
}

// prefetchCell reads the cell of a key. The value means nothing.
func (n *names) prefetchCell(h hash) uint64 {
	if n.cells == nil {
		return 0
	}
	return uint64(n.cells[(h[1]&(nameCells-1))/2])
}

func (n *names) readCell(h hash) uint8 {
	i := h[1] & (nameCells - 1)
	return n.cells[i/2] >> (4 * (i & 1)) & 15
}

// countName counts a row, or with false discounts it.
func (n *names) countName(h hash, one bool) {
	i := h[1] & (nameCells - 1)
	unit := uint8(1) << (4 * (i & 1))
	switch c := n.readCell(h); {
	case c == 15: // it may be more
	case one:
		n.cells[i/2] += unit
	case c > 0:
		n.cells[i/2] -= unit
	}
}

// countBatch counts the changes of a batch.
func (n *names) countBatch(t *touched) {
	if n.cells == nil {
		return
	}
	var key []byte
	for i := range t.list {
		e := &t.list[i]
		if e.existed == e.place.exists {
			continue
		}
		if !n.all {
			if key = appendKeyKey(key[:0], e.key); bytes.Compare(key, n.counted) >= 0 {
				continue // it will be counted
			}
		}
		n.countName(e.h, e.place.exists)
	}
}

// countNextRows counts the next rows. It returns how many, 0 if that were all.
func (n *names) countNextRows(db *lsm.DB) (count int, err error) {
	it, err := db.NewIter(&lsm.IterOptions{LowerBound: n.counted, UpperBound: []byte{tagKey + 1}})
	if err != nil {
		return 0, err
	}
	ok := it.First()
	for ; ok && count < namesStep; ok = it.Next() {
		key, err := splitKey(it.Key()[1:])
		if err != nil {
			return 0, errors.Join(err, it.Close())
		}
		n.countName(n.hasher.hashRowKey(key), true)
		count++
	}
	if ok {
		n.counted = bytes.Clone(it.Key())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return 0, err
	}
	n.all = !ok
	return count, nil
}

// countNames counts the rows that the store had when it was opened.
func (s *Store) countNames() {
	for total := 0; ; {
		n, all, err := s.countSome(total)
		if total += n; all || err != nil {
			return
		}
	}
}

// countSome counts the next rows, of which total are counted. It returns an error if the store is being
// closed.
func (s *Store) countSome(total int) (count int, all bool, err error) {
	if err := s.beginStoreCall(context.Background()); err != nil {
		return 0, false, err
	}
	defer s.life.RUnlock()
	select {
	case s.turn <- struct{}{}:
	case <-s.room.leaving:
		return 0, false, errors.New("closing")
	}
	defer s.turn.Release()
	n := &s.write.names
	if count, err = n.countNextRows(s.db); err != nil || total+count > mostNames {
		n.cells = nil
		return count, true, s.faults.Note(err)
	}
	return count, n.all, nil
}
