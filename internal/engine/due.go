package engine

import (
	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// The next action for a due row: a fire, or a step without one.

// step advances a timer when no attempt has ended.
type step func(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step

// enqueueDue moves a due entry that is neither on the wheel nor in a lane to its next place.
func (m *memory) enqueueDue(en *entry, now rouse.Instant) {
	if en.draft {
		m.queueDecision(en, reported{step: finishDraft})
		return
	}
	switch {
	case rouse.IsJob(en.row.Key):
		m.jobs.queueAttention(en)
		return
	case en.row.Key.Fire == rouse.ExpectFire:
		m.expectations.queueAttention(en)
		return
	case en.row.State == rouse.StateNote && en.row.Due != rouse.Never: // rouse.CutLater
		m.queueDecision(en, reported{step: rouse.CutStep, unsure: true})
		return
	case en.row.State == rouse.StateNote: // it was kept next to its timer until now
		m.queueDecision(en, reported{step: removeRow})
		return
	}
	t, err := m.peekTimer(en)
	if err != nil {
		// The row cannot be decoded, so it stays in the store unchanged for an operator to inspect.
		m.window.dropEntry(en)
		m.opts.Events.emitFailed("decode", err)
		return
	}
	if look := m.stepWithoutFire(en, t, now); look.step != nil {
		m.queueDecision(en, look)
		return
	}
	occ, ok := t.Current()
	if !ok {
		m.window.dropEntry(en)
		return
	}
	en.occ = occ
	if t.Token != 0 {
		occ.Attempt = t.Attempts
		en.occ, en.token = occ, t.Token
		accepted := *t
		m.queueDecision(en, reported{o: rouse.Outcome{Verdict: rouse.Failed, Detail: "accepted, but no report came in time"},
			accepted: &accepted})
		return
	}
	// the attempt was counted before it was sent, and no result arrived
	if most := t.Spec.Retry.Effective().Attempts; t.Attempts > 0 && (t.Attempts >= most || t.Lost >= rouse.MaxLost) {
		en.occ.Attempt = t.Attempts
		detail := "the process ended, or stalled, during the attempt"
		// its result is known, and the policy has fewer attempts since
		if len(t.Failures) == min(int(t.Attempts), rouse.MaxFailures) {
			detail = t.LastError
		}
		m.queueDecision(en, reported{o: rouse.Outcome{Verdict: rouse.Failed, Lost: true, Detail: detail}})
		return
	}
	if t.Expired(occ, now) {
		m.expireEntry(en, t)
		return
	}
	if (t.Spec.Limit != "" || en.gate != nil) && !m.gates.enterGate(en, t, m.buckets.sinceWhen(en.row.Bucket), now) {
		m.trimWaiting(en)
		return
	}
	m.enqueueAtTarget(en, t, now)
}

// enqueueAtTarget puts a due entry that has its place at its gate into the lane of its target, or keeps it at
// the gate of that.
func (m *memory) enqueueAtTarget(en *entry, t *rouse.Timer, now rouse.Instant) {
	if !m.gates.enterTarget(en, t, now) {
		m.trimWaiting(en)
		return
	}
	m.enqueueInLane(en, t, now)
}

// trimWaiting frees the memory of the timer of an entry that waits at a gate with many others.
func (m *memory) trimWaiting(en *entry) {
	if en.lastGate().limit.waiting > decodedMost {
		m.dropDecoded(en)
	}
}

// enqueuePlaced moves on an entry that has got its place at its gate.
func (m *memory) enqueuePlaced(en *entry) {
	now := m.Now()
	m.noteLimited(en, now)
	t, err := m.peekTimer(en)
	if err != nil {
		m.window.dropEntry(en)
		m.opts.Events.emitFailed("decode", err)
		return
	}
	if t.Expired(en.occ, now) {
		m.expireEntry(en, t)
		return
	}
	if look := m.stepWithoutFire(en, t, now); look.step != nil {
		m.queueDecision(en, look)
		return
	}
	if en.target != nil {
		m.enqueueInLane(en, t, now)
	} else {
		m.enqueueAtTarget(en, t, now)
	}
}

// noteLimited records that an entry has waited for its limit.
func (m *memory) noteLimited(en *entry, now rouse.Instant) {
	m.noteLate(en, now, func(*rouse.Timer, rouse.Instant, rouse.Cause) rouse.Cause { return rouse.CauseLimit })
}

// enqueueInLane puts a due entry into the lane of its target.
func (m *memory) enqueueInLane(en *entry, t *rouse.Timer, now rouse.Instant) {
	lane := m.sink.Lane(en.row.Key.Namespace, &t.Spec)
	if m.opts.Limit != nil {
		lane = m.opts.Limit(en.row.Key.Namespace, &t.Spec, lane)
	}
	m.lanes.enqueueFire(en, t.Spec.Priority, lane, t.Attempts == 0 && !en.occ.Manual &&
		en.lastGate() == nil && now.Sub(t.SentAt(en.occ.Due)) > rouse.CatchUpAfter)
	if ln := en.lane; ln.queued > ln.limit-ln.out && m.lanes.queued > decodedMost { // it will wait
		m.dropDecoded(en)
	} else if en.timer == nil {
		m.keepDecoded(en)
	}
}

// stepWithoutFire returns the step that a due row needs instead of a fire; a result without a step means
// nothing.
func (m *memory) stepWithoutFire(en *entry, t *rouse.Timer, now rouse.Instant) (look reported) {
	switch {
	case t.Key.Fire != "" && !t.Live, t.Over(): // a dead letter or an ended timer whose retention is over
		return reported{step: m.removeExpired}
	case t.PauseOver(now) && (t.Attempts == 0 || !t.Manual):
		look.step = func(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
			if !t.PauseOver(now) {
				return rouse.Step{Keep: true}
			}
			to, until := *t, m.holds.outUntil(t)
			step := to.Resume(now, s, m.holds.dueMayBeOut(t))
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
		if s, ok := m.opts.Schedules.Known(t); !ok || mayMisfire(t, now, s) {
			return reported{step: applyMisfire, asks: true} // misfire evaluates again where it may wait for the store
		}
	}
	if t.Spec.Overlap == rouse.OverlapAllow && t.Key.Fire == "" && t.Spec.Recurring() {
		look.step = m.crowds.detachOrSkip
	}
	return look
}

// expireEntry ends an entry that is in no queue and whose deadline has passed. t is its timer.
func (m *memory) expireEntry(en *entry, t *rouse.Timer) {
	if t.Attempts == 0 && t.Began == 0 {
		m.queueDecision(en, reported{step: applyMisfire})
		return
	}
	// the misfire policy applies only to occurrences that have not started
	m.queueDecision(en, reported{o: rouse.Outcome{Verdict: rouse.Expired}})
}

// queueDecision queues the result of evaluating a row whose entry is in no queue and not out. One that the
// misfire policy may leave as it is has its place at its gate until then.
func (m *memory) queueDecision(en *entry, r reported) {
	if !r.asks {
		en.leaveGate()
	}
	en.state, en.lane, en.sent = settling, nil, 0
	r.en, r.of = en, en.row.Revision
	m.outcomes.addOutcome(r)
}

// decodedMost is how many entries keep their timers while they wait to be sent. With more,
// decoding again costs less than the memory: a timer takes twice that of its row, and all of the window may
// be waiting.
const decodedMost = 4096

// decodedTimer returns the entry's decoded timer, which it keeps.
func (m *memory) decodedTimer(en *entry) (*rouse.Timer, error) {
	if en.timer == nil {
		t, err := m.opts.Read(&en.row)
		if err != nil {
			return nil, err
		}
		en.timer = &t
	}
	return en.timer, nil
}

// peekTimer returns the entry's decoded timer, which is valid until the next call.
func (m *memory) peekTimer(en *entry) (*rouse.Timer, error) {
	if en.timer != nil {
		return en.timer, nil
	}
	if m.lookedAt == en && m.looked.Revision == en.row.Revision {
		return &m.looked, nil
	}
	t, err := m.opts.Read(&en.row)
	if err != nil {
		return nil, err
	}
	m.looked, m.lookedAt = t, en
	return &m.looked, nil
}

// keepDecoded lets an entry keep the timer that peekTimer has just returned for it.
func (m *memory) keepDecoded(en *entry) {
	t := m.looked
	en.timer = &t
}

// dropDecoded frees the memory of an entry's decoded timer, which is decoded again when it is needed.
func (m *memory) dropDecoded(en *entry) {
	if !en.noted {
		en.timer = nil
	}
}

// applyMisfire applies the misfire policy and the deadline.
func applyMisfire(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) rouse.Step {
	if !t.Misfired(now, s) {
		return rouse.Step{Keep: true}
	}
	return t.CatchUp(now, s)
}

// mayMisfire reports whether the misfire policy gives up the next occurrence of a timer, or whether finding
// out is too expensive for the firing loop.
func mayMisfire(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) bool {
	m := &schedulecache.Meter{Limit: quickSteps}
	return t.Misfired(now, m.On(s)) || m.Out
}

// removeRow removes a row.
func removeRow(*rouse.Timer, rouse.Instant, rouse.Schedule) rouse.Step { return rouse.Step{} }

// finishDraft writes the timer that was made from a draft. The timer is sent only after that, because its
// schedule may lie in the future. If the draft was invalid, that is recorded as the end of the occurrence
// that it asked for.
func finishDraft(t *rouse.Timer, now rouse.Instant, _ rouse.Schedule) rouse.Step {
	to := *t
	step := rouse.Step{To: &to}
	if t.IsDraft() {
		step.Log = []rouse.Record{{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation,
			Ending: rouse.EndDead, Cause: rouse.CauseInvalid,
			Due: t.Created, Reason: t.Reason, Ended: now}}
	}
	return step
}
