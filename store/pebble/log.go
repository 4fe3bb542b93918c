package pebble

import (
	"encoding/binary"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// logging gathers what a batch writes once for all its records: which timers' records ended in which second, packed into
// one value per namespace and second, and how many each hour got.
type logging struct {
	seconds map[secondKey]*moments
	hours   map[uint32]int64
	scratch []byte
}

type secondKey struct {
	namespace string
	second    int64
}

type moments struct {
	hour  uint32
	first uint64 // the first seq
	value []byte
}

func (l *logging) init() {
	*l = logging{seconds: map[secondKey]*moments{}, hours: map[uint32]int64{}}
}

func (l *logging) reset() {
	clear(l.seconds)
	clear(l.hours)
}

// add writes a record.
func (l *logging) add(batch *lsm.Batch, r *rouse.Record, seq uint64) {
	hour := hourOf(r.Ended)
	l.scratch = appendRecordHead(l.scratch[:0], hour, r.Namespace, r.Name)
	l.scratch = binary.BigEndian.AppendUint64(l.scratch, flip(int64(r.Ended)))
	l.scratch = binary.BigEndian.AppendUint64(l.scratch, seq)
	n := len(l.scratch)
	l.scratch = rouse.AppendRecord(l.scratch, r)
	_ = batch.Set(l.scratch[:n], l.scratch[n:], nil)

	l.hours[hour]++
	k := secondKey{r.Namespace, secondOf(r.Ended)}
	m := l.seconds[k]
	if m == nil {
		m = &moments{hour: hour, first: seq}
		l.seconds[k] = m
	}
	m.value = appendText(m.value, r.Name)
	m.value = binary.AppendUvarint(m.value, uint64(int64(r.Ended)-k.second*1000))
	m.value = binary.AppendUvarint(m.value, seq)
}

// write writes what was gathered, and counts the records in all.
func (l *logging) write(batch *lsm.Batch, all map[uint32]int64) {
	for k, m := range l.seconds {
		l.scratch = appendMomentHead(l.scratch[:0], m.hour, k.namespace)
		l.scratch = binary.BigEndian.AppendUint64(l.scratch, flip(k.second))
		l.scratch = binary.BigEndian.AppendUint64(l.scratch, m.first)
		_ = batch.Set(l.scratch, m.value, nil)
	}
	for hour, n := range l.hours {
		all[hour] += n
		l.scratch = appendHourKey(l.scratch[:0], tagHour, hour)
		_ = batch.Set(l.scratch, binary.BigEndian.AppendUint64(nil, uint64(all[hour])), nil)
	}
}

// readMoments unpacks what logging.write wrote.
func readMoments(second int64, value []byte) (out []moment, err error) {
	r := reader{b: value}
	for len(r.b) > 0 && !r.bad {
		name := string(r.bytes())
		ended := rouse.Instant(second*1000 + int64(r.uvarint()))
		out = append(out, moment{rouse.RecordCursor{Ended: ended, Seq: r.uvarint()}, name})
	}
	if r.bad {
		return nil, errDamaged
	}
	return out, nil
}
