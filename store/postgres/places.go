package postgres

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/rousehq/rouse"
)

// places remembers where in its table a row is that this store wrote or read last, so that the next check and
// the next write need not search it by its key. It is a hint: a row counts only if it has the revision that
// it had there. A row that is not remembered is searched.
type places struct {
	mu   sync.Mutex
	seed maphash.Seed
	sets [][setPlaces]place // nil until the first row
}

// The memory is a table of sets, of 6 MiB, of which the system provides the used part. A key has its place in
// one of them, and replaces an older one there.
const (
	maxPlaces = 1 << 18
	setPlaces = 2
	placeSets = maxPlaces / setPlaces
)

// place is where a row is. tid is the number of the table's page, shifted by 16 bits, and the row's number in
// it.
type place struct{ key, revision, tid uint64 }

const tidSize = 6

func (a *array) appendTID(v uint64) {
	a.appendSize(tidSize)
	a.buf = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(a.buf, uint32(v>>16)), uint16(v))
}

func readTid(b []byte) uint64 {
	if len(b) != tidSize {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(b))<<16 | uint64(binary.BigEndian.Uint16(b[4:]))
}

// readTids parses an array of tids without nulls; NULL is empty.
func readTids(b []byte) (list []uint64) {
	if len(b) < arrayHeader {
		return nil
	}
	for b = b[arrayHeader:]; len(b) >= 4+tidSize; b = b[4+tidSize:] {
		list = append(list, readTid(b[4:4+tidSize]))
	}
	return list
}

// findPlace returns the set of a key, and its place there, or the one to use for it. The caller holds mu.
func (m *places) findPlace(k *rouse.Key) (hash uint64, at *place) {
	if m.sets == nil {
		m.seed, m.sets = maphash.MakeSeed(), make([][setPlaces]place, placeSets)
	}
	hash = maphash.Comparable(m.seed, *k)
	set := &m.sets[hash%placeSets]
	at = &set[0]
	for i := range set {
		if set[i].key == hash {
			return hash, &set[i]
		}
		if set[i].revision < at.revision {
			at = &set[i]
		}
	}
	return hash, at
}

// placesOfKeys returns the revisions that the rows of keys had, 0 if it does not remember them, and the
// places of the others.
func (m *places) placesOfKeys(keys []rouse.Key) (revisions []uint64, at *array) {
	revisions, at = make([]uint64, len(keys)), newTIDArray(len(keys))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range keys {
		if hash, p := m.findPlace(&keys[i]); p.key == hash && p.revision != 0 {
			revisions[i] = p.revision
			at.appendTID(p.tid)
		}
	}
	return revisions, at
}

// ofEntries returns the places of rows to update or to delete that have the revisions of the conditions; NULL
// for those that it does not remember.
func (m *places) ofEntries(entries []entry) *array {
	at := newTIDArray(len(entries))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if e.act == actPut {
			at.appendTID(0)
		} else if hash, p := m.findPlace(&e.key); p.key == hash && p.revision == uint64(e.cond) {
			at.appendTID(p.tid)
		} else {
			at.addNull()
		}
	}
	return at
}

// rememberRead remembers rows that were read, with their tids.
func (m *places) rememberRead(rows []rouse.Row, tids []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range rows {
		if hash, p := m.findPlace(&rows[i].Key); p.key != hash || p.revision < rows[i].Revision {
			*p = place{hash, rows[i].Revision, tids[i]}
		}
	}
}

// rememberWrites remembers the rows of entries that were written: with the block of their revisions, and the
// tids of created and of updated ones, in the order of the entries.
func (m *places) rememberWrites(entries []entry, base uint64, created, updated []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		hash, p := m.findPlace(&e.key)
		list := &created
		switch {
		case e.act == actDelete:
			if p.key == hash {
				*p = place{}
			}
			continue
		case e.act == actUpdate:
			list = &updated
		}
		if len(*list) > 0 {
			*p = place{hash, base + uint64(e.off), (*list)[0]}
			*list = (*list)[1:]
		}
	}
}

// tryAt writes a plain part, if no change of it is refused.
func (s *Store) tryAt(ctx context.Context, p *part, writer int64, results []rouse.Result) error {
	c := newCall(s.sql.at)
	if err := p.addRows(c); err != nil {
		return err
	}
	hours, hourCounts := newInt8Array(1), newInt8Array(1)
	for hour, n := range p.addLogs(c) {
		hours.appendInt8(hour)
		hourCounts.appendInt8(n)
	}
	c.addArrays(hours, hourCounts, s.places.ofEntries(p.entries))
	p.addTally(c)
	c.addInt4(int(writer))
	return s.writePart(ctx, p, []*call{c}, func(row [][]byte) error {
		if len(row) != 3 {
			return errShort
		}
		base := readInt(row[0])
		p.setResults(uint64(base), nil, nil, results)
		s.places.rememberWrites(p.entries, uint64(base), readTids(row[1]), readTids(row[2]))
		return nil
	})
}

// addTally adds how many rows are created in each namespace and state.
func (p *part) addTally(c *call) {
	type group struct {
		namespace string
		state     rouse.State
	}
	counts := map[group]int64{}
	for i := range p.entries {
		if e := &p.entries[i]; e.act == actPut {
			counts[group{e.key.Namespace, e.row.State}]++
		}
	}
	namespaces, states, n := newTextArray(len(counts), 16), newInt2Array(len(counts)), newInt8Array(len(counts))
	for g, count := range counts {
		namespaces.appendString(g.namespace)
		states.appendInt2(int(g.state))
		n.appendInt8(count)
	}
	c.addArrays(namespaces, states, n)
}
