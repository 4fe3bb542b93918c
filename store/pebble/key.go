package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/codec"
)

// Layouts of the keys. Texts end with a zero byte, which no text contains, so that keys sort like rouse.Key;
// numbers are big-endian, and times have their sign flipped, so that they sort like numbers.
//
//	d bucket:4 visible:8 namespace 0 name 0 fire
//	k namespace 0 name 0 fire
//	i
//	s state:1 namespace 0 name 0 fire
//	l label 0 value 0 namespace 0 name 0 fire
//	c state:1 namespace
//	h hour:4 namespace 0 name 0 ended:8 seq:8
//	n hour:4 namespace 0 second:8 seq:8
//	g hour:4
//	m
const (
	tagDue      = 'd'
	tagKey      = 'k'
	tagAside    = 'i'
	tagState    = 's'
	tagLabel    = 'l'
	tagCount    = 'c'
	tagRecord   = 'h'
	tagMoment   = 'n'
	tagHour     = 'g'
	tagRevision = 'm'
)

var (
	revisionKey = []byte{tagRevision}
	asideKey    = []byte{tagAside} // exists if every row that isAside is in the index
)

var errDamaged = fmt.Errorf("%w: a row in it cannot be read; %s", rouse.ErrCorrupt, restoreCure)

// flipSign maps signed numbers to unsigned ones in the same order.
func flipSign(i int64) uint64   { return uint64(i) ^ 1<<63 }
func unflipSign(u uint64) int64 { return int64(u ^ 1<<63) }

func appendSuffix(b []byte, k rouse.Key) []byte {
	b = append(b, k.Namespace...)
	b = append(b, 0)
	b = append(b, k.Name...)
	b = append(b, 0)
	return append(b, k.Fire...)
}

const dueHead = 1 + 4 + 8 // of a d key, before its suffix

func putDueHead(b []byte, bucket uint32, visible rouse.Instant) {
	b[0] = tagDue
	binary.BigEndian.PutUint32(b[1:], bucket)
	binary.BigEndian.PutUint64(b[5:], flipSign(int64(visible)))
}

func appendDueKey(b []byte, bucket uint32, visible rouse.Instant, k rouse.Key) []byte {
	n := len(b)
	b = append(b, make([]byte, dueHead)...)
	putDueHead(b[n:], bucket, visible)
	return appendSuffix(b, k)
}

// appendDueTime returns the key before all rows of a bucket that are visible at or after the time.
func appendDueTime(b []byte, bucket uint32, visible rouse.Instant) []byte {
	n := len(b)
	b = append(b, make([]byte, dueHead)...)
	putDueHead(b[n:], bucket, visible)
	return b
}

func appendKeyKey(b []byte, k rouse.Key) []byte { return appendSuffix(append(b, tagKey), k) }

// stateAside is the state under which the index by state has the scheduled rows that are not near their due
// time in the order of visible times.
const stateAside rouse.State = 0xff

// nearDue is how long after its due time a scheduled row may be visible to be near it: longer than the usual
// jitter and delays, and short, because searches by due time read as much more than they were asked for.
const nearDue = 15 * time.Minute

// isAside reports whether a row is scheduled and not near its due time: because of a long delay or jitter, or
// because a run was requested.
func (p *place) isAside() bool {
	return p.exists && p.state == rouse.StateScheduled && (p.visible < p.due || p.visible > p.due.Add(nearDue))
}

func appendStateKey(b []byte, s rouse.State, k rouse.Key) []byte {
	return appendSuffix(append(b, tagState, byte(s)), k)
}

func appendLabelHead(b []byte, label, value string) []byte {
	b = append(append(b, tagLabel), label...)
	b = append(append(b, 0), value...)
	return append(b, 0)
}

func appendRecordHead(b []byte, hour uint32, namespace, name string) []byte {
	b = binary.BigEndian.AppendUint32(append(b, tagRecord), hour)
	b = append(append(b, namespace...), 0)
	return append(append(b, name...), 0)
}

func appendMomentHead(b []byte, hour uint32, namespace string) []byte {
	b = binary.BigEndian.AppendUint32(append(b, tagMoment), hour)
	return append(append(b, namespace...), 0)
}

func appendHourKey(b []byte, tag byte, hour uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, tag), hour)
}

// splitKey returns the key of a suffix, whose memory it shares.
func splitKey(suffix []byte) (k rouse.Key, err error) {
	ns, name, err := splitSuffix(suffix)
	if err != nil {
		return k, err
	}
	return rouse.Key{Namespace: codec.String(suffix[:ns]), Name: codec.String(suffix[ns+1 : name]),
		Fire: codec.String(suffix[name+1:])}, nil
}

// splitSuffix returns the offsets of the two zero bytes that separate the parts of a suffix.
func splitSuffix(b []byte) (ns, name int, err error) {
	ns = bytes.IndexByte(b, 0)
	if ns < 0 {
		return 0, 0, errDamaged
	}
	name = bytes.IndexByte(b[ns+1:], 0)
	if name < 0 {
		return 0, 0, errDamaged
	}
	return ns, ns + 1 + name, nil
}

// clampedHour returns the hour of a record. Times beyond the range of four bytes share the first or last
// hour; order within an hour is by the exact time, so records are always in order.
func clampedHour(i rouse.Instant) uint32 {
	return uint32(min(max(int64(i)/3_600_000, 0), math.MaxUint32))
}

// secondOf returns a time in seconds, rounded down.
func secondOf(i rouse.Instant) int64 {
	s := int64(i) / 1000
	if i < 0 && int64(i)%1000 != 0 {
		s--
	}
	return s
}

// keyAfterPrefix returns the first key behind all keys with the prefix.
func keyAfterPrefix(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// checkRow refuses texts that the layouts cannot represent.
func checkRow(field string, k rouse.Key, labels map[string]string) error {
	if strings.IndexByte(k.Namespace, 0) >= 0 || strings.IndexByte(k.Name, 0) >= 0 || strings.IndexByte(k.Fire, 0) >= 0 {
		return rouse.Refuse(field, fmt.Sprintf("%s/%s/%s", k.Namespace, k.Name, k.Fire), "contains a zero byte",
			"use printable text")
	}
	for l, v := range labels {
		if strings.IndexByte(l, 0) >= 0 || strings.IndexByte(v, 0) >= 0 {
			return rouse.Refuse(field+".labels", l, "contains a zero byte", "use printable text")
		}
	}
	return nil
}
