package rouse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unsafe"
)

// bodyVersion is the first byte of a row's body. A reader refuses what it does not know; a new field gets a new version, and
// the reader keeps the old ones.
const bodyVersion = 1

var errBody = errors.New("the timer's body is damaged")

// Row returns the timer as a store keeps it. The row shares the timer's labels.
func (t *Timer) Row() Row {
	return Row{Key: t.Key, Bucket: t.Bucket, Visible: t.Visible, Revision: t.Revision, Generation: t.Generation,
		State: t.State(), Due: t.Due, Labels: t.Spec.Labels, Body: t.appendBody(make([]byte, 0, t.bodySize()))}
}

func (t *Timer) bodySize() int {
	n := 96 + len(t.Spec.Schedule) + len(t.Spec.Timezone) + len(t.Spec.Target) + len(t.Spec.Payload) + len(t.Spec.ContentType) +
		len(t.Reason) + len(t.LastError) + 10*len(t.Runs)
	for k, v := range t.Spec.Webhook.Headers {
		n += len(k) + len(v) + 4
	}
	return n
}

func (t *Timer) appendBody(b []byte) []byte {
	s := &t.Spec
	b = append(b, bodyVersion)
	var flags uint64
	if t.Paused {
		flags |= 1
	}
	if t.Manual {
		flags |= 2
	}
	if s.Webhook.Structured {
		flags |= 4
	}
	b = binary.AppendUvarint(b, flags)
	b = appendText(b, s.Schedule)
	b = appendText(b, s.Timezone)
	b = appendText(b, s.Target)
	b = appendText(b, s.ContentType)
	b = binary.AppendUvarint(b, uint64(len(s.Payload)))
	b = append(b, s.Payload...)
	b = binary.AppendUvarint(b, uint64(s.Retry.Attempts))
	for _, d := range [...]time.Duration{s.Retry.Interval, s.Retry.Max, s.Retry.Jitter, s.Retry.Timeout, s.Webhook.Accept} {
		b = binary.AppendVarint(b, int64(d))
	}
	b = append(b, byte(s.Misfire))
	b = appendText(b, s.Webhook.Method)
	b = binary.AppendUvarint(b, uint64(s.Webhook.Batch))
	b = binary.AppendUvarint(b, uint64(len(s.Webhook.Headers)))
	if len(s.Webhook.Headers) > 0 {
		for _, k := range slices.Sorted(maps.Keys(s.Webhook.Headers)) {
			b = appendText(appendText(b, k), s.Webhook.Headers[k])
		}
	}
	b = appendText(b, t.Reason)
	for _, i := range [...]Instant{t.Created, t.Updated, t.Anchor} {
		b = binary.AppendVarint(b, int64(i))
	}
	b = binary.AppendUvarint(b, uint64(len(t.Runs)))
	for _, r := range t.Runs {
		b = binary.AppendVarint(b, int64(r))
	}
	b = binary.AppendUvarint(b, uint64(t.Attempts))
	b = binary.AppendUvarint(b, t.Token)
	b = appendText(b, t.LastError)
	return binary.AppendUvarint(b, t.Ended)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeTimer reads a row. The timer shares the row's labels and body.
func DecodeTimer(row *Row) (Timer, error) {
	t := Timer{Key: row.Key, Bucket: row.Bucket, Generation: row.Generation, Revision: row.Revision, Visible: row.Visible, Due: row.Due}
	t.Spec.Labels = row.Labels
	d := decoder{b: row.Body}
	if v := d.byte(); v != bodyVersion {
		return Timer{}, fmt.Errorf("timer %s/%s: body version %d, this rouse reads %d", row.Key.Namespace, row.Key.Name, v, bodyVersion)
	}
	s := &t.Spec
	flags := d.uvarint()
	t.Paused, t.Manual, s.Webhook.Structured = flags&1 != 0, flags&2 != 0, flags&4 != 0
	s.Schedule, s.Timezone, s.Target, s.ContentType = d.text(), d.text(), d.text(), d.text()
	s.Payload = d.bytes()
	s.Retry.Attempts = uint32(d.uvarint())
	for _, p := range [...]*time.Duration{&s.Retry.Interval, &s.Retry.Max, &s.Retry.Jitter, &s.Retry.Timeout, &s.Webhook.Accept} {
		*p = time.Duration(d.varint())
	}
	s.Misfire = Misfire(d.byte())
	s.Webhook.Method = d.text()
	s.Webhook.Batch = uint32(d.uvarint())
	if n := d.count(2); n > 0 {
		s.Webhook.Headers = make(map[string]string, n)
		for range n {
			k := d.text()
			s.Webhook.Headers[k] = d.text()
		}
	}
	t.Reason = d.text()
	for _, p := range [...]*Instant{&t.Created, &t.Updated, &t.Anchor} {
		*p = Instant(d.varint())
	}
	if n := d.count(1); n > 0 {
		t.Runs = make([]Instant, n)
		for i := range t.Runs {
			t.Runs[i] = Instant(d.varint())
		}
	}
	t.Attempts = uint32(d.uvarint())
	t.Token = d.uvarint()
	t.LastError = d.text()
	t.Ended = d.uvarint()
	if d.bad || len(d.b) != 0 {
		return Timer{}, fmt.Errorf("timer %s/%s: %w", row.Key.Namespace, row.Key.Name, errBody)
	}
	return t, nil
}

// AppendRecord appends the record without namespace and name, which a store keeps in its key.
func AppendRecord(b []byte, r *Record) []byte {
	b = append(b, bodyVersion, byte(r.Ending))
	if r.Manual {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, r.Generation)
	for _, i := range [...]Instant{r.Due, r.LastDue, r.Sent, r.Ended} {
		b = binary.AppendVarint(b, int64(i))
	}
	b = binary.AppendUvarint(b, uint64(r.Count))
	b = binary.AppendUvarint(b, uint64(r.Attempts))
	b = binary.AppendVarint(b, int64(r.Code))
	return appendText(b, r.Reason)
}

// DecodeRecord reads what AppendRecord wrote; namespace and name are left empty.
func DecodeRecord(b []byte) (Record, error) {
	d := decoder{b: b}
	if v := d.byte(); v != bodyVersion {
		return Record{}, fmt.Errorf("record version %d, this rouse reads %d", v, bodyVersion)
	}
	r := Record{Ending: Ending(d.byte()), Manual: d.byte() != 0, Generation: d.uvarint()}
	for _, p := range [...]*Instant{&r.Due, &r.LastDue, &r.Sent, &r.Ended} {
		*p = Instant(d.varint())
	}
	r.Count, r.Attempts, r.Code = uint32(d.uvarint()), uint32(d.uvarint()), int(d.varint())
	r.Reason = d.text()
	if d.bad || len(d.b) != 0 {
		return Record{}, errors.New("the record is damaged")
	}
	return r, nil
}

// decoder reads from b; after the first fault it returns zeros and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads a number of elements of at least size bytes each, so that a damaged one cannot ask for much memory.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// text shares the bytes it was read from: bodies are never changed.
func (d *decoder) text() string {
	b := d.bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}
