package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// source returns keys (as suffixes) in their order.
type source interface {
	// seekSuffix returns the first suffix at or after the given one, and the place's value if the source has
	// it; nil at the end. The given suffixes must not decrease.
	seekSuffix(suffix []byte) (at, value []byte, err error)
	closeSource() error
}

// planSources chooses the sources to intersect: the indexes by label, and by state unless scheduled rows are
// included; otherwise the keys themselves.
func planSources(r lsm.Reader, q *rouse.Query) (sources []source, err error) {
	add := func(prefix []byte) error {
		l, err := openIndex(r, prefix)
		if err == nil {
			sources = append(sources, l)
		}
		return err
	}
	if q.Name == "" {
		for k, v := range q.Labels {
			if err := add(appendLabelHead(nil, k, v)); err != nil {
				return sources, err
			}
		}
		if all := queryStates(q); all[0] != rouse.StateScheduled && len(q.States) > 0 {
			u := &union{}
			sources = append(sources, u)
			for _, state := range all {
				l, err := openIndex(r, []byte{tagState, byte(state)})
				if err != nil {
					return sources, err
				}
				u.of = append(u.of, l)
			}
		}
	}
	if len(sources) == 0 && q.Name == "" && (q.DueFrom != 0 || q.DueUntil != 0) {
		if near, ok, err := dueNear(r, q); ok || err != nil {
			return append(sources, near), err
		}
	}
	if len(sources) == 0 {
		err = add([]byte{tagKey})
	}
	return sources, err
}

// maxNear is how many rows dueNear collects. If more may match, they are so frequent that a page has enough
// of them in the order of keys.
var maxNear = 1 << 16 // variable for tests

// dueNear returns the keys of all rows that may be due in the query's range: those that are visible in it or
// soon after it, those that are not near their due time, and those in other states. ok is false if there are
// too many, or if the store does not know all of them.
func dueNear(r lsm.Reader, q *rouse.Query) (found *list, ok bool, err error) {
	if known, err := keyExists(r, asideKey); !known || err != nil {
		return nil, false, err
	}
	found = &list{first: startOf(q, rouse.Key{}), bound: boundOf(q)}
	for _, state := range queryStates(q) {
		if state == rouse.StateScheduled {
			state = stateAside
		}
		if ok, err := found.addIndexed(r, []byte{tagState, byte(state)}); !ok || err != nil {
			return nil, false, err
		}
	}
	if ok, err := found.addVisible(r, q); !ok || err != nil {
		return nil, false, err
	}
	slices.SortFunc(found.suffixes, bytes.Compare)
	return found, true, nil
}

// list is a source of suffixes in their order. A suffix may be in it twice.
type list struct {
	first, bound []byte // of the query
	suffixes     [][]byte
	looks        int
	at           int
	memory       []byte
}

// addSuffix adds a suffix, if it can match.
func (l *list) addSuffix(suffix []byte) (more bool) {
	l.looks++
	if bytes.Compare(suffix, l.first) < 0 || l.bound != nil && bytes.Compare(suffix, l.bound) >= 0 {
		return l.looks <= 4*maxNear
	}
	n := len(l.memory)
	if cap(l.memory)-n < len(suffix) {
		l.memory, n = make([]byte, 0, max(1<<16, len(suffix))), 0 // the suffixes keep the previous one
	}
	l.memory = append(l.memory, suffix...)
	l.suffixes = append(l.suffixes, l.memory[n:len(l.memory):len(l.memory)])
	return len(l.suffixes) <= maxNear && l.looks <= 4*maxNear
}

// addIndexed adds the keys of an index by state. ok is false if they are too many.
func (l *list) addIndexed(r lsm.Reader, prefix []byte) (ok bool, err error) {
	it, err := r.NewIter(&lsm.IterOptions{LowerBound: slices.Concat(prefix, l.first),
		UpperBound: keyAfterPrefix(slices.Concat(prefix, l.bound))})
	if err != nil {
		return false, err
	}
	ok = true
	for it.First(); it.Valid() && ok; it.Next() {
		ok = l.addSuffix(it.Key()[len(prefix):])
	}
	return ok, it.Close()
}

// addVisible adds the rows of all buckets that are visible from the query's first due time until nearDue
// after its last one.
func (l *list) addVisible(r lsm.Reader, q *rouse.Query) (ok bool, err error) {
	it, err := r.NewIter(&lsm.IterOptions{LowerBound: []byte{tagDue}, UpperBound: []byte{tagDue + 1}})
	if err != nil {
		return false, err
	}
	from, until := rouse.Instant(math.MinInt64), rouse.Never
	if q.DueFrom != 0 {
		from = q.DueFrom
	}
	if q.DueUntil != 0 {
		until = q.DueUntil.Add(nearDue) // at most Never
	}
	ok = true
	var seek []byte
	for it.First(); it.Valid() && ok; {
		if len(it.Key()) < dueHead {
			return false, errors.Join(errDamaged, it.Close())
		}
		bucket := binary.BigEndian.Uint32(it.Key()[1:])
		end := appendDueTime(nil, bucket, until)
		if until == rouse.Never {
			end = keyAfterPrefix(end[:5])
		}
		seek = appendDueTime(seek[:0], bucket, from)
		for it.SeekGE(seek); it.Valid() && ok && bytes.Compare(it.Key(), end) < 0; it.Next() {
			ok = l.addSuffix(it.Key()[dueHead:])
		}
		if bucket == math.MaxUint32 {
			break
		}
		seek = appendDueTime(seek[:0], bucket+1, math.MinInt64)
		it.SeekGE(seek)
	}
	return ok, it.Close()
}

func (l *list) seekSuffix(suffix []byte) (at, value []byte, err error) {
	for ; l.at < len(l.suffixes); l.at++ {
		if at := l.suffixes[l.at]; bytes.Compare(at, suffix) >= 0 {
			return at, nil, nil
		}
	}
	return nil, nil, nil
}

func (l *list) closeSource() error { return nil }

// intersectSources returns the first suffix at or after start that all sources have: each source skips to the
// position of the furthest one.
func intersectSources(sources []source, start []byte) (at, value []byte, err error) {
	want := start
	for agreed := 0; agreed < len(sources); {
		for _, s := range sources {
			at, value, err = s.seekSuffix(want)
			if err != nil || at == nil {
				return nil, nil, err
			}
			if bytes.Equal(at, want) {
				agreed++
			} else {
				agreed, want = 1, at
			}
			if agreed == len(sources) {
				break
			}
		}
	}
	return at, value, nil
}

// index is a source of the keys with a prefix.
type index struct {
	it     *lsm.Iterator
	prefix int
	values bool
	from   []byte
}

func openIndex(r lsm.Reader, prefix []byte) (*index, error) {
	it, err := r.NewIter(&lsm.IterOptions{LowerBound: prefix, UpperBound: keyAfterPrefix(prefix)})
	if err != nil {
		return nil, err
	}
	return &index{it: it, prefix: len(prefix), values: prefix[0] == tagKey, from: bytes.Clone(prefix)}, nil
}

func (l *index) seekSuffix(suffix []byte) (at, value []byte, err error) {
	l.from = append(l.from[:l.prefix], suffix...)
	// Usually the key is the current one, or the next.
	if !l.it.Valid() || bytes.Compare(l.it.Key(), l.from) < 0 {
		if !l.it.Valid() || !l.it.Next() || bytes.Compare(l.it.Key(), l.from) < 0 {
			l.it.SeekGE(l.from)
		}
	}
	if !l.it.Valid() {
		return nil, nil, l.it.Error()
	}
	if l.values {
		if value, err = l.it.ValueAndErr(); err != nil {
			return nil, nil, err
		}
	}
	return l.it.Key()[l.prefix:], value, nil
}

func (l *index) closeSource() error { return l.it.Close() }

// union is a source of the keys that any of several sources has.
type union struct{ of []*index }

func (u *union) seekSuffix(suffix []byte) (first, _ []byte, err error) {
	for _, l := range u.of {
		at, _, err := l.seekSuffix(suffix)
		if err != nil {
			return nil, nil, err
		}
		if at != nil && (first == nil || bytes.Compare(at, first) < 0) {
			first = at
		}
	}
	return first, nil, nil
}

func (u *union) closeSource() (err error) {
	for _, l := range u.of {
		if e := l.closeSource(); err == nil {
			err = e
		}
	}
	return err
}
