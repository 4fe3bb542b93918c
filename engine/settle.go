package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// reported is an outcome on its way to the store.
type reported struct {
	en   *entry
	o    rouse.Outcome
	fire bool // it comes from a sink: the fire was out
	step step // not nil: no outcome, but this moves the timer on
}

// outcomes are what sinks have reported and nobody has settled. Their number is bounded by what is in memory.
type outcomes struct {
	mu     sync.Mutex
	list   []reported
	signal chan struct{}
}

func (o *outcomes) add(r reported) {
	o.mu.Lock()
	o.list = append(o.list, r)
	first := len(o.list) == 1
	o.mu.Unlock()
	if first {
		signal(o.signal)
	}
}

// swap returns what was reported since the last call; spare is used for what comes next.
func (o *outcomes) swap(spare []reported) []reported {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = spare[:0]
	return list
}

// settleLoop settles what sinks report: whatever came while a commit was under way makes the next one. When ctx ends it
// settles what is left, and returns.
func (e *Engine) settleLoop(ctx context.Context) {
	var spare []reported
	for {
		select {
		case <-e.outcomes.signal:
		case <-ctx.Done():
			for list := e.outcomes.swap(nil); len(list) > 0; list = e.outcomes.swap(nil) {
				e.settle(ctx, list)
			}
			return
		}
		list := e.outcomes.swap(spare)
		e.settle(ctx, list)
		clear(list)
		spare = list
	}
}

// settle writes outcomes until each is written, or is seen to be about a generation that has ended. The end of ctx does not
// stop a write, as what was delivered should not come again after an orderly end; it stops only the trying again.
func (e *Engine) settle(ctx context.Context, list []reported) {
	e.countReported(list)
	writing := context.WithoutCancel(ctx)
	for wait := 10 * time.Millisecond; len(list) > 0; {
		items := e.steps(list)
		failpoint("before-settle")
		results, err := e.writer.Do(writing, items)
		failpoint("after-settle")
		if err != nil {
			// The fires are done, only the word of it is not written: try for as long as the engine lives. What stays
			// unwritten fires again after a restart, with the same ids.
			e.opts.Events.failed("settle", err)
			if errors.Is(err, rouse.ErrClosed) || !sleep(ctx, wait) {
				return
			}
			wait = min(2*wait, 5*time.Second)
			continue
		}
		list = e.conflicts(writing, list, items, results)
	}
}

// countReported frees the places of reported fires in their lanes, so that the next ones start while these are settled.
func (e *Engine) countReported(list []reported) {
	now, store := time.Now(), e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := 0; i < len(list); {
		ln, n := list[i].en.lane, 0
		for ; i < len(list) && list[i].en.lane == ln; i++ {
			if r := &list[i]; r.fire {
				n++
				e.opts.Events.reported(r.en.timer, r.o, store.Sub(r.en.sent))
			}
		}
		if ln != nil && n > 0 {
			e.lanes.reported(ln, n, now)
		}
	}
	e.dispatch()
}

// steps turns outcomes into writes, each from the latest version of its row.
func (e *Engine) steps(list []reported) []*write {
	now := e.clock.latest() // a wait counted from an earlier moment would end early
	items := make([]*write, len(list))
	backing := make([]write, len(list))
	type base struct {
		t      *rouse.Timer
		orphan bool
	}
	bases := make([]base, len(list))
	e.mu.Lock()
	for i := range list {
		t, err := e.decoded(list[i].en)
		if err != nil {
			t = &rouse.Timer{Key: list[i].en.row.Key, Generation: list[i].en.row.Generation, Revision: list[i].en.row.Revision}
		}
		bases[i] = base{t, list[i].en.orphan}
	}
	e.mu.Unlock()
	for i := range list {
		items[i] = &backing[i]
		backing[i] = write{change: e.change(&list[i], bases[i].t, bases[i].orphan, now), settles: list[i].en}
	}
	return items
}

// change is the one conditional write that an outcome leads to.
func (e *Engine) change(r *reported, t *rouse.Timer, orphan bool, now rouse.Instant) rouse.Change {
	s, err := e.compiled.of(t)
	if err != nil {
		s = nil
	}
	if orphan { // its timer was deleted or replaced: only the record of the fire is left to write
		var log []rouse.Record
		if r.fire && !r.en.logged {
			log = []rouse.Record{t.Ending(r.en.occ, r.o, r.en.sent, now, "deleted or replaced meanwhile")}
		}
		return rouse.Change{Key: t.Key, If: rouse.AnyRevision, Keep: true, Log: log}
	}
	var step rouse.Step
	if r.step != nil {
		step = r.step(t, now, s)
	} else {
		step = t.After(r.en.occ, r.en.token, r.o, r.en.sent, now, s)
	}
	if step.To != nil && step.To.Key.Fire == "" {
		e.noteGrowth(t.Key, t.Ended, step.To.Ended)
	}
	return e.stepChange(t.Key, t.Revision, step)
}

// conflicts returns the outcomes whose write named an old revision, after bringing their entries up to date.
func (e *Engine) conflicts(ctx context.Context, list []reported, items []*write, results []written) []reported {
	var again []reported
	var keys []rouse.Key
	for i, r := range results {
		if !r.Applied {
			again, keys = append(again, list[i]), append(keys, items[i].change.Key)
		}
	}
	if len(again) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	rows, err := e.store.Get(ctx, keys)
	if err != nil {
		e.opts.Events.failed("get", err)
		return again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for i := range again {
		switch en, row := again[i].en, &rows[i]; {
		case en.orphan || row.Revision == en.row.Revision:
		case row.Revision == 0:
			e.changeEntry(en, nil, now)
		default:
			e.changeEntry(en, row, now)
		}
	}
	e.opts.Events.conflicted(len(again))
	return again
}
