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
		case <-e.wake:
		case <-timer.C:
		}
		began := time.Now()
		e.mu.Lock()
		now := e.Now()
		if d := began.Sub(last); d >= standstill && !last.IsZero() {
			e.hindrances.add(rouse.CauseServerDown, now.Add(-d), now)
		}
		last = began
		due = e.window.expire(now, due[:0])
		for _, en := range due {
			e.woken(en, now)
		}
		sleep := longest
		if wait, ok := e.lanes.refill(time.Now()); ok {
			sleep = min(max(wait, time.Millisecond), longest)
		}
		e.dispatch()
		if next, ok := e.window.wheel.Next(); ok {
			sleep = min(max(next.Sub(now), time.Millisecond), sleep)
		}
		e.mu.Unlock()
		clear(due)
		e.health.fire.Store(time.Now().UnixNano())
		timer.Reset(sleep)
	}
}

// enqueue moves a due entry that is neither on the wheel nor in a lane to its next place.
func (e *Engine) enqueue(en *entry, now rouse.Instant) {
	if _, ok := rouse.DraftSpec(&en.row); ok {
		e.decide(en, reported{step: finish})
		return
	}
	t, err := e.decoded(en)
	if err != nil {
		// The row cannot be decoded, so it stays in the store unchanged for an operator to inspect.
		e.window.drop(en)
		e.opts.Events.failed("decode", err)
		return
	}
	if look := e.attend(en, t, now); look.step != nil {
		e.decide(en, look)
		return
	}
	occ, ok := t.Current()
	if !ok {
		e.window.drop(en)
		return
	}
	en.occ = occ
	if t.Token != 0 {
		occ.Attempt = t.Attempts
		en.occ, en.token = occ, t.Token
		e.decide(en, reported{o: rouse.Outcome{Verdict: rouse.Failed, Detail: "accepted, but no report came in time"}})
		return
	}
	if most := t.Spec.Retry.Effective().Attempts; t.Attempts >= most && t.Attempts > 0 { // the attempt was counted before it was sent, and no result arrived
		en.occ.Attempt = t.Attempts
		e.decide(en, reported{o: rouse.Outcome{Verdict: rouse.Failed, Detail: "the process ended, or stalled, during the attempt"}})
		return
	}
	if t.Expired(occ, now) {
		e.expire(en)
		return
	}
	lane := e.sink.Lane(en.row.Key.Namespace, &t.Spec)
	if e.opts.Limit != nil {
		lane = e.opts.Limit(en.row.Key.Namespace, &t.Spec, lane)
	}
	e.lanes.enqueue(en, lane, t.Attempts == 0 && !occ.Manual && now.Sub(t.SentAt(occ.Due)) > rouse.CatchUpAfter)
}

// step advances a timer when no attempt has ended.
type step func(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step

// attend returns what a due row needs other than a fire; a result without a step means nothing.
func (e *Engine) attend(en *entry, t *rouse.Timer, now rouse.Instant) (look reported) {
	switch {
	case t.Key.Fire != "" && !t.Live, t.Over(): // a dead letter or an ended timer whose retention is over
		return reported{step: e.removeExpired}
	case t.PauseOver(now) && (t.Attempts == 0 || !t.Manual):
		look.step = func(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
			if !t.PauseOver(now) {
				return rouse.Step{Keep: true}
			}
			to, until := *t, e.holds.outUntil(t)
			step := to.Resume(now, s, false)
			if step.To != nil && step.To.Visible != rouse.Never {
				step.To.Visible = max(step.To.Visible, until)
			}
			return step
		}
		return look
	}
	if t.Attempts != 0 || len(t.Runs) > 0 || t.Paused {
		return look
	}
	if asked := en.asked; asked {
		en.asked = false
	} else if t.CanMisfire(now.Sub(t.SentAt(t.Due))) {
		if s, ok := e.opts.Schedules.Known(t); !ok || misfired(t, now, s) {
			return reported{step: misfire, asks: true} // misfire evaluates again where it may wait for the store
		}
	}
	if t.Spec.Overlap == rouse.OverlapAllow && t.Key.Fire == "" && t.Spec.Recurring() {
		look.step = e.crowds.detach
	}
	return look
}

// misfire applies the misfire policy and the deadline.
func misfire(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
	if !t.Misfired(now, s) {
		return rouse.Step{Keep: true}
	}
	return t.CatchUp(now, s)
}

// expire ends an entry that is in no queue and whose deadline has passed.
func (e *Engine) expire(en *entry) {
	if en.timer.Attempts == 0 && en.timer.Began == 0 {
		e.decide(en, reported{step: misfire})
		return
	}
	e.decide(en, reported{o: rouse.Outcome{Verdict: rouse.Expired}}) // the misfire policy applies only to occurrences that have not started
}

// decoded returns the entry's decoded timer.
func (e *Engine) decoded(en *entry) (*rouse.Timer, error) {
	if en.timer == nil {
		t, err := e.opts.Read(&en.row)
		if err != nil {
			return nil, err
		}
		en.timer = &t
	}
	return en.timer, nil
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

// dispatch starts as many deliveries as the limits allow. The mutex is held.
func (e *Engine) dispatch() {
	for {
		d, ok := e.nextDelivery()
		if !ok {
			return
		}
		e.senders.Go(func() { e.send(d) })
	}
}

// nextDelivery takes the next delivery in turn. The mutex is held.
func (e *Engine) nextDelivery() (d delivery, ok bool) {
	if e.stopping.Load() || e.deliver == nil {
		return d, false
	}
	d.lane, d.taken = e.lanes.next(nil)
	if d.lane == nil {
		return d, false
	}
	d.at, d.spend = e.Now(), d.lane.spend
	for _, en := range d.taken {
		e.taken(d.lane, en, d.at)
	}
	d.taken = e.unexpired(d.lane, d.taken, d.at)
	d.taken = e.unfrozen(d.lane, d.taken)
	d.fires = make([]rouse.Fire, len(d.taken))
	for i, en := range d.taken {
		d.fires[i] = en.timer.Fire(en.occ)
		en.token, en.sent, en.passed = d.fires[i].Token, d.at, false
		d.held = d.held || !en.held.IsZero()
	}
	return d, true
}

// unexpired removes entries whose deadline passed while they waited in the lane. The mutex is held.
func (e *Engine) unexpired(ln *lane, taken []*entry, now rouse.Instant) []*entry {
	var gone int
	live := taken[:0]
	for _, en := range taken {
		if en.timer.Spec.Deadline == 0 || !en.timer.Expired(en.occ, now) {
			live = append(live, en)
			continue
		}
		gone++
		en.lane = nil
		e.expire(en)
	}
	if gone > 0 {
		e.lanes.reported(ln, gone, time.Now())
	}
	return live
}

// unfrozen moves entries that a running edit has frozen back to the wheel. The mutex is held.
func (e *Engine) unfrozen(ln *lane, taken []*entry) []*entry {
	live, frozen := e.freezer.split(taken)
	for _, en := range frozen {
		en.lane = nil
		e.window.place(en)
	}
	if len(frozen) > 0 {
		e.lanes.reported(ln, len(frozen), time.Now())
	}
	return live
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
		e.mu.Lock()
		e.lanes.returned(d.lane)
		d, more = e.nextDelivery()
		e.dispatch()
		e.mu.Unlock()
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
	e.mu.Lock()
	for i, en := range live {
		items[i] = &Write{Change: rouse.Change{Key: en.row.Key, Keep: true, If: rouse.NoRow}} // a row that cannot be read is deferred
		if t, err := e.decoded(en); err == nil && (en.orphan || t.Revision == en.token) {     // as is one that was changed on this node since
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
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(e.deliver, flushTimeout)
	defer cancel()
	results, err := e.writer.Do(ctx, items)
	var kept []*entry
	var left []rouse.Fire
	e.mu.Lock()
	defer e.mu.Unlock()
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
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, en := range taken {
		lost := e.holds.lost(en, now)
		switch {
		case lost && en.orphan: // no other node will report its end
			e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred}, fire: true})
			continue
		case lost:
			e.giveUp(en)
		case en.row.Visible > e.Now() && !en.orphan:
			en.lane = nil
			e.window.place(en)
		default:
			live, left = append(live, en), append(left, fires[i])
			continue
		}
		e.lanes.reported(ln, 1, now)
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
