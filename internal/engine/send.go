package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// sender hands due rows to the sink.
type sender struct {
	*env
	sink     rouse.Sink
	memory   *memory
	holds    *holds
	commits  *commits
	outcomes *outcomes
	rechecks *rechecks // nil if no other node writes to the store
	health   *health
	running  sync.WaitGroup

	spare   chan delivery // takes a delivery to a goroutine that waits for one
	waiting int           // goroutines that wait for one and have none yet; the mutex of the memory guards it
}

// spareSenders is how many goroutines wait for deliveries at most. A new goroutine would first have to grow
// its stack.
const spareSenders = 64

// fireWork is about how long each fire of a round keeps a small machine busy, with its creation, its
// messages, its receiver and the commits. It makes the wait as long as the setting at rates over 25,000 a
// second.
const fireWork = 40 * time.Microsecond

// fireLoop moves due entries from the wheel into the lanes and starts deliveries.
//
// A round has the fires of a millisecond, as due times have no smaller parts. After one with many, the next
// fires wait for company until the work of that is done (fireWork), as they would have to anyway; on a shared
// store, where each round asks for revisions, always. None waits for more than Options.SettleWait since the
// last round, and those that come alone do not wait.
func (s *sender) fireLoop(ctx context.Context) {
	// Sleep at most a quarter of a second: Go's timers stop while a machine is suspended, the store's clock
	// does not.
	const longest = 250 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []*entry
	var round time.Time        // start of the last iteration that found due entries
	gather := time.Duration(0) // from then until the next iteration
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.memory.wake:
		case <-timer.C:
		}
		began := time.Now()
		s.memory.Lock()
		now := s.Now()
		s.hindrances.noteLoop(now)
		due = s.memory.window.popDue(now, due[:0])
		for _, en := range due {
			s.memory.enqueueWoken(en, now)
		}
		if len(due) > 0 {
			round, gather = began, s.opts.SettleWait
			if s.rechecks == nil {
				gather = min(gather, time.Duration(len(due))*fireWork)
			}
		}
		sleep := longest
		if wait, ok := s.memory.lanes.resumeLimited(time.Now()); ok {
			sleep = min(max(wait, time.Millisecond), longest)
		}
		if s.memory.gates.wakeGates() {
			s.memory.leavePlaces()
		}
		if s.memory.gates.takeHolds() {
			s.memory.requeueHeld(now)
		}
		s.memory.expireAtGates(now)
		s.memory.dispatchDeliveries()
		if wait, ok := s.memory.gates.untilNext(); ok {
			sleep = min(max(wait, time.Millisecond), sleep)
		}
		if next, ok := s.memory.window.wheel.Next(); ok {
			sleep = min(s.clock.untilEarliest(next), sleep)
		}
		s.memory.looks = now.Add(sleep)
		if left := gather - time.Since(round); left > sleep {
			sleep, s.memory.looks = left, 0
		}
		s.memory.Unlock()
		clear(due)
		s.health.fire.setNow()
		timer.Reset(sleep)
	}
}

// startDelivery begins a delivery. ctx ends when deliveries must end. The mutex of the memory is held.
func (s *sender) startDelivery(ctx context.Context, d delivery) {
	if s.waiting > 0 {
		s.waiting--
		s.spare <- d // has room: as many as waited
		return
	}
	s.running.Go(func() { s.sendDeliveries(ctx, d) })
}

// awaitDelivery returns a delivery that start passes to this goroutine, which is counted as waiting.
func (s *sender) awaitDelivery(ctx context.Context) (d delivery, more bool) {
	select {
	case d = <-s.spare:
		return d, true
	case <-ctx.Done():
	}
	select {
	case d = <-s.spare:
		return d, true
	default:
		return d, false
	}
}

// sendDeliveries hands a delivery to the sink and continues with the next one in turn.
func (s *sender) sendDeliveries(ctx context.Context, d delivery) {
	for more := true; more; {
		if len(d.fires) > 0 {
			s.opts.Events.emitSent(d.fires, d.at)
		}
		live, fires := d.taken, d.fires
		if len(live) > 0 && (s.others != nil || d.held || s.Now() < d.at) {
			live, fires = s.stillMine(d.lane, d.taken, d.fires)
		}
		// spending an attempt is a conditional write, which checks the revision
		if len(live) > 0 && s.rechecks != nil && !d.spend {
			live, fires = s.rechecks.recheckTaken(ctx, d.lane, live, fires)
		}
		if len(live) > 0 && d.spend {
			live, fires = s.spendBeforeSend(ctx, live, fires)
		}
		if len(live) > 0 {
			live, fires = s.stillTimely(&d, live, fires)
		}
		var only *alone
		if len(live) > 0 {
			only = s.callSink(ctx, live, fires)
		}
		s.memory.Lock()
		if only != nil && only.reported.Load() && !only.freed {
			only.freed = true
			s.memory.lanes.endFires(d.lane, 1, only.load, time.Now())
		}
		s.memory.lanes.endDelivery(d.lane)
		d, more = s.memory.nextDelivery()
		s.memory.dispatchDeliveries()
		wait := !more && s.waiting < spareSenders
		if wait {
			s.waiting++
		}
		s.memory.Unlock()
		if wait {
			d, more = s.awaitDelivery(ctx)
		}
	}
}

// alone is the place in its lane of a fire that is delivered alone. If the fire is reported when Deliver
// returns, its goroutine frees the place, and can take the next fire of the lane at once; otherwise the
// settle loop does.
type alone struct {
	load     int // entry.load
	reported atomic.Bool
	freed    bool // the mutex of the memory guards it
}

// callSink runs Sink.Deliver and queues its reports for the settle loop.
func (s *sender) callSink(ctx context.Context, live []*entry, fires []rouse.Fire) (only *alone) {
	failpoint("before-send")
	if len(live) == 1 {
		only = &alone{load: live[0].load}
	}
	s.sink.Deliver(ctx, fires, func(i int, o rouse.Outcome) {
		failpoint("after-send")
		s.outcomes.addOutcome(reported{en: live[i], o: o, fire: true, alone: only})
		if only != nil {
			only.reported.Store(true)
		}
	})
	return only
}

// spendMargin is added to the timeout of a spent attempt to get the time for which its row is hidden.
const spendMargin = 5 * time.Second

// spendBeforeSend counts attempts in the store before they are delivered: if the process crashes during one,
// the next process sees that it was made. It returns those that were written; the others are deferred.
func (s *sender) spendBeforeSend(ctx context.Context, live []*entry, fires []rouse.Fire) ([]*entry, []rouse.Fire) {
	now := s.clock.latestNow()
	items := make([]*Write, len(live))
	s.memory.Lock()
	for i, en := range live {
		// a row that cannot be read is deferred
		items[i] = &Write{Change: rouse.Change{Key: en.row.Key, Keep: true, If: rouse.NoRow}}
		// as is one that was changed on this node since
		if t, err := s.memory.decodedTimer(en); err == nil && (en.orphan || t.Revision == en.token) {
			to := rouse.Spend(t, en.occ, en.sent, now.Add(t.Spec.Retry.Effective().Timeout+spendMargin))
			row := to.Row()
			items[i].Change = rouse.Change{Key: en.row.Key, If: t.Revision, To: &row}
		}
	}
	s.memory.Unlock()
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	results, err := s.commits.commitWrites(ctx, items)
	var kept []*entry
	var left []rouse.Fire
	s.memory.Lock()
	defer s.memory.Unlock()
	for i, en := range live {
		if err == nil && results[i].Err == nil && results[i].Applied {
			en.passed = true
			kept, left = append(kept, en), append(left, fires[i])
			continue
		}
		s.outcomes.addOutcome(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred, After: 100 * time.Millisecond},
			fire: true})
	}
	return kept, left
}

// mustReport reports whether an entry that is being sent has to be settled even if no attempt is made: no
// other node, and no edit, records how its occurrence ends.
func (en *entry) mustReport() bool { return en.orphan || en.awaited }

// stillMine removes the fires that this node must not send now: a held row near the end of its hold, a row
// whose bucket it may have lost, and a row that is no longer due because the store's clock was set back.
func (s *sender) stillMine(ln *lane, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	now, relied := time.Now(), boottime.Now()
	live, left = taken[:0], fires[:0]
	s.memory.Lock()
	defer s.memory.Unlock()
	for i, en := range taken {
		lost := s.holds.isLost(en, relied)
		switch {
		case en.mustReport() && (lost || en.awaited && en.row.Visible > s.Now()):
			s.outcomes.addOutcome(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred}, fire: true})
			continue
		case lost:
			s.memory.giveUpEntry(en)
		case en.row.Visible > s.Now() && !en.orphan:
			en.lane = nil
			s.memory.window.placeOnWheel(en)
		default:
			live, left = append(live, en), append(left, fires[i])
			continue
		}
		s.memory.lanes.endFires(ln, 1, en.load, now)
	}
	return live, left
}

// stillTimely removes fires that must not be sent any more after the calls of the store that come before a
// send, which may take long: a node that stops sends nothing new, as it may end before the outcome is
// written, and the deadline of an occurrence may have passed.
func (s *sender) stillTimely(d *delivery, taken []*entry, fires []rouse.Fire) (live []*entry, left []rouse.Fire) {
	now, stopping := s.Now(), s.stopping.Load()
	if !stopping && now.Sub(d.at) < noticeable {
		return taken, fires
	}
	live, left = taken[:0], fires[:0]
	s.memory.Lock()
	defer s.memory.Unlock()
	for i, en := range taken {
		switch expired := s.memory.tooLate(en, now); {
		case !stopping && !expired:
			s.memory.checkedLate(en, now)
			live, left = append(live, en), append(left, fires[i])
			continue
		case d.spend, en.mustReport(): // its attempt is counted, or nothing else will report its end
			cause := rouse.CauseServerDown
			if expired {
				cause = rouse.CauseStoreUnavailable
			}
			s.outcomes.addOutcome(reported{en: en, o: rouse.Outcome{Verdict: rouse.Deferred, Cause: cause}, fire: true})
			continue
		case stopping:
			s.memory.returnToWheel(en)
		default:
			s.memory.checkedLate(en, now)
			en.lane = nil
			s.memory.expireEntry(en, en.timer)
		}
		s.memory.lanes.endFires(d.lane, 1, en.load, time.Now())
	}
	return live, left
}
