package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// reported is an outcome that is to be written to the store.
type reported struct {
	en   *entry
	o    rouse.Outcome
	fire bool   // a sink reported it: the fire was out
	step step   // not nil: advances the timer without an outcome
	of   uint64 // if no fire was out: the revision of the row that was evaluated
	asks bool   // step applies the misfire policy
	kept bool   // and that policy gives up nothing

	ready *rouse.Change // not nil: the resulting write, valid for the revision in it

	away rouse.Instant // since when the store has not accepted it; 0 if not tried

	counted bool // its place in the lane is already free
	doubt   bool // an earlier write of it failed but may have been made
}

// outcomes are reported by sinks and not settled yet. Their number is bounded by the rows in memory.
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
		notify.Send(o.signal)
	}
}

// swap returns the outcomes reported since the last call; spare becomes the new list.
func (o *outcomes) swap(spare []reported) []reported {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = spare[:0]
	return list
}

// settleLoop settles what sinks report: everything that arrives during a commit goes into the next one. When
// ctx ends it settles the rest and returns.
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

// settleAgain is the maximum pause between writes of outcomes that failed: holds do not last longer.
const settleAgain = 500 * time.Millisecond

// settleLast is for how long a stopping node retries the write of its last outcomes. What is not written is
// sent again by the next node.
const settleLast = 500 * time.Millisecond

// settle writes outcomes until each is written or belongs to an ended generation. The end of ctx does not
// cancel a write, because delivered fires should not be sent again after an orderly shutdown; it only stops
// the retries.
func (e *Engine) settle(ctx context.Context, list []reported) {
	defer e.health.settle.Store(0)
	e.health.settle.Store(time.Now().UnixNano())
	e.countReported(list)
	writing := context.WithoutCancel(ctx)
	defer e.announce(writing)
	var last time.Time
	for b := backoff.New(10*time.Millisecond, settleAgain); len(list) > 0; {
		var items []*Write
		e.health.settle.Store(time.Now().UnixNano())
		if list, items = e.steps(list); len(list) == 0 {
			return
		}
		failpoint("before-settle")
		asked := e.Now()
		_, err := e.writer.Do(writing, items)
		failpoint("after-settle")
		e.crowds.note(items)
		e.health.settle.Store(time.Now().UnixNano())
		refused, unknown := parted(list, items, asked)
		if list = e.conflicts(writing, refused); err == nil || len(e.missingParts()) > 0 {
			e.later(unknown)
			continue
		}
		// The fires were delivered and only their outcomes are not written: retry as long as the engine runs.
		// What stays unwritten fires again after a restart, with the same ids.
		e.opts.Events.failed("settle", err)
		if errors.Is(err, rouse.ErrClosed) {
			return
		}
		wait := b.Next()
		if !backoff.Sleep(ctx, wait) { // the node is stopping
			if last.IsZero() {
				last = time.Now().Add(settleLast)
			}
			if backoff.Sleep(writing, wait); time.Now().After(last) {
				return
			}
		}
		list = append(list, unknown...)
	}
}

// later settles outcomes again after a pause. They belong to a part of the store that does not answer, and
// must not delay the others.
func (e *Engine) later(list []reported) {
	for _, r := range list {
		r.counted = true
		time.AfterFunc(postponed, func() { e.outcomes.add(r) })
	}
}

// refusal is an outcome whose write the store refused.
type refusal struct {
	reported
	key rouse.Key
}

// parted returns the outcomes whose writes were refused, and those whose writes have an unknown result. Not
// all are in one commit.
func parted(list []reported, items []*Write, asked rouse.Instant) (refused []refusal, unknown []reported) {
	for i, w := range items {
		switch r := list[i]; {
		case w.result == nil || w.result.Err != nil:
			r.doubt = true
			if r.away == 0 {
				r.away = asked
			}
			unknown = append(unknown, r)
		case !w.result.Applied:
			refused = append(refused, refusal{r, w.Change.Key})
		}
	}
	return refused, unknown
}

// countReported frees the lane places of reported fires, so that the next fires start during settling.
func (e *Engine) countReported(list []reported) {
	now, store := time.Now(), e.Now()
	e.memory.Lock()
	defer e.memory.Unlock()
	for i := 0; i < len(list); {
		ln, n := list[i].en.lane, 0
		for ; i < len(list) && list[i].en.lane == ln; i++ {
			if r := &list[i]; r.fire && !r.counted {
				n++
				e.opts.Events.reported(r.en.timer, r.o, store.Sub(r.en.sent))
			}
		}
		if ln != nil && n > 0 {
			e.memory.lanes.reported(ln, n, now)
		}
	}
	e.memory.dispatch()
}

// postponed is the delay of an outcome whose step needs data that cannot be read now, such as a calendar.
const postponed = time.Second

// steps turns outcomes into writes based on the latest versions of their rows, and returns both. Outcomes
// that cannot be turned into writes now are queued again after a pause.
func (e *Engine) steps(list []reported) ([]reported, []*Write) {
	now := e.clock.latest() // a delay counted from an earlier time would end too early
	items := make([]*Write, 0, len(list))
	backing := make([]Write, len(list))
	type base struct {
		t              *rouse.Timer
		revision       uint64
		orphan, logged bool
	}
	bases := make([]base, len(list))
	e.memory.Lock()
	for i := range list {
		en := list[i].en
		bases[i] = base{e.settled(en), en.row.Revision, en.orphan, en.logged}
	}
	e.memory.Unlock()
	left := list[:0]
	var m schedulecache.Meter
	for i := range list {
		r, b := list[i], &bases[i]
		ready := r.ready
		r.ready, r.counted = nil, true
		if ready != nil && !b.orphan && !b.logged && ready.If == b.revision {
			backing[i].Change = *ready
		} else {
			m = schedulecache.Meter{Limit: quickSteps}
			c, err := e.quickChange(&r, b.t, b.orphan, b.logged, now, &m)
			switch {
			case errors.Is(err, errLater):
				continue
			case err != nil:
				e.opts.Events.failed("settle", err)
				e.later([]reported{r})
				continue
			}
			backing[i].Change = c
		}
		backing[i].settles, backing[i].spared = r.en, r.kept
		left, items = append(left, r), append(items, &backing[i])
	}
	return left, items
}

// settled returns the timer of an entry to settle. It returns nil for a draft, whose decoding compiles a
// schedule and takes too long here.
func (e *Engine) settled(en *entry) *rouse.Timer {
	if _, draft := rouse.DraftSpec(&en.row); draft && en.timer == nil {
		return nil
	}
	t, err := e.memory.decoded(en)
	if err != nil {
		return unreadable(&en.row)
	}
	return t
}

// quickChange is change for cheap steps; expensive ones are queued for evaluation, and it returns errLater.
func (e *Engine) quickChange(r *reported, t *rouse.Timer, orphan, logged bool, now rouse.Instant, m *schedulecache.Meter) (c rouse.Change, err error) {
	if t != nil {
		c, err = e.change(r, t, orphan, logged, now, m)
		if err == nil && !m.Out || err != nil && !errors.Is(err, errLater) {
			return c, err
		}
	}
	if e.evaluations.add(*r) {
		return c, errLater
	}
	if t == nil { // the engine is stopping: delivered fires are still settled
		t = unreadable(&r.en.row)
	}
	*m = schedulecache.Meter{}
	return e.change(r, t, orphan, logged, now, m)
}

// change returns the conditional write for an outcome. logged means that its occurrence was recorded while it
// was out. If the meter has a limit and the schedule is not cached, it returns errLater.
func (e *Engine) change(r *reported, t *rouse.Timer, orphan, logged bool, now rouse.Instant, m *schedulecache.Meter) (rouse.Change, error) {
	if orphan { // its timer was deleted or replaced: only the record of the fire remains to be written
		var log []rouse.Record
		if r.fire && !logged {
			log = []rouse.Record{t.Ending(r.en.occ, r.o, r.en.sent, now, r.en.cut, "deleted or replaced meanwhile")}
		}
		r.doubt = r.doubt || e.others != nil // a delete through another node may have recorded it
		log, err := e.unrecorded(r, log)
		return rouse.Change{Key: t.Key, If: rouse.AnyRevision, Keep: true, Log: log}, err
	}
	if !r.fire && t.Revision != r.of { // the row has changed since it was evaluated: it will be evaluated again
		return rouse.Change{Key: t.Key, If: t.Revision, Keep: true}, nil
	}
	s, known := e.opts.Schedules.Known(t)
	if !known {
		if m.Limit > 0 {
			return rouse.Change{}, errLater
		}
		var err error
		if s, err = e.opts.Schedules.Metered(t); err != nil {
			return rouse.Change{}, err // without the schedule, the step would end the timer
		}
	}
	if r.away != 0 {
		held := *t
		held.Waited(rouse.CauseStoreUnavailable, r.away, now)
		t = &held
	}
	s = m.On(s)
	var err error
	var step rouse.Step
	if r.step != nil {
		step = r.step(t, now, s)
		r.kept = r.asks && step.Keep
	} else {
		step = t.After(r.en.occ, r.en.token, r.o, r.en.sent, now, s)
	}
	if m.Out {
		return rouse.Change{}, errLater
	}
	if to := step.To; to != nil && to.Paused && to.PauseCause != t.PauseCause {
		e.opts.Events.paused(to)
	}
	if step.Keep && logged {
		step.Log = nil
	} else if step.Keep {
		r.doubt = r.doubt || e.others != nil // another node may have advanced the timer
		if step.Log, err = e.unrecorded(r, step.Log); err != nil {
			return rouse.Change{}, err
		}
	}
	if r.o.Verdict == rouse.Gone && t.Key.Fire != "" {
		e.retention.noteGone(t.Key)
	}
	if step.To != nil && step.To.Key.Fire == "" {
		e.retention.noteGrowth(t.Key, t.Ended, step.To.Ended)
	}
	return e.StepChange(t.Key, t.Revision, step), nil
}

// unrecorded returns the record of an occurrence that the timer has passed, or nil if an earlier write whose
// response was lost has already recorded it.
func (e *Engine) unrecorded(r *reported, log []rouse.Record) ([]rouse.Record, error) {
	if !r.doubt || len(log) == 0 {
		return log, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	page, err := e.store.Records(ctx, rouse.RecordQuery{Namespace: log[0].Namespace, Name: log[0].Name, Limit: 100})
	if err != nil {
		return nil, err
	}
	for i := range page.Records {
		if have := &page.Records[i]; have.Generation == log[0].Generation && have.Due == log[0].Due && have.Manual == log[0].Manual {
			return nil, nil
		}
	}
	return log, nil
}

// conflicts returns the outcomes whose writes had an old revision, after updating their entries.
func (e *Engine) conflicts(ctx context.Context, list []refusal) []reported {
	if len(list) == 0 {
		return nil
	}
	again, keys := make([]reported, len(list)), make([]rouse.Key, len(list))
	for i := range list {
		again[i], keys[i] = list[i].reported, list[i].key
		again[i].doubt = again[i].doubt || e.others != nil // another node may have recorded the same occurrence
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	rows, err := e.store.Get(ctx, keys)
	if err != nil {
		e.opts.Events.failed("get", err)
		return again
	}
	e.memory.Lock()
	defer e.memory.Unlock()
	now := e.Now()
	for i := range again {
		switch en, row := again[i].en, &rows[i]; {
		case en.orphan || row.Revision == en.row.Revision:
		case row.Revision == 0:
			e.memory.changeEntry(en, nil, time.Time{}, now)
		default:
			e.memory.changeEntry(en, row, time.Time{}, now)
		}
	}
	e.opts.Events.conflicted(len(again))
	return slices.DeleteFunc(again, func(r reported) bool {
		if r.fire || r.en.orphan || r.en.row.Revision == r.of {
			return false
		}
		e.memory.relocate(r.en, now) // the decision was about another version: evaluate the current one
		return true
	})
}
