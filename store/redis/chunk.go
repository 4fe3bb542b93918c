package redis

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
)

// nearness is how soon a new row is due if the script does not add it to the indexes at once (index.lua). The
// clock of this process decides: a wrong one costs time, as near rows are also added to the indexes when
// their entry in the journal is deleted.
const nearness = 5 * time.Second

// chunk contains the changes of one script call. A change is plain if it is simple and the only one of its
// key: the script makes thousands of plain changes with a few commands, and all others one by one. The order
// of plain changes does not matter as their keys differ, so they are sorted into runs.
type chunk struct {
	soon    rouse.Instant  // new rows that are due until then are near
	seen    map[string]int // written rows → how often
	changes []planned
	bytes   int
	numbers int // count of the numbers that revisions and sequences are computed from

	notes notes
	order []*planned // the plain changes: creates, the near ones first, replacements, ends, removals
	puts  int        // how many of order are creates or replacements
	fresh int        // how many of puts are creates
	odd   []*planned // the other changes

	given uint64 // the last revision that the script gave, 0 if none
}

// way is how the script makes a change.
type way uint8

const (
	wayOdd     way = iota // one by one
	wayNear               // a create of a row that is due soon
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

// plainWay returns how a change is made if no other change has its key.
func (c *chunk) plainWay(ch *rouse.Change) way {
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
		if ch.To.Generation != 0 || len(ch.Log) > 0 {
			return wayOdd
		}
		if ch.To.State == rouse.StateScheduled && ch.To.Due <= c.soon {
			return wayNear
		}
		return wayCreate
	case ch.To.Generation != 0:
		return wayReplace
	}
	return wayOdd
}

// addChange adds a change; place is the index of its result.
func (c *chunk) addChange(place int, ch *rouse.Change) error {
	if err := checkTexts("key", ch.Key.Namespace, ch.Key.Name, ch.Key.Fire); err != nil {
		return err
	}
	p := planned{Change: ch, way: c.plainWay(ch), place: place, number: c.numbers + 1, member: encodeMember(&ch.Key)}
	c.numbers += 1 + len(ch.Also) + len(ch.Log)
	if p.way == wayEnd {
		p.slot = int64(ch.Log[0].Ended) >> slotBits
	}
	c.seen[p.member]++
	c.bytes += len(p.member)
	if ch.To != nil {
		c.bytes += blobSize(ch.To)
	}
	for i := range ch.Also {
		k := &ch.Also[i].Key
		if err := checkTexts("key", k.Namespace, k.Name, k.Fire); err != nil {
			return err
		}
		c.seen[encodeMember(k)]++
		c.bytes += blobSize(&ch.Also[i])
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

// blobSize estimates the length of a row's blob.
func blobSize(r *rouse.Row) int { return headSize + len(r.Body) + 64*len(r.Labels) }

// applyArgs returns the arguments of the script.
func (c *chunk) applyArgs(st stamp) (_ []any, err error) {
	byWay := [wayRemove + 1][]*planned{}
	for i := range c.changes {
		p := &c.changes[i]
		if c.seen[p.member] > 1 {
			p.way = wayOdd
		}
		byWay[p.way] = append(byWay[p.way], p)
	}
	args := make([]any, 3, 64+len(c.changes))
	c.notes.growForRows(c.changes)
	counts := make([]byte, 0, 60)
	say := func(numbers ...int) {
		for _, n := range numbers {
			counts = binary.BigEndian.AppendUint32(counts, uint32(n))
		}
	}
	for as := wayNear; as <= wayRemove; as++ {
		list := byWay[as]
		slices.SortFunc(list, func(a, b *planned) int { return cmp.Or(byRun(a, b), a.number-b.number) })
		runs := 0
		switch {
		case len(list) == 0:
		case as <= wayReplace:
			args, runs, err = c.putArgs(args, list, as)
		default:
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
		if as <= wayCreate {
			c.fresh = len(c.order)
		}
	}
	var o oddChanges
	c.odd = byWay[wayOdd]
	for i := range c.odd {
		if err := o.addOddChange(c, c.odd[i]); err != nil {
			return nil, err
		}
	}
	args = append(append(args, o.keys...), o.changes...)
	args, records := c.recordArgs(args)
	args, marks := markArgs(args, byWay[wayEnd])
	say(len(o.keys), len(c.odd), records, marks, c.numbers)
	args[0], args[1], args[2] = append(st.encodeStamp(), c.notes.encodeReach()...),
		c.notes.encodeEntry(len(byWay[wayNear])), counts
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
func runsOf(list []*planned, f func(run []*planned)) (runs int) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && byRun(list[0], list[n]) == 0 {
			n++
		}
		f(list[:n])
		list = list[n:]
		runs++
	}
	return runs
}

func (c *chunk) putArgs(args []any, list []*planned, as way) (_ []any, runs int, err error) {
	size := 0
	for _, p := range list {
		size += 8 + blobSize(p.To)
	}
	blobs, keys, numbers := make([]byte, 0, size), make([]byte, 0, 40*len(list)), make([]byte, 0, 2*len(list))
	var revisions []byte
	rows := make([]any, len(list))
	for i, p := range list {
		from := len(blobs)
		if as == wayReplace {
			blobs = binary.BigEndian.AppendUint64(blobs, p.To.Generation)
			revisions = appendNumber(revisions, p.If)
		}
		if blobs, err = appendBlob(blobs, p.To); err != nil {
			return nil, 0, err
		}
		if as == wayNear {
			blobs[from+stateAt-16] |= nearBit
			c.notes.extendReach(p.To.Visible)
		}
		rows[i] = blobs[from:len(blobs):len(blobs)]
		keys = appendPacked(keys, p.member)
		numbers = binary.BigEndian.AppendUint16(numbers, uint16(p.number))
		c.notes.addRowNote(p.To, p.member)
	}
	args = append(args, keys, numbers)
	switch as {
	case wayCreate:
		members := make([]string, len(list))
		for i := range list {
			members[i] = list[i].member
		}
		slices.Sort(members) // Redis inserts neighbors faster
		enter := make([]byte, 0, 40*len(list))
		for _, m := range members {
			enter = appendPacked(appendPacked(enter, "0"), m)
		}
		args = append(args, enter)
	case wayReplace:
		args = append(args, revisions)
	}
	var scores []any
	runs = runsOf(list, func(run []*planned) {
		r := run[0].To
		header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(run))), r.Bucket)
		args = append(args, append(append(header, byte(r.State)), run[0].Key.Namespace...))
		if as == wayNear {
			return
		}
		pairs := make([]byte, 0, 56*len(run))
		for i := range run {
			pairs = appendPacked(appendPacked(pairs, scoreOf(run[i].To.Visible)), run[i].member)
		}
		scores = append(scores, pairs)
	})
	return append(append(args, scores...), rows...), runs, nil
}

func (c *chunk) removeArgs(args []any, list []*planned, as way) (_ []any, runs int) {
	keys, revisions := make([]byte, 0, 40*len(list)), make([]byte, 0, 9*len(list))
	for i := range list {
		keys, revisions = appendPacked(keys, list[i].member), appendNumber(revisions, list[i].If)
	}
	args = append(args, keys, revisions)
	runs = runsOf(list, func(run []*planned) {
		args = append(args, append(binary.BigEndian.AppendUint32(nil, uint32(len(run))), run[0].Key.Namespace...))
		if as == wayRemove {
			return
		}
		records := make([]byte, 0, 128*len(run))
		for i := range run {
			records = appendBatched(records, run[i].number, &run[i].Log[0])
		}
		r := &run[0].Log[0]
		args = append(args, strconv.FormatInt(unixHour(r.Ended), 10), timeBytes(r.Ended>>slotBits<<slotBits), records)
	})
	return args, runs
}

// recordArgs adds the records of replacements.
func (c *chunk) recordArgs(args []any) (_ []any, records int) {
	for i := c.fresh; i < c.puts; i++ {
		p := c.order[i]
		for n := range p.Log {
			r := &p.Log[n]
			where := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(i+1)), uint32(p.number+1+n))
			args = append(args, where, strconv.FormatInt(unixHour(r.Ended), 10), r.Namespace, r.Name, timeBytes(r.Ended),
				rouse.AppendRecord(nil, r))
			records++
		}
	}
	return args, records
}

// Bytes in the script's answer: oddSize for each change that is not plain, refusedSize for each refused plain
// one.
const (
	oddSize     = 1 + 8 + 8
	refusedSize = 4 + 8
)

// readResults parses the answer of the script into the results.
func (c *chunk) readResults(b []byte, results []rouse.Result) (ok bool) {
	if len(b) < 16+oddSize*len(c.odd) || (len(b)-16-oddSize*len(c.odd))%refusedSize != 0 {
		return false
	}
	first := binary.BigEndian.Uint64(b)
	c.given = binary.BigEndian.Uint64(b[8:])
	b = b[16:]
	for i := range c.order {
		p := c.order[i]
		r := rouse.Result{Applied: true, Existed: i >= c.fresh}
		if i < c.puts {
			r.Revision = first + uint64(p.number)
		}
		results[p.place] = r
	}
	for i := range c.odd {
		results[c.odd[i].place] = rouse.Result{Applied: b[0]&1 != 0, Existed: b[0]&2 != 0,
			Revision: binary.BigEndian.Uint64(b[1:]), Also: binary.BigEndian.Uint64(b[9:])}
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
