package engine

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// timerToSettle returns the timer of an entry to settle. If it is not decoded, it is appended to decoded,
// which has room. It returns nil for a draft, whose decoding compiles a schedule and takes too long here.
func (s *settler) timerToSettle(en *entry, decoded *[]rouse.Timer) *rouse.Timer {
	if en.timer != nil {
		return en.timer
	}
	if en.draft {
		return nil
	}
	t, err := s.opts.Read(&en.row)
	if err != nil {
		return unreadableTimer(&en.row)
	}
	*decoded = append(*decoded, t)
	return &(*decoded)[len(*decoded)-1]
}

// quickChange is buildChange for cheap steps; expensive ones are queued for evaluation, and it returns
// errLater.
func (s *settler) quickChange(r *reported, t *rouse.Timer, orphan, logged bool, now rouse.Instant,
	m *schedulecache.Meter) (c rouse.Change, err error) {
	if t != nil {
		c, err = s.buildChange(r, t, orphan, logged, now, m)
		if err == nil && !m.Out || err != nil && !errors.Is(err, errLater) {
			return c, err
		}
	}
	if s.evaluations.queueEvaluation(*r) {
		return c, errLater
	}
	if t == nil { // the engine is stopping: delivered fires are still settled
		t = unreadableTimer(&r.en.row)
	}
	*m = schedulecache.Meter{}
	return s.buildChange(r, t, orphan, logged, now, m)
}

// buildChange returns the conditional write for an outcome. logged means that its occurrence was recorded
// while it was out. If the meter has a limit and the schedule is not cached, or the store has to be read, it
// returns errLater.
func (s *settler) buildChange(r *reported, t *rouse.Timer, orphan, logged bool, now rouse.Instant,
	m *schedulecache.Meter) (rouse.Change, error) {
	if orphan { // its timer was deleted or replaced: only the record of the fire remains to be written
		var log []rouse.Record
		// what was not sent, and came due only after another node had ended its timer, was no occurrence
		if r.fire && !logged && (r.en.passed || r.en.awaited || s.others == nil) {
			log = []rouse.Record{t.Ending(r.en.occ, r.o, r.en.sent, now, r.en.cut, "deleted or replaced during the attempt")}
		}
		r.doubt = r.doubt || s.others != nil // a delete through another node may have recorded it
		log, err := s.unrecordedLog(r, t, log, m)
		step := rouse.Step{Keep: true, Log: log}
		step.AddNotices(t, r.o, now, s.NotifyRules(t.Key.Namespace))
		return s.StepChange(t.Key, rouse.AnyRevision, step), err
	}
	if !r.fire && t.Revision != r.of { // the row has changed since it was evaluated: it will be evaluated again
		return rouse.Change{Key: t.Key, If: t.Revision, Keep: true}, nil
	}
	if r.unsure && m.Limit > 0 { // it asks the store
		return rouse.Change{}, errLater
	}
	sched, known := s.opts.Schedules.Known(t)
	if !known {
		if m.Limit > 0 {
			return rouse.Change{}, errLater
		}
		var err error
		if sched, err = s.opts.Schedules.Settling(t); err != nil {
			return rouse.Change{}, err // without the schedule, the step would end the timer
		}
	}
	if cause, from := s.heldUp(r, now); cause != rouse.CauseUnknown {
		held := *t
		held.Waited(cause, from, now)
		t = &held
	}
	sched = m.On(sched)
	var err error
	var step rouse.Step
	if r.step != nil {
		step = r.step(t, now, sched)
		r.kept = r.asks && step.Keep
	} else {
		step = t.After(r.en.occ, r.en.token, r.o, r.en.sent, now, sched)
	}
	if m.Out {
		return rouse.Change{}, errLater
	}
	if to := step.To; to != nil && to.Paused && to.PauseCause != t.PauseCause {
		s.opts.Events.emitPaused(to)
	}
	if step.Keep && logged {
		step.Log = nil
	} else if step.Keep || r.unsure {
		r.doubt = r.doubt || r.unsure || s.others != nil // another node may have advanced the timer
		if step.Log, err = s.unrecordedLog(r, t, step.Log, m); err != nil {
			return rouse.Change{}, err
		}
	}
	if r.o.Verdict == rouse.Gone && t.Key.Fire != "" && !t.Asked && !t.Manual { // one that a client asked for ends alone
		s.retention.noteGone(t)
	}
	step.AddNotices(t, r.o, now, s.NotifyRules(t.Key.Namespace))
	return s.StepChange(t.Key, t.Revision, step), nil
}

// heldUp returns why an outcome was not settled in time, and since when; CauseUnknown if it was.
func (s *settler) heldUp(r *reported, now rouse.Instant) (c rouse.Cause, from rouse.Instant) {
	switch {
	case r.away != 0:
		return rouse.CauseStoreUnavailable, r.away
	case r.since != 0 && now.Sub(r.since) >= noticeable: // it waited behind a commit
		c = s.hindrances.causeBetween(r.since, now)
	}
	return c, r.since
}

// unrecordedLog returns the record of an occurrence that the timer has passed, or nil if an earlier write
// whose response was lost has already recorded it. That takes a read of the store, which is too expensive if
// the meter has a limit: thousands of fires of one namespace may need one each.
func (s *settler) unrecordedLog(r *reported, t *rouse.Timer, log []rouse.Record,
	m *schedulecache.Meter) ([]rouse.Record, error) {
	if !r.doubt || len(log) == 0 {
		return log, nil
	}
	if m.Limit > 0 {
		return nil, errLater
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	page, err := s.store.Records(ctx, rouse.RecordQuery{Namespace: log[0].Namespace, Name: log[0].Name, Limit: 100})
	if err != nil {
		return nil, err
	}
	for i := range page.Records {
		if have := &page.Records[i]; have.Generation == log[0].Generation && have.Due == log[0].Due &&
			have.Manual == log[0].Manual &&
			!(t.Asked && have.Ended < t.Updated) { // else it is of the life of the occurrence before a client asked for another
			return nil, nil
		}
	}
	return log, nil
}

// unreadableTimer is the timer of a row that cannot be decoded.
func unreadableTimer(row *rouse.Row) *rouse.Timer {
	return &rouse.Timer{Key: row.Key, Generation: row.Generation, Revision: row.Revision}
}
