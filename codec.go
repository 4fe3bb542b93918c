package rouse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// bodyVersion is the first byte of a row's body. A reader refuses what it does not know; a new field gets a new version, and
// the reader keeps the old ones.
const bodyVersion = 2

// recordVersion is the same for records.
const recordVersion = 3

// The parts of a body that most timers do not have, each with its bit, written in this order behind the rest.
const (
	partWhen     = 1 << iota // what decides when, beside schedule and timezone
	partCalendar             // Spec.Calendar
	partRetry                // Retry.Factor and GiveUp
	partPolicy               // Within, Overlap, Deadline, Priority, Keep
	partProgress             // Until, Skips, PassTo, Backlog, Began, Passed
	partFailures             // Failures
	partBeside               // Live, Asked
	partCritical             // Criticality
	partAnswer               // Answer
	partWaits                // Waits
	partCounts               // Fired, Dead, Missed
	partPause                // PauseAfter, ConsecutiveDead, PauseCause
	partAll      = 1<<iota - 1
)

var errBody = errors.New("the timer's body is damaged")

// Row returns the timer as a store keeps it. The row shares the timer's labels.
func (t *Timer) Row() Row {
	return Row{Key: t.Key, Bucket: t.Bucket, Visible: t.Visible, Revision: t.Revision, Generation: t.Generation,
		State: t.State(), Due: t.Due, Labels: t.Spec.Labels, Criticality: t.Spec.Criticality, Body: t.appendBody(make([]byte, 0, t.bodySize()))}
}

func (t *Timer) bodySize() int {
	n := 96 + len(t.Spec.Schedule) + len(t.Spec.Timezone) + len(t.Spec.Target) + len(t.Spec.Payload) + len(t.Spec.ContentType) +
		len(t.Reason) + len(t.LastError) + 10*len(t.Runs)
	for k, v := range t.Spec.Webhook.Headers {
		n += len(k) + len(v) + 4
	}
	if t.Answer != nil {
		n += len(t.Answer.ContentType) + len(t.Answer.Payload) + 8
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
	b = binary.AppendUvarint(b, t.Ended)
	return t.appendParts(b)
}

// parts says which parts the timer has.
func (t *Timer) parts() (parts uint64) {
	s := &t.Spec
	c := &s.Calendar
	has := func(part uint64, ok bool) {
		if ok {
			parts |= part
		}
	}
	has(partWhen, len(s.Also) > 0 || len(s.Except) > 0 || s.DST != "" || s.Start != 0 || s.End != 0 || s.TTL != 0 || s.MaxOccurrences != 0 || s.Jitter != 0)
	has(partCalendar, len(c.Off) > 0 || len(c.Only) > 0 || c.Shift != 0)
	has(partRetry, s.Retry.Factor != 0 || s.Retry.GiveUp != 0)
	has(partPolicy, s.Within != 0 || s.Overlap != 0 || s.Deadline != 0 || s.Priority != 0 || s.Keep != 0)
	has(partProgress, t.Until != 0 || t.Skips != 0 || t.PassTo != 0 || t.Backlog != Span{} || t.Began != 0 || t.Passed != 0)
	has(partFailures, len(t.Failures) > 0)
	has(partBeside, t.Live || t.Asked)
	has(partCritical, s.Criticality != 0)
	has(partAnswer, t.Answer != nil)
	has(partWaits, len(t.Waits) > 0)
	has(partPause, s.PauseAfter != 0 || t.ConsecutiveDead != 0 || t.PauseCause != 0)
	has(partCounts, t.Fired != 0 || t.Dead != 0 || t.Missed != 0)
	return parts
}

func (t *Timer) appendParts(b []byte) []byte {
	s := &t.Spec
	parts := t.parts()
	b = binary.AppendUvarint(b, parts)
	if parts&partWhen != 0 {
		b = appendTexts(appendTexts(b, s.Also), s.Except)
		b = appendText(b, s.DST)
		for _, v := range [...]int64{int64(s.Start), int64(s.End), int64(s.TTL), int64(s.MaxOccurrences), int64(s.Jitter)} {
			b = binary.AppendVarint(b, v)
		}
	}
	if parts&partCalendar != 0 {
		b = appendTexts(appendTexts(b, s.Calendar.Off), s.Calendar.Only)
		b = append(b, byte(s.Calendar.Shift))
	}
	if parts&partRetry != 0 {
		b = binary.AppendUvarint(b, math.Float64bits(s.Retry.Factor))
		b = binary.AppendVarint(b, int64(s.Retry.GiveUp))
	}
	if parts&partPolicy != 0 {
		for _, v := range [...]int64{int64(s.Within), int64(s.Overlap), int64(s.Deadline), int64(s.Priority), int64(s.Keep)} {
			b = binary.AppendVarint(b, v)
		}
	}
	if parts&partProgress != 0 {
		for _, v := range [...]int64{int64(t.Until), int64(t.Skips), int64(t.PassTo), int64(t.Backlog.From), int64(t.Backlog.To), int64(t.Began), int64(t.Passed)} {
			b = binary.AppendVarint(b, v)
		}
	}
	if parts&partFailures != 0 {
		b = appendFailures(b, t.Failures)
	}
	if parts&partBeside != 0 {
		var flags byte
		if t.Live {
			flags |= 1
		}
		if t.Asked {
			flags |= 2
		}
		b = append(b, flags)
	}
	if parts&partCritical != 0 {
		b = append(b, s.Criticality)
	}
	if parts&partAnswer != 0 {
		b = appendText(b, t.Answer.ContentType)
		b = binary.AppendUvarint(b, uint64(len(t.Answer.Payload)))
		b = append(b, t.Answer.Payload...)
	}
	if parts&partWaits != 0 {
		b = binary.AppendUvarint(b, uint64(len(t.Waits)))
		for _, w := range t.Waits {
			b = append(b, byte(w.Cause))
			b = binary.AppendVarint(b, int64(w.From))
			b = binary.AppendVarint(b, int64(w.To))
		}
	}
	if parts&partCounts != 0 {
		for _, n := range [...]uint64{t.Fired, t.Dead, t.Missed} {
			b = binary.AppendUvarint(b, n)
		}
	}
	if parts&partPause != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.PauseAfter)), uint64(t.ConsecutiveDead))
		b = append(b, byte(t.PauseCause))
	}
	return b
}

func (t *Timer) readParts(d *decoder) {
	s := &t.Spec
	parts := d.uvarint()
	if parts&^partAll != 0 {
		d.fail() // written by a later version: nothing of it may be lost
	}
	if parts&partWhen != 0 {
		s.Also, s.Except, s.DST = d.texts(), d.texts(), d.text()
		s.Start, s.End, s.TTL = Instant(d.varint()), Instant(d.varint()), time.Duration(d.varint())
		s.MaxOccurrences, s.Jitter = uint64(d.varint()), time.Duration(d.varint())
	}
	if parts&partCalendar != 0 {
		s.Calendar.Off, s.Calendar.Only, s.Calendar.Shift = d.texts(), d.texts(), Shift(d.byte())
	}
	if parts&partRetry != 0 {
		s.Retry.Factor, s.Retry.GiveUp = math.Float64frombits(d.uvarint()), time.Duration(d.varint())
	}
	if parts&partPolicy != 0 {
		s.Within, s.Overlap, s.Deadline = time.Duration(d.varint()), Overlap(d.varint()), time.Duration(d.varint())
		s.Priority, s.Keep = Priority(d.varint()), time.Duration(d.varint())
	}
	if parts&partProgress != 0 {
		t.Until, t.Skips, t.PassTo = Instant(d.varint()), uint32(d.varint()), Instant(d.varint())
		t.Backlog = Span{Instant(d.varint()), Instant(d.varint())}
		t.Began, t.Passed = Instant(d.varint()), uint64(d.varint())
	}
	if parts&partFailures != 0 {
		t.Failures = d.failures()
	}
	if parts&partBeside != 0 {
		flags := d.byte()
		t.Live, t.Asked = flags&1 != 0, flags&2 != 0
	}
	if parts&partCritical != 0 {
		s.Criticality = d.byte()
	}
	if parts&partAnswer != 0 {
		t.Answer = &Answer{ContentType: d.text(), Payload: d.bytes()}
	}
	if parts&partWaits != 0 {
		t.Waits = make([]Wait, d.count(3))
		for i := range t.Waits {
			t.Waits[i] = Wait{Cause(d.byte()), Instant(d.varint()), Instant(d.varint())}
		}
	}
	if parts&partCounts != 0 {
		t.Fired, t.Dead, t.Missed = d.uvarint(), d.uvarint(), d.uvarint()
	}
	if parts&partPause != 0 {
		s.PauseAfter, t.ConsecutiveDead, t.PauseCause = uint32(d.uvarint()), uint32(d.uvarint()), PauseCause(d.byte())
	}
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

func appendFailures(b []byte, list []Attempt) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, f := range list {
		b = binary.AppendVarint(b, int64(f.Sent))
		b = binary.AppendVarint(b, int64(f.Took/time.Millisecond))
		b = binary.AppendVarint(b, int64(f.Code))
		b = appendText(b, f.Detail)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeTimer reads a row. The timer shares the row's labels and body.
func DecodeTimer(row *Row) (Timer, error) {
	t := Timer{Key: row.Key, Bucket: row.Bucket, Generation: row.Generation, Revision: row.Revision, Visible: row.Visible, Due: row.Due}
	t.Spec.Labels = row.Labels
	d := decoder{b: row.Body}
	v := d.byte()
	if v != 1 && v != bodyVersion {
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
	t.Reason = d.prose()
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
	t.LastError = d.prose()
	t.Ended = d.uvarint()
	if v > 1 {
		t.readParts(&d)
	} else {
		t.Live = t.Key.Fire != "" && t.Visible != Never
		t.Asked = t.Live
	}
	if d.bad || len(d.b) != 0 {
		return Timer{}, fmt.Errorf("timer %s/%s: %w", row.Key.Namespace, row.Key.Name, errBody)
	}
	return t, nil
}

// AppendRecord appends the record without namespace and name, which a store keeps in its key.
func AppendRecord(b []byte, r *Record) []byte {
	b = append(b, recordVersion, byte(r.Ending))
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
	b = appendText(b, r.Reason)
	b = binary.AppendVarint(b, int64(r.Began))
	b = append(appendFailures(b, r.Failures), byte(r.Cause))
	if r.Cause != CauseOverlapped {
		return b
	}
	other := int64(r.Other) << 1
	if r.OtherManual {
		other |= 1
	}
	return binary.AppendVarint(b, other)
}

// DecodeRecord reads what AppendRecord wrote; namespace and name are left empty.
func DecodeRecord(b []byte) (Record, error) {
	d := decoder{b: b}
	v := d.byte()
	if v < 1 || v > recordVersion {
		return Record{}, fmt.Errorf("record version %d, this rouse reads %d", v, recordVersion)
	}
	r := Record{Ending: Ending(d.byte()), Manual: d.byte() != 0, Generation: d.uvarint()}
	for _, p := range [...]*Instant{&r.Due, &r.LastDue, &r.Sent, &r.Ended} {
		*p = Instant(d.varint())
	}
	r.Count, r.Attempts, r.Code = uint32(d.uvarint()), uint32(d.uvarint()), int(d.varint())
	r.Reason = d.prose()
	if v > 1 {
		r.Began, r.Failures = Instant(d.varint()), d.failures()
	}
	if v > 2 {
		if r.Cause = Cause(d.byte()); r.Cause == CauseOverlapped {
			other := d.varint()
			r.Other, r.OtherManual = Instant(other>>1), other&1 != 0
		}
	}
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

func (d *decoder) texts() []string {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.text()
	}
	return list
}

func (d *decoder) failures() []Attempt {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	list := make([]Attempt, n)
	for i := range list {
		list[i] = Attempt{Sent: Instant(d.varint()), Took: time.Duration(d.varint()) * time.Millisecond, Code: int(d.varint()), Detail: d.prose()}
	}
	return list
}

// text shares the bytes it was read from: bodies are never changed.
func (d *decoder) text() string {
	b := d.bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// prose is text for people. Earlier versions kept texts that cannot be shown: those are cleaned, so that one of them does not break
// the list that it is in.
func (d *decoder) prose() string { return CleanText(d.text(), math.MaxInt) }

// calendarName begins the names of rows that are no timers: no timer's name has a control character.
const calendarName = "\x01calendar/"

// CalendarKey returns the key of a calendar's row.
func CalendarKey(namespace, name string) Key {
	return Key{Namespace: namespace, Name: calendarName + name}
}

// CalendarQuery returns the query that lists the calendars of a namespace.
func CalendarQuery(namespace string, limit int) Query {
	return Query{Namespace: namespace, Prefix: calendarName, States: []State{StateNote}, Limit: limit}
}

// Row returns the calendar as a store keeps it, in the bucket of the given number.
func (c *Calendar) Row(bucket uint32) Row {
	b := binary.AppendVarint([]byte{bodyVersion}, int64(c.Updated))
	b = binary.AppendUvarint(b, uint64(len(c.Days)))
	last := Date(0)
	for _, d := range c.Days {
		b = binary.AppendVarint(b, int64(d.Date-last))
		b = appendText(b, d.Text)
		last = d.Date
	}
	return Row{Key: CalendarKey(c.Namespace, c.Name), Bucket: bucket, Visible: Never, Due: Never, State: StateNote, Revision: c.Revision, Body: b}
}

// DecodeCalendar reads a calendar's row.
func DecodeCalendar(row *Row) (Calendar, error) {
	c := Calendar{Namespace: row.Key.Namespace, Name: strings.TrimPrefix(row.Key.Name, calendarName), Revision: row.Revision}
	d := decoder{b: row.Body}
	if v := d.byte(); v != bodyVersion {
		return Calendar{}, fmt.Errorf("calendar %s/%s: version %d, this rouse reads %d", c.Namespace, c.Name, v, bodyVersion)
	}
	c.Updated = Instant(d.varint())
	if n := d.count(2); n > 0 {
		c.Days = make([]Day, n)
		last := Date(0)
		for i := range c.Days {
			last += Date(d.varint())
			c.Days[i] = Day{last, d.text()}
		}
	}
	if d.bad || len(d.b) != 0 {
		return Calendar{}, fmt.Errorf("calendar %s/%s: %w", c.Namespace, c.Name, errBody)
	}
	return c, nil
}
