package redis

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rousehq/rouse"
)

// A row's blob is a head of fixed length, which scripts read, its labels, and its body. Numbers are
// big-endian.
//
//	revision:8 generation:8 bucket:4 visible:8 due:8 state:1 length of the body:4 (length:2 label length:2 value)… body
const (
	headSize = 8 + 8 + 4 + 8 + 8 + 1 + 4
	stateAt  = 8 + 8 + 4 + 8 + 8
	nearBit  = 1 << 7 // of the state: the row was near when it was created (index.lua)
)

// appendBlob appends a row's blob without revision and generation, which the script prepends.
func appendBlob(b []byte, r *rouse.Row) ([]byte, error) {
	b = binary.BigEndian.AppendUint32(b, r.Bucket)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Visible))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Due))
	b = append(b, byte(r.State))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Body)))
	for k, v := range r.Labels {
		if len(k) > math.MaxUint16 || len(v) > math.MaxUint16 {
			return nil, rouse.Refuse("labels."+k, v, "is too long", "use less than 64 KiB")
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(k)))
		b = append(b, k...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(v)))
		b = append(b, v...)
	}
	return append(b, r.Body...), nil
}

// parseRowBlob parses a key and a blob. The row shares their memory.
func parseRowBlob(member, blob string) (r rouse.Row, err error) {
	if r.Key, err = decodeMember(member); err != nil {
		return r, err
	}
	damaged := func() (rouse.Row, error) {
		return rouse.Row{}, fmt.Errorf("%w: %s/%s/%s", errDamaged, r.Key.Namespace, r.Key.Name, r.Key.Fire)
	}
	b := []byte(blob)
	if len(b) < headSize {
		return damaged()
	}
	r.Revision, r.Generation = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	r.Bucket, r.Visible = binary.BigEndian.Uint32(b[16:]), rouse.Instant(binary.BigEndian.Uint64(b[20:]))
	r.Due, r.State = rouse.Instant(binary.BigEndian.Uint64(b[28:])), rouse.State(b[stateAt]&^nearBit)
	size := int(binary.BigEndian.Uint32(b[37:]))
	if size > len(b)-headSize {
		return damaged()
	}
	r.Body = b[len(b)-size : len(b) : len(b)]
	labels := blob[headSize : len(blob)-size]
	for labels != "" {
		var k, v string
		var ok bool
		if k, labels, ok = cutText(labels); ok {
			v, labels, ok = cutText(labels)
		}
		if !ok {
			return damaged()
		}
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[k] = v
	}
	return r, nil
}

// cutText cuts a length-prefixed text off the front.
func cutText(s string) (text, rest string, ok bool) {
	if len(s) < 2 {
		return "", "", false
	}
	n := int(s[0])<<8 | int(s[1])
	if len(s) < 2+n {
		return "", "", false
	}
	return s[2 : 2+n], s[2+n:], true
}
