package engine

import (
	"context"
	"hash/fnv"

	"github.com/rousehq/rouse"
)

// Mode says what Put does with a name that is taken.
type Mode uint8

const (
	CreateOnly      Mode = iota // rouse.ErrExists
	CreateOrReplace             // replace; a new generation begins
	ReplaceOnly                 // rouse.ErrNotFound for a name that is not taken
)

// Put is a timer to write. Its key has no Fire; its spec is checked by Put.
type Put struct {
	Key        rouse.Key
	Spec       rouse.Spec
	Mode       Mode
	IfRevision uint64 // not 0: only if the timer has this revision, else rouse.ErrConflict
}

// PutResult is what became of one Put.
type PutResult struct {
	Timer    rouse.Timer
	Replaced bool  // there was a timer of that name before
	InFlight bool  // an attempt of its generation had started and may still arrive; none starts after the answer
	Err      error // *rouse.Invalid, rouse.ErrExists, rouse.ErrNotFound, rouse.ErrConflict, rouse.ErrFull
}

// Put writes timers in one durable step, each with an outcome of its own. When it returns without error, those without an
// error of their own are durable. An error of Put itself means that nothing is known of any of them.
func (e *Engine) Put(ctx context.Context, puts []Put) ([]PutResult, error) {
	if err := e.awake(ctx); err != nil {
		return nil, err
	}
	results := make([]PutResult, len(puts))
	timers := make([]rouse.Timer, len(puts))
	backing := make([]write, len(puts))
	items := make([]*write, 0, len(puts))
	at := make([]int, 0, len(puts))
	now := e.clock.latest() // a delay counted from an earlier moment would end early
	for i := range puts {
		if err := e.prepare(ctx, &puts[i], &timers[i], &backing[i], now); err != nil {
			results[i].Err = err
			continue
		}
		items, at = append(items, &backing[i]), append(at, i)
	}
	if len(items) == 0 {
		return results, nil
	}
	out, err := e.writer.Do(ctx, items)
	if err != nil {
		return nil, err
	}
	for j, r := range out {
		i := at[j]
		switch {
		case r.err != nil:
			results[i].Err = r.err
		case r.Applied:
			timers[i].Revision, timers[i].Generation = r.Revision, r.Revision
			results[i].Timer, results[i].Replaced, results[i].InFlight = timers[i], r.Existed, backing[i].inFlight
		default:
			results[i].Err = refused(&puts[i], r.Existed)
		}
	}
	return results, nil
}

func refused(p *Put, existed bool) error {
	switch {
	case !existed:
		return rouse.ErrNotFound
	case p.Mode == CreateOnly && p.IfRevision == 0:
		return rouse.ErrExists
	}
	return rouse.ErrConflict
}

// prepare checks a put and makes its change.
func (e *Engine) prepare(ctx context.Context, p *Put, t *rouse.Timer, w *write, now rouse.Instant) error {
	if err := e.check(p); err != nil {
		return err
	}
	s, err := e.compiled.parse(p.Spec.Schedule, p.Spec.Timezone, now)
	if err != nil {
		return err
	}
	if *t, err = rouse.NewTimer(p.Key, p.Spec, now, s); err != nil {
		return err
	}
	t.Bucket = e.bucket(p.Key)
	row := t.Row()
	w.change = rouse.Change{Key: p.Key, To: &row}
	switch {
	case p.IfRevision != 0:
		w.change.If = p.IfRevision
	case p.Mode == CreateOnly:
		w.change.If = rouse.NoRow
	case p.Mode == CreateOrReplace:
		w.change.If = rouse.AnyRevision
	default:
		rows, err := e.store.Get(ctx, []rouse.Key{p.Key})
		if err != nil {
			return err
		}
		if rows[0].Revision == 0 {
			return rouse.ErrNotFound
		}
		w.change.If = rows[0].Revision
	}
	return nil
}

func (e *Engine) check(p *Put) error {
	if err := rouse.CheckNamespace(p.Key.Namespace); err != nil {
		return err
	}
	if err := rouse.CheckName(p.Key.Name); err != nil {
		return err
	}
	if err := p.Spec.Check(); err != nil {
		return err
	}
	return e.sink.Check(&p.Spec)
}

// bucket hashes a timer to its bucket: the same on every node.
func (e *Engine) bucket(k rouse.Key) uint32 {
	if e.opts.Buckets == 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(k.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(k.Name))
	return h.Sum32() % e.opts.Buckets
}

// Preview returns the next due times of a schedule after from (0: now). It needs a running engine for the default of from only.
func (e *Engine) Preview(schedule, timezone string, from rouse.Instant, count int) ([]rouse.Instant, error) {
	if from == 0 {
		if from = e.Now(); from == 0 {
			return nil, rouse.ErrUnavailable
		}
	}
	spec := rouse.Spec{Schedule: schedule, Timezone: timezone, Target: "preview:"}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	s, err := e.compiled.parse(schedule, timezone, from)
	if err != nil {
		return nil, err
	}
	if !spec.Recurring() {
		from = 0
	}
	var next []rouse.Instant
	for range count {
		n, ok := s.Next(from)
		if !ok {
			break
		}
		next, from = append(next, n), n
	}
	return next, nil
}
