package timers

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
)

// A request with an Idempotency-Key leaves a mark: a row next to the one that it changes, written in the same
// commit, which is conditional on the row's revision. So there is a mark if, and only if, the request was
// carried out, even if something failed after it, and a repetition finds it. The row of marks needs attention
// when the last of them is a day old: then the engine removes it.
//
// A key belongs to one request, also among those that change other rows. So the request leaves a note as
// well, whose name is made of the key. Only the mark is in the commit of the change, because the note may be
// on another server: a note without a mark is of a request that was not carried out.

// maxMarks bounds the marks of one row: a key is valid for access.RepeatAge, or until so many further ones.
const maxMarks = 64

func markKey(key rouse.Key) rouse.Key {
	key.Fire += access.MarkFire
	return key
}

// mark is a request that was carried out, and the values of its answer.
type mark struct {
	Tag  access.Tag    `json:"tag"`
	Asks uint64        `json:"asks"` // hash of the arguments
	At   rouse.Instant `json:"at"`
	Due  rouse.Instant `json:"due,omitempty"`
	N    uint64        `json:"n,omitempty"`
	More uint64        `json:"more,omitempty"`
}

// repeatable is a request that may be repeated.
type repeatable struct {
	mark
	list      []mark // that the row has already
	namespace string
	whole     uint64     // hash of the request with the name of its timer; 0 if it leaves no note
	note      *askedNote // that it has to leave; nil if it is there
	admitted  bool       // by the quota of bytes, which counts its note once
}

// newRepeatable returns the request of a call, described by the timer and by its arguments; nil if its caller
// does not repeat it.
func newRepeatable(ctx context.Context, key rouse.Key, what ...any) *repeatable {
	tag, ok := access.TagOf(ctx, key.Namespace)
	if !ok {
		return nil
	}
	h := fnv.New64a()
	for _, w := range what {
		fmt.Fprintf(h, "%q\x00", fmt.Sprint(w))
	}
	o := &repeatable{mark: mark{Tag: tag, Asks: h.Sum64()}, namespace: key.Namespace}
	if !access.OfParts(ctx) {
		fmt.Fprintf(h, "of %q", key.Name)
		o.whole = h.Sum64()
	}
	return o
}

// asked is the note of an Idempotency-Key: a hash of its request, and the job that the request has made, if
// it makes one. It is removed when the key is not valid any more.
type asked struct {
	Job  string        `json:"job,omitempty"`
	Asks uint64        `json:"asks"` // hash of the arguments
	At   rouse.Instant `json:"at"`
}

// askedNote is a note, and where it is.
type askedNote struct {
	asked
	key      rouse.Key
	revision uint64 // that the note has; rouse.NoRow if there is none
}

// storedRow is the note as it is stored.
func (n *askedNote) storedRow(now rouse.Instant, bucket uint32) (rouse.Row, error) {
	n.At = now
	body, err := json.Marshal(&n.asked)
	return rouse.Row{Key: n.key, Bucket: bucket, State: rouse.StateNote, Due: rouse.Never,
		Visible: now.Add(access.RepeatAge), Body: body}, err
}

// noteKey is where the note of the request is.
func (o *repeatable) noteKey() rouse.Key {
	in := rouse.JobKey(cmp.Or(o.namespace, rouse.Everywhere), "")
	return rouse.Key{Namespace: in.Namespace, Name: access.NoteName + string(o.Tag)}
}

// noteIn returns the note of the request, from the row that was read. It is refused if the key is of another
// request.
func (o *repeatable) noteIn(ts *Timers, row *rouse.Row) (n askedNote, err error) {
	n = askedNote{asked: asked{Asks: o.whole}, key: o.noteKey(), revision: rouse.NoRow}
	if row.Revision == 0 {
		return n, nil
	}
	n.revision = row.Revision
	var was asked
	switch err := json.Unmarshal(row.Body, &was); {
	case err != nil:
		return n, fmt.Errorf("the note of an Idempotency-Key cannot be read: %w", err)
	case was.At < ts.Engine.Now().Add(-access.RepeatAge):
		return n, nil
	case was.Asks != o.whole:
		return n, ErrOtherRequest
	}
	n.asked = was
	return n, nil
}

// ErrOtherRequest refuses a request whose key another one had.
var ErrOtherRequest = rouse.Refuse("Idempotency-Key", "", "was given with another request",
	"give each request a key of its own")

// DoOnce calls do, and then notes that the Idempotency-Key, if there is one, belongs to this call. It refuses
// the key of another call before. do itself has to recognise a repetition: its context is one of
// access.CarriedOut if the first call has left its note.
func (ts *Timers) DoOnce(ctx context.Context, namespace string, what []any, do func(context.Context) error) error {
	o := newRepeatable(ctx, rouse.Key{Namespace: namespace}, what...)
	if o == nil || o.whole == 0 {
		return do(ctx)
	}
	if namespace != "" {
		if err := rouse.CheckNamespace(namespace); err != nil {
			return err
		}
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return err
	}
	rows, err := ts.store.Get(ctx, []rouse.Key{o.noteKey()})
	if err != nil {
		return err
	}
	n, err := o.noteIn(ts, &rows[0])
	if err != nil {
		return err
	}
	if n.At != 0 {
		return do(access.CarriedOut(ctx))
	}
	if err := o.admitNote(ts, &n); err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	return o.leaveNote(ctx, ts)
}

// leaveNote leaves the note of a request whose mark is written later, or elsewhere.
func (o *repeatable) leaveNote(ctx context.Context, ts *Timers) error {
	if o == nil || o.whole == 0 {
		return nil
	}
	for range maxTries {
		rows, err := ts.store.Get(ctx, []rouse.Key{o.noteKey()})
		if err != nil {
			return err
		}
		n, err := o.noteIn(ts, &rows[0])
		if err != nil || n.At != 0 {
			return err
		}
		o.note = &n
		w, err := o.noteWrite(ts)
		if err != nil {
			return err
		}
		if out, err := ts.Engine.WriteOne(ctx, w); err != nil || out.Applied {
			return err
		}
	}
	return rouse.ErrUnavailable
}

// noteWrite is the write of the note that the request has to leave; nil if it is there.
func (o *repeatable) noteWrite(ts *Timers) (*engine.Write, error) {
	if o == nil || o.note == nil {
		return nil, nil
	}
	n := o.note
	o.note = nil
	if err := o.admitNote(ts, n); err != nil {
		return nil, err
	}
	row, err := n.storedRow(ts.Engine.Latest(), rouse.BucketOf(n.key, ts.opts.Engine.Buckets))
	return &engine.Write{Change: rouse.Change{Key: n.key, If: n.revision, To: &row}}, err
}

// admitNote admits the note of the request by the quota of bytes of its namespace, before anything is done.
// Requests that change no more than a timer which exists would otherwise fill the namespace with their notes.
func (o *repeatable) admitNote(ts *Timers, n *askedNote) error {
	if o.admitted || n == nil {
		return nil
	}
	if err := ts.admission.admitNote(n, ts.Engine.Latest()); err != nil {
		return err
	}
	o.admitted = true
	return nil
}

// writeWithNote makes a write of the request, which has its mark, and leaves its note in the same step. That
// another request with the key has left one in the meantime changes nothing: neither was repeated.
func (o *repeatable) writeWithNote(ctx context.Context, ts *Timers, w *engine.Write) (engine.Written, error) {
	note, err := o.noteWrite(ts)
	if err != nil {
		return engine.Written{}, err
	}
	if note == nil {
		return ts.Engine.WriteOne(ctx, w)
	}
	out, err := ts.Engine.Write(ctx, []*engine.Write{w, note})
	if err != nil {
		return engine.Written{}, err
	}
	return out[0], out[0].Err
}

// timerContents describes a timer for newRepeatable.
func timerContents(t *rouse.Timer) string {
	row := t.Row()
	for _, k := range slices.Sorted(maps.Keys(row.Labels)) {
		row.Body = binary.AppendUvarint(row.Body, uint64(len(k)))
		row.Body = append(append(row.Body, k...), row.Labels[k]...)
	}
	if t.Due != 0 { // of an import
		row.Body = binary.AppendUvarint(row.Body, uint64(t.Due))
	}
	return string(row.Body)
}

// findMark returns the mark that an earlier request has left next to the row of the key; nil if there is
// none. It refuses a key that another request had. It has to be called after the row was read: then no mark
// is missing that the row's revision came with.
func (o *repeatable) findMark(ctx context.Context, ts *Timers, key rouse.Key) (*mark, error) {
	keys := []rouse.Key{markKey(key), o.noteKey()}
	if o.whole == 0 {
		keys = keys[:1]
	}
	rows, err := ts.store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	was, err := o.findMarkIn(ctx, ts, &rows[0])
	if was != nil || err != nil || o.whole == 0 {
		return was, err
	}
	return nil, o.expectNote(ts, &rows[1])
}

// expectNote finds out from the row whether the request has to leave its note.
func (o *repeatable) expectNote(ts *Timers, row *rouse.Row) error {
	n, err := o.noteIn(ts, row)
	if o.note = nil; err == nil && n.At == 0 {
		o.note = &n
	}
	return err
}

// expectedNote is the write of the note that the request has to leave, as the row tells; nil if it is there.
func (o *repeatable) expectedNote(ts *Timers, row *rouse.Row) (*engine.Write, error) {
	if err := o.expectNote(ts, row); err != nil {
		return nil, err
	}
	return o.noteWrite(ts)
}

// findMarkIn is findMark for a row of marks that was read.
func (o *repeatable) findMarkIn(ctx context.Context, ts *Timers, row *rouse.Row) (*mark, error) {
	o.list = nil
	if row.Revision != 0 {
		if err := json.Unmarshal(row.Body, &o.list); err != nil {
			return nil, fmt.Errorf("the marks of %s/%s cannot be read: %w", row.Key.Namespace, row.Key.Name, err)
		}
	}
	since := ts.Engine.Now().Add(-access.RepeatAge)
	o.list = slices.DeleteFunc(o.list, func(m mark) bool { return m.At < since })
	i := slices.IndexFunc(o.list, func(m mark) bool { return m.Tag == o.Tag })
	switch {
	case i < 0:
		return nil, nil
	case o.list[i].Asks != o.Asks:
		return nil, ErrOtherRequest
	}
	audit.Repeated(ctx)
	return &o.list[i], nil
}

// addMark adds the mark of the request to its change.
func (o *repeatable) addMark(ts *Timers, c *rouse.Change, bucket uint32) error {
	o.At = ts.Engine.Latest()
	// an earlier part of the same request
	list := slices.DeleteFunc(slices.Clone(o.list), func(m mark) bool { return m.Tag == o.Tag })
	list = append(list, o.mark)
	body, err := json.Marshal(list[max(0, len(list)-maxMarks):])
	if err != nil {
		return err
	}
	c.Also = append(c.Also, rouse.Row{Key: markKey(c.Key), Bucket: bucket, State: rouse.StateNote, Due: rouse.Never,
		Visible: o.At.Add(access.RepeatAge), Body: body})
	return nil
}

// hashPuts fills in the hashes of puts with an Idempotency-Key, each and together. A row has one mark of a
// key: so of puts with one name, those that differ from the first one are refused, and the others have its
// answer.
func hashPuts(ctx context.Context, puts []Put) {
	if access.RepeatKey(ctx) == "" {
		return
	}
	h := fnv.New64a()
	named := make(map[rouse.Key]*Put, len(puts))
	for i := range puts {
		p := &puts[i]
		if p.whole != 0 { // of a call that is tried again
			return
		}
		p.asks = timerContents(&rouse.Timer{Spec: p.Spec})
		fmt.Fprintf(h, "%q %d %d %q\x00", p.Key.Name, p.Mode, p.IfRevision, p.asks)
		switch first := named[p.Key]; {
		case first == nil:
			named[p.Key] = p
		default:
			p.clashes = p.Mode != first.Mode || p.IfRevision != first.IfRevision || p.asks != first.asks
		}
	}
	for i := range puts {
		puts[i].whole = h.Sum64()
	}
}

// refuseClash refuses a put that clashes.
func refuseClash(p *Put) error {
	err := rouse.ErrConflict
	if p.Mode == CreateOnly && p.IfRevision == 0 {
		err = rouse.ErrExists
	}
	return fmt.Errorf("timer %q (of this request, with another spec; with an Idempotency-Key, give each name once): %w",
		p.Key.Name, err)
}

// repeatablePut returns the request of a put; nil if its caller does not repeat it.
func (p *Put) repeatablePut(ctx context.Context) *repeatable {
	o := newRepeatable(ctx, p.Key, "put", p.Mode, p.IfRevision, p.asks)
	if o != nil {
		o.whole = p.whole
	}
	return o
}

// takeOutRepeated takes the puts out that an earlier request with the same key has made, and gives them the
// present timers as their results; the others get its mark, and the first of them its note, which is the last
// of the writes then.
func takeOutRepeated(ctx context.Context, ts *Timers, puts []Put, items []*engine.Write, at []int,
	results []PutResult) ([]*engine.Write, []int, *engine.Write, error) {
	if access.RepeatKey(ctx) == "" || len(items) == 0 {
		return items, at, nil, nil
	}
	keys := make([]rouse.Key, 0, len(at)+1)
	for _, i := range at {
		keys = append(keys, markKey(puts[i].Key))
	}
	first := puts[at[0]].repeatablePut(ctx)
	rows, err := ts.store.Get(ctx, append(keys, first.noteKey()))
	if err != nil {
		return nil, nil, nil, err
	}
	var leftItems []*engine.Write
	var leftAt []int
	for j, i := range at {
		p, res := &puts[i], &results[i]
		o := p.repeatablePut(ctx)
		was, err := o.findMarkIn(ctx, ts, &rows[j])
		if err != nil || was != nil {
			*res = readRepeated(ctx, ts, p.Key, err)
			continue
		}
		if err := o.addMark(ts, &items[j].Change, res.Timer.Bucket); err != nil {
			return nil, nil, nil, err
		}
		leftItems, leftAt = append(leftItems, items[j]), append(leftAt, i)
	}
	if len(leftItems) == 0 || first.whole == 0 {
		return leftItems, leftAt, nil, nil
	}
	note, err := first.expectedNote(ts, &rows[len(at)])
	if err != nil {
		for _, i := range leftAt {
			results[i] = PutResult{Err: err}
		}
		return nil, nil, nil, nil
	}
	return leftItems, leftAt, note, nil
}

// errGoneSince is of a timer that is not there when its request is repeated.
var errGoneSince = errors.New("the timer has ended or was deleted since")

// readRepeated is the result of a put that was made before: the timer as it is now. It may have got another
// target or other labels since, with which the caller may not touch it.
func readRepeated(ctx context.Context, ts *Timers, key rouse.Key, err error) PutResult {
	if err != nil {
		return PutResult{Err: err}
	}
	rows, err := ts.store.Get(ctx, []rouse.Key{key})
	if err == nil && rows[0].Revision == 0 {
		err = fmt.Errorf("timer %q: the first request with this Idempotency-Key was carried out, and %w: %w",
			key.Name, errGoneSince, rouse.ErrConflict)
	}
	if err != nil {
		return PutResult{Err: err}
	}
	t, err := ts.Read(&rows[0])
	if err == nil {
		err = ts.mayTouch(ctx, access.TimersCreate, &t)
	}
	if err != nil {
		return PutResult{Replaced: true, Err: err}
	}
	ts.access.Redact(ctx, &t)
	return PutResult{Timer: t, Replaced: true}
}
