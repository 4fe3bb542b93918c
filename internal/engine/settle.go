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

// reported is an outcome on its way to the store.
type reported struct {
	en   *entry
	o    rouse.Outcome
	fire bool   // it comes from a sink: the fire was out
	step step   // not nil: no outcome, but this moves the timer on
	of   uint64 // if no fire was out: the revision of the row that was looked at
	asks bool   // the step asks the misfire policy,
	kept bool   // which gives up nothing

	ready *rouse.Change // not nil: the write that it comes to, from the version of its row that is in it

	away rouse.Instant // since when the store does not take it; 0 if that was not tried

	counted bool // its place in its lane is free already
	doubt   bool // a write of it may have been made, though it failed
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
		notify.Send(o.signal)
	}
}

// decide takes an entry that is in no queue to what a look at its row came to: no fire is out.
func (e *Engine) decide(en *entry, r reported) {
	en.state, en.lane, en.sent = settling, nil, 0
	r.en, r.of = en, en.row.Revision
	e.outcomes.add(r)
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

// settleAgain is the longest pause after which outcomes that could not be written are written again: what is held meanwhile is not for
// long.
const settleAgain = 500 * time.Millisecond

// settleLast is for how long the last outcomes of a node that stops are written again when that fails: what is not written is sent again by
// the node that has the timer next.
const settleLast = 500 * time.Millisecond

// settle writes outcomes until each is written, or is seen to be about a generation that has ended. The end of ctx does not
// stop a write, as what was delivered should not come again after an orderly end; it stops only the trying again.
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
		e.noteCrowds(items)
		e.health.settle.Store(time.Now().UnixNano())
		refused, unknown := parted(list, items, asked)
		if list = e.conflicts(writing, refused); err == nil || len(e.missingParts()) > 0 {
			e.later(unknown)
			continue
		}
		// The fires are done, only the word of it is not written: try for as long as the engine lives. What stays
		// unwritten fires again after a restart, with the same ids.
		e.opts.Events.failed("settle", err)
		if errors.Is(err, rouse.ErrClosed) {
			return
		}
		wait := b.Next()
		if !backoff.Sleep(ctx, wait) { // the node stops
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

// later settles outcomes again after a while: those of a part of the store that does not answer, which does not delay the others'.
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

// parted returns the outcomes whose writes were refused, and those of whose writes nothing is known: not all go through one commit.
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

// countReported frees the places of reported fires in their lanes, so that the next ones start while these are settled.
func (e *Engine) countReported(list []reported) {
	now, store := time.Now(), e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := 0; i < len(list); {
		ln, n := list[i].en.lane, 0
		for ; i < len(list) && list[i].en.lane == ln; i++ {
			if r := &list[i]; r.fire && !r.counted {
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

// postponed is how long an outcome waits whose step needs what cannot be read now, such as a calendar.
const postponed = time.Second

// steps turns outcomes into writes, each from the latest version of its row. It returns them with their outcomes; those that
// cannot be turned into writes now come again after a while.
func (e *Engine) steps(list []reported) ([]reported, []*Write) {
	now := e.clock.latest() // a wait counted from an earlier moment would end early
	items := make([]*Write, 0, len(list))
	backing := make([]Write, len(list))
	type base struct {
		t              *rouse.Timer
		revision       uint64
		orphan, logged bool
	}
	bases := make([]base, len(list))
	e.mu.Lock()
	for i := range list {
		en := list[i].en
		bases[i] = base{e.settled(en), en.row.Revision, en.orphan, en.logged}
	}
	e.mu.Unlock()
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

// settled returns the timer of an entry to settle, nil of a draft: that is compiled to be read, which takes too long here.
func (e *Engine) settled(en *entry) *rouse.Timer {
	if _, draft := rouse.DraftSpec(&en.row); draft && en.timer == nil {
		return nil
	}
	t, err := e.decoded(en)
	if err != nil {
		return unreadable(&en.row)
	}
	return t
}

// quickChange is change for what costs little; the rest is evaluated in turn, and errLater returned.
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
	if t == nil { // the engine stops: what was delivered is settled all the same
		t = unreadable(&r.en.row)
	}
	*m = schedulecache.Meter{}
	return e.change(r, t, orphan, logged, now, m)
}

// change is the one conditional write that an outcome leads to. logged says that a record of its occurrence was written while it
// was out. With a limit of the meter, a schedule that is not at hand is errLater.
func (e *Engine) change(r *reported, t *rouse.Timer, orphan, logged bool, now rouse.Instant, m *schedulecache.Meter) (rouse.Change, error) {
	if orphan { // its timer was deleted or replaced: only the record of the fire is left to write
		var log []rouse.Record
		if r.fire && !logged {
			log = []rouse.Record{t.Ending(r.en.occ, r.o, r.en.sent, now, r.en.cut, "deleted or replaced meanwhile")}
		}
		r.doubt = r.doubt || e.others != nil // who deleted it may have recorded it, with another node
		log, err := e.unrecorded(r, log)
		return rouse.Change{Key: t.Key, If: rouse.AnyRevision, Keep: true, Log: log}, err
	}
	if !r.fire && t.Revision != r.of { // the row has changed since it was looked at: it will be looked at anew
		return rouse.Change{Key: t.Key, If: t.Revision, Keep: true}, nil
	}
	s, known := e.opts.Schedules.Known(t)
	if !known {
		if m.Limit > 0 {
			return rouse.Change{}, errLater
		}
		var err error
		if s, err = e.opts.Schedules.Metered(t); err != nil {
			return rouse.Change{}, err // a step without it would end the timer
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
		r.doubt = r.doubt || e.others != nil // another node may have brought the timer past it
		if step.Log, err = e.unrecorded(r, step.Log); err != nil {
			return rouse.Change{}, err
		}
	}
	if r.o.Verdict == rouse.Gone && t.Key.Fire != "" {
		select {
		case e.gone <- rouse.Key{Namespace: t.Key.Namespace, Name: t.Key.Name}:
		default: // the next occurrence will hear the same
		}
	}
	if step.To != nil && step.To.Key.Fire == "" {
		e.NoteGrowth(t.Key, t.Ended, step.To.Ended)
	}
	return e.StepChange(t.Key, t.Revision, step), nil
}

// unrecorded returns the record of an occurrence that its timer is past, or nothing if an earlier write of it, whose answer was
// lost, was made after all.
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

// conflicts returns the outcomes whose write named an old revision, after bringing their entries up to date.
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
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for i := range again {
		switch en, row := again[i].en, &rows[i]; {
		case en.orphan || row.Revision == en.row.Revision:
		case row.Revision == 0:
			e.changeEntry(en, nil, time.Time{}, now)
		default:
			e.changeEntry(en, row, time.Time{}, now)
		}
	}
	e.opts.Events.conflicted(len(again))
	return slices.DeleteFunc(again, func(r reported) bool {
		if r.fire || r.en.orphan || r.en.row.Revision == r.of {
			return false
		}
		e.settleInPlace(r.en, now) // what was decided was decided of another version: who has the row now looks at it anew
		return true
	})
}
