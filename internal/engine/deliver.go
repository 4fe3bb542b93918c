package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// fireLoop moves due entries from the wheel into the lanes and starts deliveries.
func (e *Engine) fireLoop(ctx context.Context) {
	// Sleep at most a quarter of a second: Go's timers stop while a machine is suspended, the store's clock
	// does not.
	const longest = 250 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []*entry
	var last time.Time // start of the loop's last iteration
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.memory.wake:
		case <-timer.C:
		}
		began := time.Now()
		e.memory.Lock()
		now := e.Now()
		if d := began.Sub(last); d >= standstill && !last.IsZero() {
			e.hindrances.add(rouse.CauseServerDown, now.Add(-d), now)
		}
		last = began
		due = e.memory.window.expire(now, due[:0])
		for _, en := range due {
			e.memory.woken(en, now)
		}
		sleep := longest
		if wait, ok := e.memory.lanes.refill(time.Now()); ok {
			sleep = min(max(wait, time.Millisecond), longest)
		}
		e.memory.dispatch()
		if next, ok := e.memory.window.wheel.Next(); ok {
			sleep = min(max(next.Sub(now), time.Millisecond), sleep)
		}
		e.memory.Unlock()
		clear(due)
		e.health.fire.Store(time.Now().UnixNano())
		timer.Reset(sleep)
	}
}

// delivery is one call of Sink.Deliver.
type delivery struct {
	lane  *lane
	taken []*entry
	fires []rouse.Fire
	at    rouse.Instant // when it was taken from its lane
	spend bool          // rouse.Lane.Spend of its lane
	held  bool          // some of it is held until a time that may come
}

// dispatch starts as many deliveries as the limits allow.
func (m *memory) dispatch() {
	for {
		d, ok := m.nextDelivery()
		if !ok {
			return
		}
		m.send(d)
	}
}

// nextDelivery takes the next delivery in turn.
func (m *memory) nextDelivery() (d delivery, ok bool) {
	if m.stopping.Load() || m.send == nil {
		return d, false
	}
	d.lane, d.taken = m.lanes.next(nil)
	if d.lane == nil {
		return d, false
	}
	d.at, d.spend = m.Now(), d.lane.spend
	for _, en := range d.taken {
		m.taken(d.lane, en, d.at)
	}
	d.taken = m.unexpired(d.lane, d.taken, d.at)
	d.taken = m.unfrozen(d.lane, d.taken)
	d.fires = make([]rouse.Fire, len(d.taken))
	for i, en := range d.taken {
		d.fires[i] = en.timer.Fire(en.occ)
		en.token, en.sent, en.passed = d.fires[i].Token, d.at, false
		d.held = d.held || !en.held.IsZero()
	}
	return d, true
}

// unexpired removes entries whose deadline passed while they waited in the lane.
func (m *memory) unexpired(ln *lane, taken []*entry, now rouse.Instant) []*entry {
	var gone int
	live := taken[:0]
	for _, en := range taken {
		if en.timer.Spec.Deadline == 0 || !en.timer.Expired(en.occ, now) {
			live = append(live, en)
			continue
		}
		gone++
		en.lane = nil
		m.expire(en)
	}
	if gone > 0 {
		m.lanes.reported(ln, gone, time.Now())
	}
	return live
}

// unfrozen moves entries that a running edit has frozen back to the wheel.
func (m *memory) unfrozen(ln *lane, taken []*entry) []*entry {
	live, frozen := m.freezer.split(taken)
	for _, en := range frozen {
		en.lane = nil
		m.window.place(en)
	}
	if len(frozen) > 0 {
		m.lanes.reported(ln, len(frozen), time.Now())
	}
	return live
}

// shed makes room in a full window: the lane that is furthest behind defers what it cannot send soon. The
// rows are written with later visible times, spread over the time that the lane needs.
func (m *memory) shed() {
	ln, excess, drain := m.lanes.slowest(time.Now())
	if ln == nil {
		return // all lanes make progress
	}
	taken := ln.popTail(min(excess, 4096))
	least := min(max(drain, 2*time.Second), 30*time.Second)
	for i, en := range taken {
		after := least + least*time.Duration(i)/time.Duration(len(taken))
		m.decide(en, reported{o: rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: after}})
	}
	m.opts.Events.shed(len(taken))
}

// send hands a delivery to the sink and continues with the next one in turn. Reusing the goroutine saves
// growing a new stack.
func (e *Engine) send(d delivery) {
	for more := true; more; {
		if len(d.fires) > 0 {
			e.opts.Events.sent(d.fires, d.at)
		}
		live, fires := d.taken, d.fires
		if len(live) > 0 && (e.others != nil || d.held || e.Now() < d.at) {
			live, fires = e.stillMine(d.lane, d.taken, d.fires)
		}
		if len(live) > 0 && e.others != nil && !d.spend { // spending an attempt is a conditional write, which checks the revision
			live, fires = e.unchanged(d.lane, live, fires)
		}
		if len(live) > 0 && d.spend {
			live, fires = e.spend(live, fires)
		}
		if len(live) > 0 {
			e.call(live, fires)
		}
		e.memory.Lock()
		e.memory.lanes.returned(d.lane)
		d, more = e.memory.nextDelivery()
		e.memory.dispatch()
		e.memory.Unlock()
	}
}

// call runs Sink.Deliver and queues its reports for the settle loop.
func (e *Engine) call(live []*entry, fires []rouse.Fire) {
	failpoint("before-send")
	e.sink.Deliver(e.deliver, fires, func(i int, o rouse.Outcome) {
		failpoint("after-send")
		e.outcomes.add(reported{en: live[i], o: o, fire: true})
	})
}

// spendMargin is added to the timeout of a spent attempt to get the time for which its row is hidden.
const spendMargin = 5 * time.Second

// spend counts attempts in the store before they are delivered: if the process crashes during one, the next
// process sees that it was made. It returns those that were written; the others are deferred.
func (e *Engine) spend(live []*entry, fires []rouse.Fire) ([]*entry, []rouse.Fire) {
	now := e.clock.latest()
	items := make([]*Write, len(live))
	e.memory.Lock()
	for i, en := range live {
		items[i] = &Write{Change: rouse.Change{Key: en.row.Key, Keep: true, If: rouse.NoRow}}    // a row that cannot be read is deferred
		if t, err := e.memory.decoded(en); err == nil && (en.orphan || t.Revision == en.token) { // as is one that was changed on this node since
			to := *t
			to.Attempts, to.Manual = fires[i].Attempt, fires[i].Manual
			if to.Began == 0 {
				to.Began = en.sent
			}
			to.Visible = now.Add(t.Spec.Retry.Effective().Timeout + spendMargin)
			row := to.Row()
			items[i].Change = rouse.Change{Key: en.row.Key, If: t.Revision, To: &row}
		}
	}
	e.memory.Unlock()
	ctx, cancel := context.WithTimeout(e.deliver, flushTimeout)
	defer cancel()
	results, err := e.writer.Do(ctx, items)
	var kept []*entry
	var left []rouse.Fire
	e.memory.Lock()
	defer e.memory.Unlock()
	for i, en := range live {
		if err == nil && results[i].Err == nil && results[i].Applied {
			en.passed = true
			kept, left = append(kept, en), append(left, fires[i])
			continue
		}
		e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred, After: 100 * time.Millisecond}, fire: true})
	}
	return kept, left
}

// stillMine removes what this node must not send now: a held row near the end of its hold, a row whose bucket
// it may have lost, and a row that is no longer due because the store's clock was set back.
func (e *Engine) stillMine(ln *lane, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	now := time.Now()
	live, left = taken[:0], fires[:0]
	e.memory.Lock()
	defer e.memory.Unlock()
	for i, en := range taken {
		lost := e.holds.lost(en, now)
		switch {
		case lost && en.orphan: // no other node will report its end
			e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred}, fire: true})
			continue
		case lost:
			e.memory.giveUp(en)
		case en.row.Visible > e.Now() && !en.orphan:
			en.lane = nil
			e.memory.window.place(en)
		default:
			live, left = append(live, en), append(left, fires[i])
			continue
		}
		e.memory.lanes.reported(ln, 1, now)
	}
	return live, left
}

// finish writes the timer that was made from a draft. The timer is sent only after that, because its schedule
// may lie in the future. If the draft was invalid, that is recorded as the end of the occurrence that it
// asked for.
func finish(t *rouse.Timer, now rouse.Instant, _ rouse.Schedule) rouse.Step {
	to := *t
	step := rouse.Step{To: &to}
	if t.IsDraft() {
		step.Log = []rouse.Record{{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: rouse.EndDead, Cause: rouse.CauseInvalid,
			Due: t.Created, Reason: t.Reason, Ended: now}}
	}
	return step
}
