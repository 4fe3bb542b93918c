package redis

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
)

// chunk contains the changes of one script call. A change is plain if it is simple and the only one of its
// key: the script makes thousands of plain changes with a few commands, and all others one by one. The order
// of plain changes does not matter as their keys differ, so they are sorted into runs.
type chunk struct {
	seen    map[string]int // written rows → how often
	changes []planned
	bytes   int
	numbers int // count of the numbers that revisions and sequences are computed from

	notes []byte    // the written rows in the format of the journal
	blobs []byte    // buffer that blobs are sliced from
	order []planned // the plain changes: creates, replacements, ends, removals
	puts  int       // how many of order are creates or replacements
	fresh int       // how many of puts are creates
	odd   []planned // the other changes
}

// way is how the script makes a change.
type way uint8

const (
	wayOdd     way = iota // one by one
	wayCreate             // a new row of a new generation, if the key has none
	wayReplace            // replaces a row of a given revision and keeps its generation, perhaps with records
	wayEnd                // removes a row of a given revision with a record of its timer, the only one
	wayRemove             // removes a row of a given revision
)

// planned is a change of a chunk.
type planned struct {
	*rouse.Change
	way    way
	place  int // index of its result
	number int // its first number: the distance of its revision from the last one given before
	member string
	slot   int64 // of an end: the slot of its record
}

// plain returns how a change is made if no other change has its key.
func plain(ch *rouse.Change) way {
	switch {
	case len(ch.Also) > 0 || ch.Keep || ch.If == rouse.AnyRevision:
	case ch.To == nil:
		if ch.If == rouse.NoRow || len(ch.Log) > 1 {
			return wayOdd
		}
		if len(ch.Log) == 0 {
			return wayRemove
		}
		if r := &ch.Log[0]; r.Namespace == ch.Key.Namespace && r.Name == ch.Key.Name && ch.Key.Fire == "" {
			return wayEnd
		}
	case ch.To.Visible >= exact:
	case ch.If == rouse.NoRow:
		if ch.To.Generation == 0 && len(ch.Log) == 0 {
			return wayCreate
		}
	case ch.To.Generation != 0:
		return wayReplace
	}
	return wayOdd
}

// take adds a change; place is the index of its result.
func (c *chunk) take(place int, ch *rouse.Change) error {
	if err := checkTexts("key", ch.Key.Namespace, ch.Key.Name, ch.Key.Fire); err != nil {
		return err
	}
	p := planned{Change: ch, way: plain(ch), place: place, number: c.numbers + 1, member: memberOf(&ch.Key)}
	c.numbers += 1 + len(ch.Also) + len(ch.Log)
	if p.way == wayEnd {
		p.slot = int64(ch.Log[0].Ended) >> slotBits
	}
	c.seen[p.member]++
	c.bytes += len(p.member)
	if ch.To != nil {
		c.bytes += sizeOf(ch.To)
	}
	for i := range ch.Also {
		k := &ch.Also[i].Key
		if err := checkTexts("key", k.Namespace, k.Name, k.Fire); err != nil {
			return err
		}
		c.seen[memberOf(k)]++
		c.bytes += sizeOf(&ch.Also[i])
	}
	for i := range ch.Log {
		r := &ch.Log[i]
		if err := checkTexts("log", r.Namespace, r.Name); err != nil {
			return err
		}
		c.bytes += 100 + len(r.Reason) + 64*len(r.Failures)
	}
	c.changes = append(c.changes, p)
	return nil
}

// sizeOf estimates the length of a row's blob.
func sizeOf(r *rouse.Row) int { return headSize + len(r.Body) + 64*len(r.Labels) }

// args returns the arguments of the script.
func (c *chunk) args(st stamp) ([]any, error) {
	byWay := [wayRemove + 1][]planned{}
	for _, p := range c.changes {
		if c.seen[p.member] > 1 {
			p.way = wayOdd
		}
		byWay[p.way] = append(byWay[p.way], p)
	}
	c.blobs = make([]byte, 0, c.bytes)
	args := make([]any, 3, 3+4*len(c.changes)+64)
	counts := make([]byte, 0, 40)
	say := func(numbers ...int) {
		for _, n := range numbers {
			counts = binary.BigEndian.AppendUint32(counts, uint32(n))
		}
	}
	for as := wayCreate; as <= wayRemove; as++ {
		list := byWay[as]
		slices.SortFunc(list, func(a, b planned) int { return cmp.Or(byRun(&a, &b), cmp.Compare(a.number, b.number)) })
		runs := 0
		var err error
		if as <= wayReplace {
			args, runs, err = c.putArgs(args, list, as)
		} else {
			args, runs = c.removeArgs(args, list, as)
		}
		if err != nil {
			return nil, err
		}
		say(len(list), runs)
		c.order = append(c.order, list...)
		if as <= wayReplace {
			c.puts = len(c.order)
		}
		if as == wayCreate {
			c.fresh = len(c.order)
		}
	}
	var o oddChanges
	c.odd = byWay[wayOdd]
	for i := range c.odd {
		if err := o.add(c, &c.odd[i]); err != nil {
			return nil, err
		}
	}
	args = append(append(args, o.keys...), o.changes...)
	args, records := c.recordArgs(args)
	say(len(o.keys), len(c.odd), records, c.numbers)
	args[0], args[1], args[2] = st.bytes(), c.notes, counts
	return args, nil
}

// byRun sorts changes so that those of one run are adjacent.
func byRun(a, b *planned) int {
	if a.Key.Namespace != b.Key.Namespace {
		return cmp.Compare(a.Key.Namespace, b.Key.Namespace)
	}
	if a.To == nil {
		return cmp.Compare(a.slot, b.slot)
	}
	return cmp.Or(cmp.Compare(a.To.Bucket, b.To.Bucket), cmp.Compare(a.To.State, b.To.State))
}

// runsOf calls f for each run of a list.
func runsOf(list []planned, f func(run []planned)) (runs int) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && byRun(&list[0], &list[n]) == 0 {
			n++
		}
		f(list[:n])
		list = list[n:]
		runs++
	}
	return runs
}

func (c *chunk) putArgs(args []any, list []planned, as way) (_ []any, runs int, err error) {
	for i := range list {
		p := &list[i]
		args = append(args, scoreOf(p.To.Visible), p.member)
		c.note(p.To, p.member)
	}
	for i := range list {
		r, from := list[i].To, len(c.blobs)
		if as == wayReplace {
			c.blobs = binary.BigEndian.AppendUint64(c.blobs, r.Generation)
		}
		if c.blobs, err = appendBlob(c.blobs, r); err != nil {
			return nil, 0, err
		}
		args = append(args, c.blobs[from:len(c.blobs):len(c.blobs)])
	}
	runs = runsOf(list, func(run []planned) {
		r := run[0].To
		header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(run))), r.Bucket)
		args = append(args, append(append(header, byte(r.State)), run[0].Key.Namespace...))
	})
	numbers := make([]byte, 0, 2*len(list))
	for i := range list {
		numbers = binary.BigEndian.AppendUint16(numbers, uint16(list[i].number))
	}
	args = append(args, numbers)
	if as == wayReplace {
		args = append(args, revisionsOf(list))
	}
	return args, runs, nil
}

func (c *chunk) removeArgs(args []any, list []planned, as way) (_ []any, runs int) {
	for i := range list {
		if args = append(args, list[i].member); as == wayEnd {
			args = append(args, timeBytes(list[i].Log[0].Ended))
		}
	}
	args = append(args, revisionsOf(list))
	runs = runsOf(list, func(run []planned) {
		if as == wayRemove {
			args = append(args, len(run), run[0].Key.Namespace)
			return
		}
		var records []byte
		for i := range run {
			records = appendBatched(records, run[i].number, &run[i].Log[0])
		}
		r := &run[0].Log[0]
		args = append(args, len(run), strconv.FormatInt(hourOf(r.Ended), 10), r.Namespace, timeBytes(r.Ended>>slotBits<<slotBits), records)
	})
	return args, runs
}

// recordArgs adds the records of replacements.
func (c *chunk) recordArgs(args []any) (_ []any, records int) {
	for i := c.fresh; i < c.puts; i++ {
		p := &c.order[i]
		for n := range p.Log {
			r := &p.Log[n]
			where := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(i+1)), uint32(p.number+1+n))
			args = append(args, where, strconv.FormatInt(hourOf(r.Ended), 10), r.Namespace, r.Name, timeBytes(r.Ended), rouse.AppendRecord(nil, r))
			records++
		}
	}
	return args, records
}

// revisionsOf returns the expected revisions.
func revisionsOf(list []planned) []byte {
	b := make([]byte, 0, 8*len(list))
	for i := range list {
		b = binary.BigEndian.AppendUint64(b, list[i].If)
	}
	return b
}

// note adds a row to the entry for the journal.
func (c *chunk) note(r *rouse.Row, member string) {
	c.notes = binary.BigEndian.AppendUint32(c.notes, r.Bucket)
	c.notes = binary.BigEndian.AppendUint64(c.notes, uint64(r.Visible))
	c.notes = binary.BigEndian.AppendUint16(c.notes, uint16(len(member)))
	c.notes = append(c.notes, member...)
}

// Bytes in the script's answer: oddSize for each change that is not plain, refusedSize for each refused plain
// one.
const (
	oddSize     = 1 + 8 + 8
	refusedSize = 4 + 8
)

// read parses the answer of the script into the results.
func (c *chunk) read(b []byte, results []rouse.Result) (ok bool) {
	if len(b) < 8+oddSize*len(c.odd) || (len(b)-8-oddSize*len(c.odd))%refusedSize != 0 {
		return false
	}
	first := binary.BigEndian.Uint64(b)
	b = b[8:]
	for i := range c.order {
		p := &c.order[i]
		r := rouse.Result{Applied: true, Existed: i >= c.fresh}
		if i < c.puts {
			r.Revision = first + uint64(p.number)
		}
		results[p.place] = r
	}
	for i := range c.odd {
		results[c.odd[i].place] = rouse.Result{Applied: b[0]&1 != 0, Existed: b[0]&2 != 0, Revision: binary.BigEndian.Uint64(b[1:]), Also: binary.BigEndian.Uint64(b[9:])}
		b = b[oddSize:]
	}
	for ; len(b) > 0; b = b[refusedSize:] {
		i, found := int(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:])
		if i < 1 || i > len(c.order) {
			return false
		}
		results[c.order[i-1].place] = rouse.Result{Existed: found != 0, Revision: found}
	}
	return true
}
