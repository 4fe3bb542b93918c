package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/rousehq/rouse"
)

// A script makes so many changes, or so many bytes of them, at most: other callers of the server wait so long. A thousand changes
// take about ten milliseconds.
const (
	maxChanges = 1000
	maxBytes   = 4 << 20
)

// Apply makes the changes, shard by shard. Those of one key are in one shard, and are made in their order.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	results := make([]rouse.Result, len(changes))
	parts := make([]*writer, len(s.shards))
	for i := range changes {
		n := s.shardOf(&changes[i].Key)
		if parts[n] == nil {
			parts[n] = &writer{shard: &s.shards[n], changes: changes, results: results}
		}
		parts[n].at = append(parts[n].at, i)
	}
	var work []*writer
	for _, w := range parts {
		if w != nil {
			work = append(work, w)
		}
	}
	errs := make([]error, len(work))
	var group errgroup.Group
	for i, w := range work {
		group.Go(func() error {
			errs[i] = w.run(ctx)
			return errs[i]
		})
	}
	if err := group.Wait(); err != nil {
		return nil, outcome(work, errs)
	}
	return results, nil
}

// outcome is the error of a call. It is rouse.ErrFull only if nothing was changed, which is what that says.
func outcome(work []*writer, errs []error) error {
	err := errors.Join(errs...)
	if !errors.Is(err, rouse.ErrFull) {
		return err
	}
	for i, w := range work {
		if w.wrote || !errors.Is(errs[i], rouse.ErrFull) {
			return fmt.Errorf("a part of the changes was made: %v", err)
		}
	}
	return rouse.ErrFull
}

// writer makes the changes of one shard.
type writer struct {
	shard   *shard
	changes []rouse.Change
	at      []int // which of them
	results []rouse.Result
	wrote   bool // a script was run that may have changed something
}

func (w *writer) run(ctx context.Context) error {
	for rest := w.at; len(rest) > 0; {
		var c chunk
		n := 0
		for n < len(rest) && n < maxChanges && c.bytes < maxBytes {
			if err := c.add(&w.changes[rest[n]]); err != nil {
				return err
			}
			n++
		}
		if err := w.apply(ctx, &c, rest[:n]); err != nil {
			return err
		}
		w.wrote = true
		rest = rest[n:]
	}
	return nil
}

// resultSize is what the script answers for each change.
const resultSize = 1 + 8 + 8

func (w *writer) apply(ctx context.Context, c *chunk, at []int) error {
	v, err := w.shard.run(ctx, applyScript, c.args(len(at))...)
	if err != nil {
		return err
	}
	answer, ok := v.(string)
	if !ok || len(answer) != resultSize*len(at) {
		return errAnswer
	}
	for i, n := range at {
		b := []byte(answer[i*resultSize : (i+1)*resultSize])
		w.results[n] = rouse.Result{Applied: b[0]&1 != 0, Existed: b[0]&2 != 0, Revision: binary.BigEndian.Uint64(b[1:]), Also: binary.BigEndian.Uint64(b[9:])}
	}
	return nil
}

// chunk is the changes of one script, in its words.
type chunk struct {
	members map[string]int
	keys    []any
	changes []any
	bytes   int
}

func (c *chunk) args(n int) []any {
	all := make([]any, 0, 2+len(c.keys)+len(c.changes))
	all = append(all, len(c.keys), n)
	return append(append(all, c.keys...), c.changes...)
}

// key returns the number of a key, which counts from 1.
func (c *chunk) key(k *rouse.Key) (int, error) {
	if err := checkTexts("key", k.Namespace, k.Name, k.Fire); err != nil {
		return 0, err
	}
	m := memberOf(k)
	n, ok := c.members[m]
	if !ok {
		if c.members == nil {
			c.members = make(map[string]int)
		}
		c.keys = append(c.keys, m)
		n = len(c.keys)
		c.members[m] = n
		c.bytes += len(m)
	}
	return n, nil
}

// The operations of the script.
const (
	opKeep   = 0
	opRemove = 1
	opPut    = 2
	opAny    = 8 // beside one of them: whatever the revision is
)

func (c *chunk) add(ch *rouse.Change) error {
	n, err := c.key(&ch.Key)
	if err != nil {
		return err
	}
	op := byte(opPut)
	switch {
	case ch.Keep:
		op = opKeep
	case ch.To == nil:
		op = opRemove
	}
	if ch.If == rouse.AnyRevision {
		op |= opAny
	}
	ctl := make([]byte, 0, 21)
	ctl = append(ctl, op)
	ctl = binary.BigEndian.AppendUint64(ctl, ch.If)
	for _, v := range [...]int{n, len(ch.Also), len(ch.Log)} {
		ctl = binary.BigEndian.AppendUint32(ctl, uint32(v))
	}
	c.changes = append(c.changes, ctl)
	if op&^opAny == opPut {
		if err := c.put(ch.To); err != nil {
			return err
		}
	}
	for i := range ch.Also {
		n, err := c.key(&ch.Also[i].Key)
		if err != nil {
			return err
		}
		c.changes = append(c.changes, n)
		if err := c.put(&ch.Also[i]); err != nil {
			return err
		}
	}
	for i := range ch.Log {
		if err := c.log(&ch.Log[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *chunk) put(r *rouse.Row) error {
	blob, err := appendBlob(make([]byte, 0, headSize+len(r.Body)+64*len(r.Labels)), r)
	if err != nil {
		return err
	}
	score := ""
	if r.Visible < exact { // later than any claim looks: the same as never
		score = scoreOf(r.Visible)
	}
	generation := []byte{}
	if r.Generation != 0 {
		generation = binary.BigEndian.AppendUint64(generation, r.Generation)
	}
	c.changes = append(c.changes, generation, blob, score)
	c.bytes += len(blob)
	return nil
}

func (c *chunk) log(r *rouse.Record) error {
	if err := checkTexts("log", r.Namespace, r.Name); err != nil {
		return err
	}
	body := rouse.AppendRecord(nil, r)
	c.changes = append(c.changes, strconv.FormatInt(hourOf(r.Ended), 10)+":"+r.Namespace, r.Name, timeBytes(r.Ended), body)
	c.bytes += len(body)
	return nil
}
