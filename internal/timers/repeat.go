package timers

import (
	"context"
	"encoding/binary"
	"encoding/json"
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
// carried out, whatever failed after it, and a repetition finds it. The row of marks needs attention when the
// last of them is a day old: then the engine removes it.
//
// A timer that is created, and only that, needs no mark: the timer itself is one.

// maxMarks bounds the marks of one row: a key is valid for access.RepeatAge, or until so many further ones.
const maxMarks = 64

// markSuffix ends the fires of rows of marks; no fire id has a control character.
const markSuffix = "\x01asked"

func markKey(key rouse.Key) rouse.Key {
	key.Fire += markSuffix
	return key
}

// mark is a request that was carried out, and what its answer is made of.
type mark struct {
	Tag  access.Tag    `json:"tag"`
	Asks uint64        `json:"asks"` // hash of what was asked for
	At   rouse.Instant `json:"at"`
	Due  rouse.Instant `json:"due,omitempty"`
	N    uint64        `json:"n,omitempty"`
	More uint64        `json:"more,omitempty"`
}

// once is a request that may be repeated.
type once struct {
	mark
	list []mark // that the row has already
}

// asks returns the request of a call, described by what it asks for; nil if its caller does not repeat it.
func asks(ctx context.Context, namespace string, what ...any) *once {
	tag, ok := access.TagOf(ctx, namespace)
	if !ok {
		return nil
	}
	h := fnv.New64a()
	for _, w := range what {
		fmt.Fprintf(h, "%q\x00", fmt.Sprint(w))
	}
	return &once{mark: mark{Tag: tag, Asks: h.Sum64()}}
}

// contents describes a timer to asks.
func contents(t *rouse.Timer) string {
	row := t.Row()
	for _, k := range slices.Sorted(maps.Keys(row.Labels)) {
		row.Body = binary.AppendUvarint(row.Body, uint64(len(k)))
		row.Body = append(append(row.Body, k...), row.Labels[k]...)
	}
	return string(row.Body)
}

// done returns the mark that an earlier request has left next to the row of the key; nil if there is none,
// and rouse.ErrConflict if that asked for something else. It has to be called after the row was read: then
// no mark is missing that the row's revision came with.
func (o *once) done(ctx context.Context, ts *Timers, key rouse.Key) (*mark, error) {
	rows, err := ts.store.Get(ctx, []rouse.Key{markKey(key)})
	if err != nil {
		return nil, err
	}
	return o.among(ctx, ts, &rows[0])
}

// among is done for a row of marks that was read.
func (o *once) among(ctx context.Context, ts *Timers, row *rouse.Row) (*mark, error) {
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
		return nil, fmt.Errorf("another request had this Idempotency-Key: use another one: %w", rouse.ErrConflict)
	}
	audit.Repeated(ctx)
	return &o.list[i], nil
}

// leave adds the mark of the request to its change.
func (o *once) leave(ts *Timers, c *rouse.Change, bucket uint32) error {
	o.At = ts.Engine.Latest()
	list := slices.DeleteFunc(slices.Clone(o.list), func(m mark) bool { return m.Tag == o.Tag }) // an earlier part of the same request
	list = append(list, o.mark)
	body, err := json.Marshal(list[max(0, len(list)-maxMarks):])
	if err != nil {
		return err
	}
	c.Also = append(c.Also, rouse.Row{Key: markKey(c.Key), Bucket: bucket, State: rouse.StateNote, Due: rouse.Never,
		Visible: o.At.Add(access.RepeatAge), Body: body})
	return nil
}

// repeated takes the puts out that an earlier request with the same key has made, and gives them what is
// there now as their result; the others get its mark. A put that only creates needs none, unless it is of an
// import.
func repeated(ctx context.Context, ts *Timers, puts []Put, items []*engine.Write, at []int, results []PutResult) ([]*engine.Write, []int, error) {
	if access.RepeatKey(ctx) == "" {
		return items, at, nil
	}
	var leftItems []*engine.Write
	var leftAt []int
	for j, i := range at {
		p, res := &puts[i], &results[i]
		if p.asks == "" && p.Mode == CreateOnly && p.IfRevision == 0 {
			leftItems, leftAt = append(leftItems, items[j]), append(leftAt, i)
			continue
		}
		if p.asks == "" {
			p.asks = contents(&rouse.Timer{Spec: p.Spec})
		}
		o := asks(ctx, p.Key.Namespace, "put", p.Mode, p.IfRevision, p.asks)
		rows, err := ts.store.Get(ctx, []rouse.Key{p.Key, markKey(p.Key)})
		if err != nil {
			return nil, nil, err
		}
		was, err := o.among(ctx, ts, &rows[1])
		if err != nil || was != nil {
			if *res, err = there(ctx, ts, p.Key, &rows[0], err); err != nil {
				*res = PutResult{Err: err}
			}
			continue
		}
		if err := o.leave(ts, &items[j].Change, res.Timer.Bucket); err != nil {
			return nil, nil, err
		}
		leftItems, leftAt = append(leftItems, items[j]), append(leftAt, i)
	}
	return leftItems, leftAt, nil
}

// there is the result of a put that was made before: the timer as it is now, from its row.
func there(ctx context.Context, ts *Timers, key rouse.Key, row *rouse.Row, err error) (PutResult, error) {
	if err == nil && row.Revision == 0 {
		err = fmt.Errorf("timer %q: the first request with this Idempotency-Key was carried out, and the timer has ended or was deleted since: %w", key.Name, rouse.ErrConflict)
	}
	if err != nil {
		return PutResult{}, err
	}
	t, err := ts.Read(row)
	ts.access.Redact(ctx, &t)
	return PutResult{Timer: t, Replaced: true}, err
}
