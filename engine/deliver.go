package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// fireLoop moves what is due from the wheel into the lanes, and starts deliveries.
func (e *Engine) fireLoop(ctx context.Context) {
	// A quarter of a second bounds the sleep: Go's timers stand still while a machine is suspended, the store's clock does not.
	const longest = 250 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []*entry
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-timer.C:
		}
		e.mu.Lock()
		now := e.Now()
		due = e.window.expire(now, due[:0])
		for _, en := range due {
			e.enqueue(en, now)
		}
		e.dispatch()
		sleep := longest
		if next, ok := e.window.wheel.Next(); ok {
			sleep = min(max(next.Sub(now), time.Millisecond), longest)
		}
		e.mu.Unlock()
		clear(due)
		e.health.fire.Store(time.Now().UnixNano())
		timer.Reset(sleep)
	}
}

// enqueue takes an entry that is due, and neither on the wheel nor in a lane, to where it goes next.
func (e *Engine) enqueue(en *entry, now rouse.Instant) {
	t, err := e.decoded(en)
	if err != nil {
		// Nothing can be said of the row, so nothing is done to it; it stays in the store for people to look at.
		e.window.drop(en)
		e.opts.Events.failed("decode", err)
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
		en.occ, en.state, en.token, en.sent = occ, settling, t.Token, 0
		e.outcomes.add(reported{en: en, o: rouse.Outcome{Verdict: rouse.Failed, Detail: "accepted, but no report came in time"}})
		return
	}
	if t.Spec.Recurring() && t.Spec.Misfire != rouse.MisfireAll && now.Sub(t.Due) > time.Second {
		if s, err := e.compiled.of(t); err == nil && t.Misfired(now, s) {
			en.state = settling
			e.outcomes.add(reported{en: en, misfire: true})
			return
		}
	}
	e.lanes.enqueue(en, e.sink.Lane(en.row.Key.Namespace, &t.Spec))
}

// decoded returns the entry's timer in its readable form.
func (e *Engine) decoded(en *entry) (*rouse.Timer, error) {
	if en.timer == nil {
		t, err := rouse.DecodeTimer(&en.row)
		if err != nil {
			return nil, err
		}
		en.timer = &t
	}
	return en.timer, nil
}

// delivery is what one call of Sink.Deliver brings.
type delivery struct {
	lane  *lane
	taken []*entry
	fires []rouse.Fire
	at    rouse.Instant // when it was taken from its lane
}

// dispatch starts as many deliveries as limits allow. The mutex is held.
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
	d.fires = make([]rouse.Fire, len(d.taken))
	d.at = e.Now()
	for i, en := range d.taken {
		d.fires[i] = en.timer.Fire(en.occ)
		en.token, en.sent = d.fires[i].Token, d.at
	}
	return d, true
}

// send hands a delivery to the sink, and then goes on with the next one in turn, if there is one: a goroutine whose stack has
// grown to what a request needs is worth keeping.
func (e *Engine) send(d delivery) {
	for more := true; more; {
		e.opts.Events.sent(d.fires, d.at)
		live, fires := d.taken, d.fires
		if !d.taken[0].held.IsZero() || e.Now() < d.at {
			live, fires = e.stillMine(d.lane, d.taken, d.fires)
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

// call is Sink.Deliver, whose reports go to the settling loop.
func (e *Engine) call(live []*entry, fires []rouse.Fire) {
	failpoint("before-send")
	e.sink.Deliver(e.deliver, fires, func(i int, o rouse.Outcome) {
		failpoint("after-send")
		e.outcomes.add(reported{en: live[i], o: o, fire: true})
	})
}

// stillMine takes out what this node may not send now: a held row near the end of its hold, which ends by itself, and a row
// that is not due after all, because the store's clock went back.
func (e *Engine) stillMine(ln *lane, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, en := range taken {
		switch {
		case !en.held.IsZero() && !now.Before(en.held):
			en.lane = nil
			e.window.drop(en)
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
