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

	"github.com/rousehq/rouse/internal/codec"
)

// bodyVersion is the first byte of a row's body. A reader refuses unknown versions. A new field needs a new
// version, and readers continue to support the old ones. A new version, or a new part, needs new formats of
// the stores (forms_test.go): programs that do not read it must not open them.
const bodyVersion = 2

// recordVersion is the same for records.
const recordVersion = 5

// Versions of records that have less: the forms that earlier versions read, too.
const (
	plainRecord    = 3 // without a target and an answer
	targetedRecord = 4 // without an answer
)

// The parts of a body that most timers do not have, each with its bit, written in this order behind the rest.
const (
	partWhen       = 1 << iota // fields that decide when, next to schedule and timezone
	partCalendar               // Spec.Calendar
	partRetry                  // Retry.Factor and GiveUp
	partPolicy                 // Within, Overlap, Deadline, Priority, Keep
	partProgress               // Until, Skips, Backlog, Began, Passed
	partFailures               // Failures
	partDetached               // Live, Asked, Cut
	partCritical               // Criticality
	partAnswer                 // Answer
	partWaits                  // Waits
	partCounts                 // Fired, Dead, Missed
	partPause                  // PauseAfter, ConsecutiveDead, PauseCause
	partTrace                  // Trace
	partExpect                 // Spec.Expect, Succeeded, ExpectFrom, Overdue, Notice
	partPauses                 // PausedAt, Pauses
	partRetryOn                // Webhook.RetryOn
	partLimit                  // Limit, LimitKey
	partNotify                 // Notify, OnSuccess, OnFailure, Notices
	partKeepAnswer             // KeepAnswer
	partLimitKey               // Timer.LimitKey
	partAll        = 1<<iota - 1
)

// lostShift is where Lost begins in the first number of a body, behind the flags: earlier versions, which do
// not count losses, read no further than these.
const lostShift = 3

var errBody = errors.New("the timer's body is damaged")

// Row returns the timer as a store keeps it. The row shares the timer's labels.
func (t *Timer) Row() Row {
	return Row{Key: t.Key, Bucket: t.Bucket, Visible: t.Visible, Revision: t.Revision, Generation: t.Generation,
		State: t.State(), Due: t.Due, Labels: t.Spec.Labels, Criticality: t.Spec.Criticality,
		Body: t.appendBody(make([]byte, 0, t.bodySize()))}
}

func (t *Timer) bodySize() int {
	n := 96 + len(t.Spec.Schedule) + len(t.Spec.Timezone) + len(t.Spec.Target) + len(t.Spec.Payload) +
		len(t.Spec.ContentType) +
		len(t.Reason) + len(t.LastError) + 10*len(t.Runs)
	for k, v := range t.Spec.Webhook.Headers {
		n += len(k) + len(v) + 4
	}
	if t.Trace != nil {
		n += 25
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
	flags |= uint64(t.Lost) << lostShift
	b = binary.AppendUvarint(b, flags)
	b = codec.AppendText(b, s.Schedule)
	b = codec.AppendText(b, s.Timezone)
	b = codec.AppendText(b, s.Target)
	b = codec.AppendText(b, s.ContentType)
	b = codec.AppendText(b, s.Payload)
	b = binary.AppendUvarint(b, uint64(s.Retry.Attempts))
	for _, d := range [...]time.Duration{s.Retry.Interval, s.Retry.Max, s.Retry.Jitter, s.Retry.Timeout,
		s.Webhook.Accept} {
		b = binary.AppendVarint(b, int64(d))
	}
	b = append(b, byte(s.Misfire))
	b = codec.AppendText(b, s.Webhook.Method)
	b = binary.AppendUvarint(b, uint64(s.Webhook.Batch))
	b = binary.AppendUvarint(b, uint64(len(s.Webhook.Headers)))
	if len(s.Webhook.Headers) > 0 {
		for _, k := range slices.Sorted(maps.Keys(s.Webhook.Headers)) {
			b = codec.AppendText(codec.AppendText(b, k), s.Webhook.Headers[k])
		}
	}
	b = codec.AppendText(b, t.Reason)
	for _, i := range [...]Instant{t.Created, t.Updated, t.Anchor} {
		b = binary.AppendVarint(b, int64(i))
	}
	b = binary.AppendUvarint(b, uint64(len(t.Runs)))
	for _, r := range t.Runs {
		b = binary.AppendVarint(b, int64(r))
	}
	b = binary.AppendUvarint(b, uint64(t.Attempts))
	b = binary.AppendUvarint(b, t.Token)
	b = codec.AppendText(b, t.LastError)
	b = binary.AppendUvarint(b, t.Ended)
	return t.appendParts(b)
}

// bodyParts returns which parts the timer has.
func (t *Timer) bodyParts() (parts uint64) {
	s := &t.Spec
	c := &s.Calendar
	paused, plain := pausedBefore(t)
	has := func(part uint64, ok bool) {
		if ok {
			parts |= part
		}
	}
	has(partWhen, len(s.Also) > 0 || len(s.Except) > 0 || s.DST != "" || s.Start != 0 || s.End != 0 || s.TTL != 0 ||
		s.MaxOccurrences != 0 || s.Jitter != 0)
	has(partCalendar, len(c.Off) > 0 || len(c.Only) > 0 || c.Shift != 0)
	has(partRetry, s.Retry.Factor != 0 || s.Retry.GiveUp != 0)
	has(partPolicy, s.Within != 0 || s.Overlap != 0 || s.Deadline != 0 || s.Priority != 0 || s.Keep != 0)
	has(partProgress, t.Until != 0 || t.Skips != 0 || plain && paused != 0 || t.Backlog != Span{} || t.Began != 0 ||
		t.Passed != 0)
	has(partFailures, len(t.Failures) > 0)
	has(partDetached, t.Live || t.Asked || t.Cut != 0)
	has(partCritical, s.Criticality != 0)
	has(partAnswer, t.Answer != nil)
	has(partWaits, len(t.Waits) > 0)
	has(partPause, s.PauseAfter != 0 || t.ConsecutiveDead != 0 || t.PauseCause != 0)
	has(partTrace, t.Trace != nil)
	has(partExpect, s.Expect.Any() || t.Succeeded != 0 || t.ExpectFrom != 0 || t.Overdue != 0 || t.Notice != 0)
	has(partPauses, !plain)
	has(partRetryOn, len(s.Webhook.RetryOn) > 0)
	has(partLimit, s.Limit != "" || s.LimitKey != "")
	has(partLimitKey, t.LimitKey != "")
	has(partNotify, s.hasNotices() || t.Notices != NoticeState{})
	has(partKeepAnswer, s.KeepAnswer != 0)
	has(partCounts, t.Fired != 0 || t.Dead != 0 || t.Missed != 0)
	return parts
}

// plainPause reports whether the timer is paused and has no occurrence in progress. Where earlier versions
// kept the end of the last pause while an occurrence was in progress, it has the beginning of this one. So
// they can read it; a row with a partPauses they cannot.
func (t *Timer) plainPause() bool {
	return t.Paused && !inProgress(t) && len(t.Pauses) == 0
}

// pausedBefore returns a timer's pauses in the form that earlier versions read: the beginning of a plain one,
// or the end of one that they made, while an occurrence is in progress. plain is false if they have more to
// them.
func pausedBefore(t *Timer) (at Instant, plain bool) {
	switch {
	case t.plainPause():
		return t.PausedAt, true
	case t.PausedAt != 0 || len(t.Pauses) > 1:
		return 0, false
	case len(t.Pauses) == 0:
		return 0, true
	}
	p := t.Pauses[0]
	return p.To, p.From == MinInstant && p.To != 0 && (!t.Paused || inProgress(t))
}

// ReadBeforePauses reports whether programs that do not know partPauses read the timer's row: those of the
// versions before 6 of PostgreSQL's schema.
func ReadBeforePauses(t *Timer) bool {
	_, plain := pausedBefore(t)
	return plain
}

func (t *Timer) appendParts(b []byte) []byte {
	s := &t.Spec
	parts := t.bodyParts()
	b = binary.AppendUvarint(b, parts)
	if parts&partWhen != 0 {
		b = codec.AppendTexts(codec.AppendTexts(b, s.Also), s.Except)
		b = codec.AppendText(b, s.DST)
		for _, v := range [...]int64{int64(s.Start), int64(s.End), int64(s.TTL), int64(s.MaxOccurrences), int64(s.Jitter)} {
			b = binary.AppendVarint(b, v)
		}
	}
	if parts&partCalendar != 0 {
		b = codec.AppendTexts(codec.AppendTexts(b, s.Calendar.Off), s.Calendar.Only)
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
		paused, plain := pausedBefore(t)
		if !plain {
			paused = 0
		}
		for _, v := range [...]int64{int64(t.Until), int64(t.Skips), int64(paused), int64(t.Backlog.From),
			int64(t.Backlog.To), int64(t.Began), int64(t.Passed)} {
			b = binary.AppendVarint(b, v)
		}
	}
	if parts&partFailures != 0 {
		b = appendFailures(b, t.Failures)
	}
	if parts&partDetached != 0 {
		var flags byte
		if t.Live {
			flags |= 1
		}
		if t.Asked {
			flags |= 2
		}
		if t.Cut != 0 {
			b = append(b, flags|4, byte(t.Cut))
		} else {
			b = append(b, flags)
		}
	}
	if parts&partCritical != 0 {
		b = append(b, s.Criticality)
	}
	if parts&partAnswer != 0 {
		b = codec.AppendText(b, t.Answer.ContentType)
		b = codec.AppendText(b, t.Answer.Payload)
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
	if parts&partTrace != 0 {
		b = appendTrace(b, t.Trace)
	}
	if parts&partExpect != 0 {
		b = binary.AppendVarint(binary.AppendVarint(b, int64(s.Expect.Every)), int64(s.Expect.Grace))
		b = codec.AppendText(b, s.Expect.Notify)
		for _, i := range [...]Instant{t.Succeeded, t.ExpectFrom, t.Overdue} {
			b = binary.AppendVarint(b, int64(i))
		}
		b = append(b, byte(t.Notice))
	}
	if parts&partPauses != 0 {
		b = binary.AppendVarint(b, int64(t.PausedAt))
		b = binary.AppendUvarint(b, uint64(len(t.Pauses)))
		for _, p := range t.Pauses {
			b = binary.AppendVarint(binary.AppendVarint(b, int64(p.From)), int64(p.To))
		}
	}
	if parts&partRetryOn != 0 {
		b = codec.AppendTexts(b, s.Webhook.RetryOn)
	}
	if parts&partLimit != 0 {
		b = codec.AppendText(codec.AppendText(b, s.Limit), s.LimitKey)
	}
	if parts&partNotify != 0 {
		n := &s.Notify
		b = codec.AppendTexts(codec.AppendText(b, n.Target), n.Events)
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(n.Late)), uint64(n.After))
		b = codec.AppendText(binary.AppendVarint(b, int64(n.Every)), n.Format)
		b = codec.AppendText(codec.AppendText(b, s.OnSuccess), s.OnFailure)
		st := &t.Notices
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(st.Since)), uint64(st.Events))
		b = appendFlag(b, st.Alarmed)
	}
	if parts&partKeepAnswer != 0 {
		b = binary.AppendUvarint(b, uint64(s.KeepAnswer))
	}
	if parts&partLimitKey != 0 {
		b = codec.AppendText(b, t.LimitKey)
	}
	return b
}

func (t *Timer) readParts(d *decoder) {
	s := &t.Spec
	parts := d.Uvarint()
	if parts&^partAll != 0 {
		d.Fail() // written by a later version: nothing of it may be lost
	}
	if parts&partWhen != 0 {
		s.Also, s.Except, s.DST = d.Texts(), d.Texts(), d.Text()
		s.Start, s.End, s.TTL = Instant(d.Varint()), Instant(d.Varint()), time.Duration(d.Varint())
		s.MaxOccurrences, s.Jitter = uint64(d.Varint()), time.Duration(d.Varint())
	}
	if parts&partCalendar != 0 {
		s.Calendar.Off, s.Calendar.Only, s.Calendar.Shift = d.Texts(), d.Texts(), Shift(d.Byte())
	}
	if parts&partRetry != 0 {
		s.Retry.Factor, s.Retry.GiveUp = math.Float64frombits(d.Uvarint()), time.Duration(d.Varint())
	}
	if parts&partPolicy != 0 {
		s.Within, s.Overlap, s.Deadline = time.Duration(d.Varint()), Overlap(d.Varint()), time.Duration(d.Varint())
		s.Priority, s.Keep = Priority(d.Varint()), time.Duration(d.Varint())
	}
	if parts&partProgress != 0 {
		t.Until, t.Skips = Instant(d.Varint()), uint32(d.Varint())
		paused := Instant(d.Varint())
		t.Backlog = Span{Instant(d.Varint()), Instant(d.Varint())}
		t.Began, t.Passed = Instant(d.Varint()), uint64(d.Varint())
		switch {
		case paused == 0:
		case t.plainPause():
			t.PausedAt = paused
		default:
			t.Pauses = PausedUntil(paused)
		}
	}
	if parts&partFailures != 0 {
		t.Failures = d.readFailures()
	}
	if parts&partDetached != 0 {
		flags := d.Byte()
		t.Live, t.Asked = flags&1 != 0, flags&2 != 0
		if flags&4 != 0 {
			t.Cut = Cause(d.Byte())
		}
	}
	if parts&partCritical != 0 {
		s.Criticality = d.Byte()
	}
	if parts&partAnswer != 0 {
		t.Answer = &Answer{ContentType: d.Text(), Payload: d.Bytes()}
	}
	if parts&partWaits != 0 {
		t.Waits = make([]Wait, d.Count(3))
		for i := range t.Waits {
			t.Waits[i] = Wait{Cause(d.Byte()), Instant(d.Varint()), Instant(d.Varint())}
		}
	}
	if parts&partCounts != 0 {
		t.Fired, t.Dead, t.Missed = d.Uvarint(), d.Uvarint(), d.Uvarint()
	}
	if parts&partPause != 0 {
		s.PauseAfter, t.ConsecutiveDead, t.PauseCause = uint32(d.Uvarint()), uint32(d.Uvarint()), PauseCause(d.Byte())
	}
	if parts&partTrace != 0 {
		t.Trace = readTrace(d)
	}
	if parts&partExpect != 0 {
		s.Expect = Expect{Every: time.Duration(d.Varint()), Grace: time.Duration(d.Varint()), Notify: d.Text()}
		t.Succeeded, t.ExpectFrom, t.Overdue = Instant(d.Varint()), Instant(d.Varint()), Instant(d.Varint())
		t.Notice = Notice(d.Byte())
	}
	if parts&partPauses != 0 {
		t.PausedAt = Instant(d.Varint())
		if n := d.Count(2); n > 0 {
			t.Pauses = make([]Span, n)
			for i := range t.Pauses {
				t.Pauses[i] = Span{Instant(d.Varint()), Instant(d.Varint())}
			}
		}
	}
	if parts&partRetryOn != 0 {
		s.Webhook.RetryOn = d.Texts()
	}
	if parts&partLimit != 0 {
		s.Limit, s.LimitKey = d.Text(), d.Text()
	}
	if parts&partNotify != 0 {
		s.Notify = Notify{Target: d.Text(), Events: d.Texts(), Late: time.Duration(d.Varint()), After: uint32(d.Uvarint()),
			Every: time.Duration(d.Varint()), Format: d.Text()}
		s.OnSuccess, s.OnFailure = d.Text(), d.Text()
		t.Notices = NoticeState{Since: Instant(d.Varint()), Events: uint32(d.Uvarint()), Alarmed: d.Byte() != 0}
	}
	if parts&partKeepAnswer != 0 {
		s.KeepAnswer = uint32(d.Uvarint())
	}
	if parts&partLimitKey != 0 {
		t.LimitKey = d.Text()
	}
}

func appendFailures(b []byte, list []Attempt) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, f := range list {
		b = binary.AppendVarint(b, int64(f.Sent))
		b = binary.AppendVarint(b, int64(f.Took/time.Millisecond))
		b = binary.AppendVarint(b, int64(f.Code))
		b = codec.AppendText(b, f.Detail)
	}
	return b
}

// DecodeTimer reads a row. The timer shares the row's labels and body.
func DecodeTimer(row *Row) (Timer, error) {
	t := Timer{Key: row.Key, Bucket: row.Bucket, Generation: row.Generation, Revision: row.Revision, Visible: row.Visible,
		Due: row.Due}
	t.Spec.Labels = row.Labels
	d := decoder{codec.Read(row.Body)}
	v := d.Byte()
	if v != 1 && v != bodyVersion {
		return Timer{}, fmt.Errorf("timer %s/%s: body version %d, this rouse reads %d", row.Key.Namespace, row.Key.Name, v,
			bodyVersion)
	}
	s := &t.Spec
	flags := d.Uvarint()
	t.Paused, t.Manual, s.Webhook.Structured = flags&1 != 0, flags&2 != 0, flags&4 != 0
	t.Lost = uint32(min(flags>>lostShift, MaxLost))
	s.Schedule, s.Timezone, s.Target, s.ContentType = d.Text(), d.Text(), d.Text(), d.Text()
	s.Payload = d.Bytes()
	s.Retry.Attempts = uint32(d.Uvarint())
	for _, p := range [...]*time.Duration{&s.Retry.Interval, &s.Retry.Max, &s.Retry.Jitter, &s.Retry.Timeout,
		&s.Webhook.Accept} {
		*p = time.Duration(d.Varint())
	}
	s.Misfire = Misfire(d.Byte())
	s.Webhook.Method = d.Text()
	s.Webhook.Batch = uint32(d.Uvarint())
	if n := d.Count(2); n > 0 {
		s.Webhook.Headers = make(map[string]string, n)
		for range n {
			k := d.Text()
			s.Webhook.Headers[k] = d.Text()
		}
	}
	t.Reason = d.readProse()
	for _, p := range [...]*Instant{&t.Created, &t.Updated, &t.Anchor} {
		*p = Instant(d.Varint())
	}
	if n := d.Count(1); n > 0 {
		t.Runs = make([]Instant, n)
		for i := range t.Runs {
			t.Runs[i] = Instant(d.Varint())
		}
	}
	t.Attempts = uint32(d.Uvarint())
	t.Token = d.Uvarint()
	t.LastError = d.readProse()
	t.Ended = d.Uvarint()
	if v > 1 {
		t.readParts(&d)
	} else {
		t.Live = t.Key.Fire != "" && t.Visible != Never
		t.Asked = t.Live
	}
	if !d.Done() {
		return Timer{}, fmt.Errorf("timer %s/%s: %w", row.Key.Namespace, row.Key.Name, errBody)
	}
	return t, nil
}

// AppendRecord appends the record without namespace and name, which a store keeps in its key.
func AppendRecord(b []byte, r *Record) []byte {
	switch a := r.Answer; {
	case a != nil:
		b = codec.AppendText(append(b, recordVersion), r.Target)
		b = codec.AppendText(codec.AppendText(b, a.ContentType), a.Payload)
		b = appendFlag(b, a.Cut)
	case r.Target != "":
		b = codec.AppendText(append(b, targetedRecord), r.Target)
	default:
		b = append(b, plainRecord)
	}
	b = appendFlag(append(b, byte(r.Ending)), r.Manual)
	b = binary.AppendUvarint(b, r.Generation)
	for _, i := range [...]Instant{r.Due, r.LastDue, r.Sent, r.Ended} {
		b = binary.AppendVarint(b, int64(i))
	}
	b = binary.AppendUvarint(b, uint64(r.Count))
	b = binary.AppendUvarint(b, uint64(r.Attempts))
	b = binary.AppendVarint(b, int64(r.Code))
	b = codec.AppendText(b, r.Reason)
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

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}

// DecodeRecord decodes a record that AppendRecord encoded; namespace and name are left empty.
func DecodeRecord(b []byte) (Record, error) {
	d := decoder{codec.Read(b)}
	v := d.Byte()
	if v < 1 || v > recordVersion {
		return Record{}, fmt.Errorf("record version %d, this rouse reads %d", v, recordVersion)
	}
	var r Record
	if v > plainRecord {
		r.Target = d.readProse()
	}
	if v > targetedRecord {
		r.Answer = &Answer{ContentType: d.readProse(), Payload: d.Bytes(), Cut: d.Byte() != 0}
	}
	r.Ending, r.Manual, r.Generation = Ending(d.Byte()), d.Byte() != 0, d.Uvarint()
	for _, p := range [...]*Instant{&r.Due, &r.LastDue, &r.Sent, &r.Ended} {
		*p = Instant(d.Varint())
	}
	r.Count, r.Attempts, r.Code = uint32(d.Uvarint()), uint32(d.Uvarint()), int(d.Varint())
	r.Reason = d.readProse()
	if v > 1 {
		r.Began, r.Failures = Instant(d.Varint()), d.readFailures()
	}
	if v > 2 {
		if r.Cause = Cause(d.Byte()); r.Cause == CauseOverlapped {
			other := d.Varint()
			r.Other, r.OtherManual = Instant(other>>1), other&1 != 0
		}
	}
	if !d.Done() {
		return Record{}, errors.New("the record is damaged")
	}
	return r, nil
}

// decoder reads bodies, and the fields that they share with records. Texts share the bytes they were read
// from: bodies are never changed.
type decoder struct{ codec.Reader }

func (d *decoder) readFailures() []Attempt {
	n := d.Count(4)
	if n == 0 {
		return nil
	}
	list := make([]Attempt, n)
	for i := range list {
		list[i] = Attempt{Sent: Instant(d.Varint()), Took: time.Duration(d.Varint()) * time.Millisecond,
			Code: int(d.Varint()), Detail: d.readProse()}
	}
	return list
}

// readProse is text for people. Earlier versions kept texts that cannot be shown: those are cleaned, so that
// one of them does not break the list that it is in.
func (d *decoder) readProse() string { return CleanText(d.Text(), math.MaxInt) }

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
		b = codec.AppendText(b, d.Text)
		last = d.Date
	}
	return Row{Key: CalendarKey(c.Namespace, c.Name), Bucket: bucket, Visible: Never, Due: Never, State: StateNote,
		Revision: c.Revision, Body: b}
}

// DecodeCalendar reads a calendar's row.
func DecodeCalendar(row *Row) (Calendar, error) {
	c := Calendar{Namespace: row.Key.Namespace, Name: strings.TrimPrefix(row.Key.Name, calendarName),
		Revision: row.Revision}
	d := decoder{codec.Read(row.Body)}
	if v := d.Byte(); v != bodyVersion {
		return Calendar{}, fmt.Errorf("calendar %s/%s: version %d, this rouse reads %d", c.Namespace, c.Name, v, bodyVersion)
	}
	c.Updated = Instant(d.Varint())
	if n := d.Count(2); n > 0 {
		c.Days = make([]Day, n)
		last := Date(0)
		for i := range c.Days {
			last += Date(d.Varint())
			c.Days[i] = Day{last, d.Text()}
		}
	}
	if !d.Done() {
		return Calendar{}, fmt.Errorf("calendar %s/%s: %w", c.Namespace, c.Name, errBody)
	}
	return c, nil
}
