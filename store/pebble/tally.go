package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
)

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Tally returns how many rows a checkpoint has in each state, and how many records, without changing it. No
// process may have it open. It reads the whole checkpoint, and fails with rouse.ErrCorrupt if a part cannot
// be read, or if rows, indexes, counters and records do not agree.
func Tally(ctx context.Context, dir string) (rows map[rouse.State]int64, records int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store %s: %w", dir, addCure(err))
		}
	}()
	h, err := inspectDir(vfs.Default, dir)
	if err != nil || h.fresh {
		if err == nil {
			err = lsm.ErrDBDoesNotExist
		}
		return nil, 0, err
	}
	var x examined
	if h.witnessed {
		if err := x.requireWitness(vfs.Default, dir); err != nil {
			return nil, 0, err
		}
		defer func() { err = errors.Join(err, x.w.Close()) }()
	}
	if err := x.examineFiles(vfs.Default, dir); err != nil {
		return nil, 0, err
	}
	s := newStore(vfs.Default, dir, Options{Reserve: -1}.withDefaults())
	opts := s.pebbleOptions(Options{CacheBytes: 1 << 20, MemTableBytes: 16 << 20}, false)
	opts.ReadOnly = true
	db, err := lsm.Open(dir, opts)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	t, err := tallyStore(ctx, db)
	if err == nil && t.last < x.has.revision {
		err = fmt.Errorf("%w: it ends at revision %d, and revision %d was acknowledged", rouse.ErrCorrupt, t.last,
			x.has.revision)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, n := range t.hours {
		records += n
	}
	return t.counted, records, nil
}

// tally sums up all keys of a store. Values that must agree are compared as sums of hashes, which do not
// depend on the order.
type tally struct {
	last            uint64 // revision
	seed            maphash.Seed
	rows, places    uint64
	states, inState uint64
	aside           bool // all rows that are not near their due time are in the index
	labels, labeled uint64
	counted, found  map[rouse.State]int64 // by the counters, and by counting
	hours, ended    map[uint32]int64      // of records: by the counters, and by counting
}

// tallyStore reads a store from its first key to its last.
func tallyStore(ctx context.Context, db *lsm.DB) (*tally, error) {
	t := &tally{seed: maphash.MakeSeed(), counted: map[rouse.State]int64{}, found: map[rouse.State]int64{},
		hours: map[uint32]int64{}, ended: map[uint32]int64{}}
	it, err := db.NewIterWithContext(ctx, &lsm.IterOptions{})
	if err != nil {
		return nil, err
	}
	n := 0
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = t.tallyKey(it.Key(), value)
		}
		if n++; err == nil && n%1024 == 0 {
			err = ctx.Err()
		}
	}
	if err := errors.Join(err, it.Error(), it.Close()); err != nil {
		return nil, err
	}
	maps.DeleteFunc(t.counted, func(_ rouse.State, n int64) bool { return n == 0 })
	wrong := ""
	switch {
	case t.rows != t.places:
		wrong = "rows and their keys"
	case t.states != t.inState:
		wrong = "rows and the index by state"
	case t.labels != t.labeled:
		wrong = "rows and the index by label"
	case !maps.Equal(t.counted, t.found):
		wrong = fmt.Sprintf("%v rows by state and the counters, %v,", t.found, t.counted)
	case !maps.Equal(t.hours, t.ended):
		wrong = "records and their counters"
	default:
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s do not agree; %s", rouse.ErrCorrupt, wrong, restoreCure)
}

// tallyKey adds a key.
func (t *tally) tallyKey(key, value []byte) error {
	switch key[0] {
	case tagDue:
		near := ""
		row, err := decodeDueRow(key, value, &near)
		if err != nil {
			return err
		}
		t.found[row.State]++
		t.rows += t.hashNumbers(key[dueHead:], row.Revision, uint64(row.Bucket), uint64(row.Visible), uint64(row.Due),
			uint64(row.State))
	case tagKey:
		p, err := readPlace(value)
		if err != nil {
			return err
		}
		t.places += t.hashNumbers(key[1:], p.revision, uint64(p.bucket), uint64(p.visible), uint64(p.due), uint64(p.state))
		if p.state != rouse.StateScheduled {
			t.states += t.hashNumbers(key[1:], uint64(p.state))
		} else if t.aside && p.isAside() {
			t.states += t.hashNumbers(key[1:], uint64(stateAside))
		}
		for l, v := range p.labels {
			t.labels += t.hashNumbers(append(appendLabelHead(nil, l, v)[1:], key[1:]...))
		}
	case tagState:
		if len(key) < 2 {
			return errDamaged
		}
		if t.aside || rouse.State(key[1]) != stateAside {
			t.inState += t.hashNumbers(key[2:], uint64(key[1]))
		}
	case tagAside: // before the rows
		t.aside = true
	case tagLabel:
		t.labeled += t.hashNumbers(key[1:])
	case tagCount:
		if len(key) < 2 {
			return errDamaged
		}
		n, err := readCount(value)
		t.counted[rouse.State(key[1])] += n
		return err
	case tagRecord:
		return t.tallyRecord(key, value)
	case tagHour:
		if len(key) != 5 {
			return errDamaged
		}
		n, err := readCount(value)
		t.hours[binary.BigEndian.Uint32(key[1:])] = n
		return err
	case tagRevision:
		last, err := readFixed(value)
		t.last = last
		return err
	}
	return nil
}

func (t *tally) tallyRecord(key, value []byte) error {
	if len(key) < 5+2+16 {
		return errDamaged
	}
	if _, err := rouse.DecodeRecord(bytes.Clone(value)); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	t.ended[binary.BigEndian.Uint32(key[1:])]++
	return nil
}

func (t *tally) hashNumbers(suffix []byte, numbers ...uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	_, _ = h.Write(suffix)
	for _, n := range numbers {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], n)
		_, _ = h.Write(b[:])
	}
	return h.Sum64()
}
