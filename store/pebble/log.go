package pebble

import (
	"encoding/binary"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/codec"
)

// logging collects the values that a batch writes once for all its records: the timers whose records ended in
// each second, packed into one value per namespace and second, and the change of each hour's number of
// records.
type logging struct {
	seconds map[secondKey]*moments
	hours   map[uint32]int64
	free    []*moments // no longer used
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

func (l *logging) resetLogging() {
	for _, m := range l.seconds {
		if len(l.free) < keptPages && cap(m.value) <= keptBuf {
			l.free = append(l.free, m)
		}
	}
	clear(l.seconds)
	clear(l.hours)
}

// keptPages bounds the pages whose memory is kept: most batches have one or two.
const keptPages = 4

// newMomentPage returns an empty page.
func (l *logging) newMomentPage(hour uint32, first uint64) *moments {
	m := &moments{}
	if n := len(l.free); n > 0 {
		m, l.free = l.free[n-1], l.free[:n-1]
	}
	*m = moments{hour: hour, first: first, value: m.value[:0]}
	return m
}

// logRecord writes a record.
func (l *logging) logRecord(o *ops, r *rouse.Record, seq uint64) {
	hour := clampedHour(r.Ended)
	m := moment{rouse.RecordCursor{Ended: r.Ended, Seq: seq}, r.Name}
	o.setKey(func(b []byte) []byte { return appendRecordKey(b, r.Namespace, &m) },
		func(b []byte) []byte { return rouse.AppendRecord(b, r) })
	l.hours[hour]++
	k := secondKey{r.Namespace, secondOf(r.Ended)}
	page := l.seconds[k]
	if page == nil {
		page = l.newMomentPage(hour, seq)
		l.seconds[k] = page
	}
	page.value = codec.AppendText(page.value, r.Name)
	page.value = binary.AppendUvarint(page.value, uint64(int64(r.Ended)-k.second*1000))
	page.value = binary.AppendUvarint(page.value, seq)
}

// deleteLogRecord deletes a record. The page that names it stays, and readers skip the record.
func (l *logging) deleteLogRecord(o *ops, namespace string, m *moment) {
	o.deleteKey(func(b []byte) []byte { return appendRecordKey(b, namespace, m) })
	l.hours[clampedHour(m.Ended)]--
}

// writeLogPages writes the collected values, and updates the numbers in all.
func (l *logging) writeLogPages(o *ops, all map[uint32]int64) {
	for k, m := range l.seconds {
		o.setKey(func(b []byte) []byte {
			b = appendMomentHead(b, m.hour, k.namespace)
			b = binary.BigEndian.AppendUint64(b, flipSign(k.second))
			return binary.BigEndian.AppendUint64(b, m.first)
		}, func(b []byte) []byte { return append(b, m.value...) })
	}
	for hour, n := range l.hours {
		if all[hour] += n; all[hour] <= 0 {
			delete(all, hour)
			o.deleteKey(func(b []byte) []byte { return appendHourKey(b, tagHour, hour) })
			continue
		}
		o.setKey(func(b []byte) []byte { return appendHourKey(b, tagHour, hour) },
			func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(all[hour])) })
	}
}

// readMoments unpacks a value of logging.writeLogPages.
func readMoments(second int64, value []byte) (out []moment, err error) {
	r := codec.Read(value)
	for len(r.Rest()) > 0 {
		name := string(r.Bytes())
		ended := rouse.Instant(second*1000 + int64(r.Uvarint()))
		out = append(out, moment{rouse.RecordCursor{Ended: ended, Seq: r.Uvarint()}, name})
	}
	if r.Bad() {
		return nil, errDamaged
	}
	return out, nil
}
