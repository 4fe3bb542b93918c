package postgres

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rousehq/rouse"
)

// The actions of a statement on an entry.
const (
	actPut    = 1 // create in a plain statement
	actUpdate = 2 // in a plain statement
	actDelete = 3
	actKeep   = 4
)

// entry is one key of a statement: of a change, or of an additional row.
type entry struct {
	key   rouse.Key
	row   *rouse.Row // nil if it is removed or kept
	act   int
	cond  int64
	off   int // its number in the statement: for its revision, and in the answer
	owner int // of an additional row: the off of its change; -1 of a change
}

// part is a statement: consecutive changes without a duplicate key.
type part struct {
	changes []rouse.Change
	offs    []int // of the changes' entries
	entries []entry
	plain   bool
	logs    int
}

// The limits of a statement. blockSize is the size of the sequence's blocks of revisions.
const (
	blockSize = 65536
	partBytes = 32 << 20
)

// splitChanges makes the smallest number of statements, in the order of the changes.
func splitChanges(changes []rouse.Change) ([]*part, error) {
	whole, err := newPart(changes)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	if whole != nil {
		return []*part{whole}, nil
	}
	var parts []*part
	seen := map[rouse.Key]bool{}
	first, used, bytes := 0, 0, 0
	end := func(i int) error {
		p, err := newPart(changes[first:i])
		if err != nil {
			return err
		}
		parts, first, used, bytes = append(parts, p), i, 0, 0
		clear(seen)
		return nil
	}
	for i := range changes {
		c := &changes[i]
		met := seen[c.Key]
		for j := range c.Also {
			met = met || seen[c.Also[j].Key]
		}
		n, size := changeWeight(c)
		if first < i && (met || used+n > blockSize || bytes+size > partBytes) {
			if err := end(i); err != nil {
				return nil, err
			}
		}
		seen[c.Key] = true
		for j := range c.Also {
			seen[c.Also[j].Key] = true
		}
		used, bytes = used+n, bytes+size
	}
	return parts, end(len(changes))
}

// changeWeight returns how many revisions a change takes, and an estimate of its bytes.
func changeWeight(c *rouse.Change) (revisions, bytes int) {
	revisions = 1 + len(c.Also) + len(c.Log)
	if c.To != nil {
		bytes = len(c.To.Body)
	}
	for i := range c.Also {
		bytes += len(c.Also[i].Body)
	}
	for i := range c.Log {
		bytes += len(c.Log[i].Reason) + 256*len(c.Log[i].Failures)
	}
	return revisions, bytes + revisions*128
}

// newPart makes a statement of changes; nil if they need more than one.
func newPart(changes []rouse.Change) (*part, error) {
	p := &part{changes: changes, plain: true, offs: make([]int, len(changes)), entries: make([]entry, 0, len(changes))}
	off, bytes := 0, 0
	for i := range changes {
		c := &changes[i]
		n, size := changeWeight(c)
		if off+n > blockSize {
			if i == 0 {
				return nil, fmt.Errorf("a change writes %d rows and records; write at most %d", n, blockSize)
			}
			return nil, nil
		}
		if bytes += size; bytes > partBytes && i > 0 {
			return nil, nil
		}
		e := entry{key: c.Key, row: c.To, cond: int64(c.If), off: off, owner: -1}
		switch {
		case c.Keep:
			e.act, e.row, p.plain = actKeep, nil, false
		case c.To == nil:
			e.act = actDelete
			p.plain = p.plain && c.If != rouse.NoRow
		default:
			e.act = actPut
		}
		p.plain = p.plain && c.If != rouse.AnyRevision && len(c.Also) == 0
		own := len(p.entries)
		p.entries = append(p.entries, e)
		for j := range c.Also {
			p.addRow(own, &c.Also[j], off+1+j)
		}
		p.offs[i] = p.entries[own].off
		for j := own + 1; j < len(p.entries); j++ {
			p.entries[j].owner = p.offs[i]
		}
		off += n
		p.logs += len(c.Log)
	}
	slices.SortFunc(p.entries, func(a, b entry) int { return cmp.Or(a.key.Compare(b.key), a.off-b.off) })
	for i := 1; i < len(p.entries); i++ {
		if p.entries[i].key == p.entries[i-1].key {
			return nil, nil
		}
	}
	if p.plain {
		for i := range p.entries {
			if e := &p.entries[i]; e.act == actPut && e.cond != int64(rouse.NoRow) {
				e.act = actUpdate
			}
		}
	}
	return p, nil
}

// addRow adds an additional row of the change whose entry is at own. If it has a key of the same change, it
// replaces the earlier row, which still uses its number, but is never visible.
func (p *part) addRow(own int, row *rouse.Row, off int) {
	for i := own; i < len(p.entries); i++ {
		if e := &p.entries[i]; e.key == row.Key {
			e.row, e.act, e.off = row, actPut, off
			return
		}
	}
	p.entries = append(p.entries, entry{key: row.Key, row: row, act: actPut, off: off})
}

// buildStatement builds the statement. A bold one fails if a row that it creates exists.
func (p *part) buildStatement(sql *texts, writer int64, bold bool) (*call, error) {
	text := sql.full
	if p.plain {
		text = sql.plain
	}
	c := newCall(text)
	if err := p.addRows(c); err != nil {
		return nil, err
	}
	of := newInt4Array(p.logs)
	for i := range p.changes {
		for range p.changes[i].Log {
			of.appendInt4(p.offs[i])
		}
	}
	c.addArray(of)
	p.addLogs(c)
	c.addInt4(int(writer))
	if p.plain {
		c.addBool(bold)
	} else {
		c.addArray(p.entryOwners())
	}
	return c, nil
}

// addRows adds the entries to a statement.
func (p *part) addRows(c *call) error {
	n, rows, size := len(p.entries), 0, 0
	for i := range p.entries {
		if r := p.entries[i].row; r != nil {
			rows, size = n, size+len(r.Body)
		}
	}
	acts, offs, conds := newInt2Array(n), newInt4Array(n), newInt8Array(n)
	namespaces, names, fires := newTextArray(n, 16), newTextArray(n, 32), newTextArray(n, 0)
	buckets, visibles, generations, dues := newInt8Array(rows), newInt8Array(rows), newInt8Array(rows), newInt8Array(rows)
	states, criticalities := newInt2Array(rows), newInt2Array(rows)
	labels, bodies := newTextArray(rows, 0), newByteaArray(rows, size/max(1, n))
	for i := range p.entries {
		e := &p.entries[i]
		acts.appendInt2(e.act)
		offs.appendInt4(e.off)
		conds.appendInt8(e.cond)
		namespaces.appendString(e.key.Namespace)
		names.appendString(e.key.Name)
		fires.appendString(e.key.Fire)
		if rows == 0 {
			continue
		}
		if e.row == nil {
			for _, a := range []*array{buckets, visibles, generations, dues, states, criticalities, labels, bodies} {
				a.addNull()
			}
			continue
		}
		r := e.row
		buckets.appendInt8(int64(r.Bucket))
		visibles.appendInt8(int64(r.Visible))
		generations.appendInt8(int64(r.Generation))
		dues.appendInt8(int64(r.Due))
		states.appendInt2(int(r.State))
		criticalities.appendInt2(int(r.Criticality))
		bodies.appendBytea(r.Body)
		text, err := writeLabels(r.Labels)
		switch {
		case err != nil:
			return err
		case text == "":
			labels.addNull()
		default:
			labels.appendString(text)
		}
	}
	c.addArrays(acts, offs, namespaces, names, fires, conds, buckets, visibles, generations, states, dues, criticalities,
		labels, bodies)
	return nil
}

// addLogs adds the records to a statement, and returns how many are of each hour.
func (p *part) addLogs(c *call) (hours map[int64]int64) {
	offs, namespaces, names, ended, bodies := newInt4Array(p.logs), newTextArray(p.logs, 16), newTextArray(p.logs, 32),
		newInt8Array(p.logs), newByteaArray(p.logs, 64)
	hours = map[int64]int64{}
	off := 0
	var scratch []byte
	for i := range p.changes {
		change := &p.changes[i]
		for j := range change.Log {
			r := &change.Log[j]
			offs.appendInt4(off + 1 + len(change.Also) + j)
			namespaces.appendString(r.Namespace)
			names.appendString(r.Name)
			ended.appendInt8(int64(r.Ended))
			scratch = rouse.AppendRecord(scratch[:0], r)
			bodies.appendBytea(scratch)
			hours[int64(r.Ended)/hourMillis]++
		}
		n, _ := changeWeight(change)
		off += n
	}
	c.addArrays(offs, namespaces, names, ended, bodies)
	return hours
}

// entryOwners returns for each entry the position of its change, counting from 1 as SQL does; 0 for changes.
func (p *part) entryOwners() *array {
	at := make(map[int]int, len(p.changes))
	for i := range p.entries {
		if p.entries[i].owner < 0 {
			at[p.entries[i].off] = i + 1
		}
	}
	out := newInt4Array(len(p.entries))
	for i := range p.entries {
		out.appendInt4(at[p.entries[i].owner])
	}
	return out
}

// parseResults parses the answer to the statement.
func (p *part) parseResults(row [][]byte, to []rouse.Result) error {
	if len(row) < 3 || !p.plain && len(row) < 5 {
		return errShort
	}
	base := uint64(readInt(row[0]))
	refused, err := readPairs(row[1], row[2])
	if err != nil {
		return err
	}
	var had map[int64]int64
	if !p.plain {
		if had, err = readPairs(row[3], row[4]); err != nil {
			return err
		}
	}
	p.setResults(base, refused, had, to)
	return nil
}

// setResults sets the results: base is the block of revisions, refused has the revisions that refused changes
// met, and had the previous ones of others, if their conditions do not contain them.
func (p *part) setResults(base uint64, refused, had map[int64]int64, to []rouse.Result) {
	off := 0
	for i := range p.changes {
		c := &p.changes[i]
		at := int64(p.offs[i])
		if revision, no := refused[at]; no {
			to[i] = rouse.Result{Revision: uint64(revision), Existed: revision != 0}
		} else {
			to[i] = p.appliedResult(c, base+uint64(off), uint64(had[at]))
		}
		n, _ := changeWeight(c)
		off += n
	}
}

// appliedResult returns the result of a change that was made. revision is the revision of the row that it
// wrote, and had the previous one, if the condition does not contain it.
func (p *part) appliedResult(c *rouse.Change, revision, had uint64) rouse.Result {
	if c.If != rouse.AnyRevision {
		had = c.If
	}
	res := rouse.Result{Applied: true, Existed: had != 0}
	switch {
	case c.Keep:
		res.Revision = had
	case c.To != nil:
		res.Revision = revision
	}
	if len(c.Also) > 0 {
		res.Also = revision + 1
	}
	return res
}

func readPairs(keys, values []byte) (map[int64]int64, error) {
	k, err := readInts(keys)
	if err != nil || len(k) == 0 {
		return nil, err
	}
	v, err := readInts(values)
	if err != nil || len(v) != len(k) {
		return nil, errShort
	}
	out := make(map[int64]int64, len(k))
	for i := range k {
		out[k[i]] = v[i]
	}
	return out, nil
}
