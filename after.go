package rouse

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Schedule is a sequence of due times. It is pure: the same schedule gives the same times on every machine.
type Schedule interface {
	// Next returns the first due time strictly after the given one; ok is false when there is none.
	Next(after Instant) (next Instant, ok bool)
}

// Step is what follows from an event in the life of a timer: one conditional write.
type Step struct {
	Keep bool   // the timer stays as it is; only Log is written
	To   *Timer // what becomes of the timer; nil: it has ended and its row is removed (unless Keep)
	Dead *Timer // a dead letter to keep
	Log  []Record
}

// missedCount bounds how many missed occurrences are counted one by one before a run's count is left open (0).
const missedCount = 100_000

// After is the whole life of a timer: it returns what follows when the attempt occ of t, sent at sent with the fencing token
// token, ended with o at now (all by the store's clock). t is the latest version of the row of that generation; if occ is no
// longer what the timer is at, the outcome is recorded and nothing else changes. s is the timer's schedule, needed for
// recurring timers only. It is pure.
func (t *Timer) After(occ Occurrence, token uint64, o Outcome, sent, now Instant, s Schedule) Step {
	if !t.waitsFor(occ) {
		if o.Verdict == Deferred || o.Verdict == Accepted || o.Verdict == Failed {
			return Step{Keep: true}
		}
		return Step{Keep: true, Log: []Record{t.record(occ, endingOf(o), o, sent, now)}}
	}
	to := *t
	to.Token = 0
	switch o.Verdict {
	case Deferred:
		to.Visible = now.Add(max(o.After, time.Millisecond))
		if to.Paused && to.Attempts == 0 && !occ.Manual {
			to.Visible = Never
		}
		return Step{To: &to}
	case Accepted:
		to.Attempts, to.Manual, to.Token = occ.Attempt, occ.Manual, token
		to.Visible = now.Add(o.After)
		return Step{To: &to}
	case Failed:
		r := t.Spec.Retry.Effective()
		if occ.Attempt < r.Attempts {
			to.Attempts, to.Manual, to.LastError = occ.Attempt, occ.Manual, detail(o)
			wait := o.After
			if wait == 0 {
				wait = r.Backoff(occ.Attempt, t.jitterSeed(occ))
			}
			to.Visible = now.Add(wait)
			if o.After == AtOnce {
				to.Visible = now
			}
			if to.Paused && !occ.Manual {
				to.Visible = Never
			}
			return Step{To: &to}
		}
		fallthrough
	case Rejected:
		dead := *t
		dead.Key.Fire = FireID(t.Key.Namespace, t.Key.Name, t.Generation, occ.Due, occ.Manual)
		dead.Due, dead.Runs, dead.Manual = occ.Due, nil, occ.Manual
		dead.Paused, dead.Reason = false, "" // the pause is the timer's
		if occ.Manual {
			dead.Runs = []Instant{occ.Due}
		}
		dead.Attempts, dead.Token, dead.Visible, dead.Updated = occ.Attempt, 0, Never, now
		dead.LastError = detail(o)
		if t.Key.Fire != "" { // a dead letter that was redriven, in vain
			return Step{To: &dead, Log: []Record{t.record(occ, EndDead, o, sent, now)}}
		}
		step := to.advance(occ, now, s)
		step.Dead = &dead
		step.Log = append([]Record{t.record(occ, EndDead, o, sent, now)}, step.Log...)
		return step
	case Gone:
		return Step{Log: []Record{t.record(occ, EndDead, o, sent, now)}}
	}
	step := to.advance(occ, now, s)
	step.Log = append([]Record{t.record(occ, EndFired, o, sent, now)}, step.Log...)
	return step
}

// waitsFor says whether occ is what the timer is at, or would be but for another one in front of it: a run that was asked for
// while the scheduled occurrence was on its way, or the other way round.
func (t *Timer) waitsFor(occ Occurrence) bool {
	switch {
	case t.Attempts != 0 && t.Manual != occ.Manual:
		return false // the one in progress is another one
	case occ.Manual:
		return slices.Contains(t.Runs, occ.Due)
	}
	return occ.Due == t.Due
}

// advance moves on to what comes after occ, which has ended.
func (t *Timer) advance(occ Occurrence, now Instant, s Schedule) Step {
	t.Attempts, t.Manual, t.Token, t.LastError = 0, false, 0, ""
	t.Ended++
	if t.Key.Fire != "" {
		return Step{}
	}
	if occ.Manual {
		t.Runs = slices.DeleteFunc(slices.Clone(t.Runs), func(r Instant) bool { return r == occ.Due })
	} else {
		next, ok := Never, false
		if s != nil && t.Spec.Recurring() {
			next, ok = s.Next(t.Due)
		}
		if !ok {
			next = Never
		}
		t.Due = next
	}
	log := t.catchUp(now, s)
	if t.Over() {
		return Step{Log: log}
	}
	t.Visible = t.rest()
	return Step{To: t, Log: log}
}

// Over says that nothing of the timer is left to fire: its row has no reason to be.
func (t *Timer) Over() bool { return t.Attempts == 0 && t.Due == Never && len(t.Runs) == 0 }

// rest returns when a timer with no attempt in progress needs attention.
func (t *Timer) rest() Instant {
	switch {
	case len(t.Runs) > 0:
		return t.Runs[0]
	case t.Paused:
		return Never
	}
	return t.Due
}

// Misfired says whether, at now, the scheduled occurrence that is next has a later one due as well, so that CatchUp would
// change something.
func (t *Timer) Misfired(now Instant, s Schedule) bool {
	if t.Attempts != 0 || len(t.Runs) > 0 || t.Paused || t.Due > now || s == nil || !t.Spec.Recurring() || t.Spec.Misfire == MisfireAll {
		return false
	}
	next, ok := s.Next(t.Due)
	return ok && next <= now
}

// CatchUp applies the misfire policy to a timer for which Misfired holds.
func (t *Timer) CatchUp(now Instant, s Schedule) Step {
	to := *t
	log := to.catchUp(now, s)
	if to.Over() {
		return Step{Log: log}
	}
	to.Visible = to.rest()
	return Step{To: &to, Log: log}
}

// catchUp moves Due past the occurrences that the misfire policy gives up, and returns their record. An occurrence is given
// up only when a later one is due as well, so a single late one always fires.
func (t *Timer) catchUp(now Instant, s Schedule) []Record {
	if t.Due >= now || s == nil || t.Paused || !t.Spec.Recurring() || t.Spec.Misfire == MisfireAll {
		return nil
	}
	if next, ok := s.Next(t.Due); !ok || next > now {
		return nil
	}
	first, last := t.Due, t.Due
	var count uint32
	for cur := t.Due; ; {
		next, ok := s.Next(cur)
		if t.Spec.Misfire == MisfireLatest && (!ok || next > now) {
			t.Due = cur // the latest one that is due
			break
		}
		last = cur
		count++
		if !ok {
			t.Due = Never
			break
		}
		if next > now {
			t.Due = next
			break
		}
		cur = next
		if count == missedCount {
			// Too many to walk: jump near now, and leave the count open.
			cur = jump(cur, now, s)
			count = 0
			return t.finishJump(first, cur, now, s)
		}
	}
	return []Record{t.missed(first, last, count, now)}
}

// jump returns an occurrence that is due at now or before, at most a few doublings of a minute before it if there are any.
func jump(cur, now Instant, s Schedule) Instant {
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from <= cur {
			return cur
		}
		if n, ok := s.Next(from); ok && n <= now {
			return n
		}
	}
}

// finishJump walks on from cur, which is at most a few occurrences before now, and records the run from first on without a count.
func (t *Timer) finishJump(first, cur, now Instant, s Schedule) []Record {
	last := cur
	for {
		next, ok := s.Next(cur)
		if !ok || next > now {
			switch {
			case t.Spec.Misfire == MisfireLatest:
				t.Due = cur
			case ok:
				last, t.Due = cur, next
			default:
				last, t.Due = cur, Never
			}
			return []Record{t.missed(first, last, 0, now)}
		}
		last, cur = cur, next
	}
}

func (t *Timer) missed(first, last Instant, count uint32, now Instant) Record {
	return Record{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: EndMissed,
		Due: first, LastDue: last, Count: count, Reason: "misfire policy " + t.Spec.Misfire.String(), Ended: now}
}

func (t *Timer) record(occ Occurrence, e Ending, o Outcome, sent, now Instant) Record {
	return Record{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: e, Manual: occ.Manual,
		Due: occ.Due, Attempts: occ.Attempt, Code: o.Code, Reason: detail(o), Sent: sent, Ended: now}
}

// detail is the text of an outcome as it is kept: what a receiver answered may be anything, what is kept is UTF-8.
func detail(o Outcome) string { return Shorten(strings.ToValidUTF8(o.Detail, "\uFFFD"), MaxDetail) }

func endingOf(o Outcome) Ending {
	if o.Verdict == Done {
		return EndFired
	}
	return EndDead
}

// Backoff returns the wait after the attempt n (1 is the first) failed: Interval·2^(n-1), at most Max, plus a part of Jitter
// that the seed picks. This is the shape "interval·2^n + jitter" with n counted from 0.
func (r Retry) Backoff(n uint32, seed uint64) time.Duration {
	d := r.Interval
	for i := uint32(1); i < n && d < r.Max; i++ {
		d *= 2
	}
	d = min(d, r.Max)
	if r.Jitter > 0 {
		d += time.Duration(seed % uint64(r.Jitter+1))
	}
	return d
}

// jitterSeed is stable for an attempt of an occurrence, so that After stays pure.
func (t *Timer) jitterSeed(occ Occurrence) uint64 {
	h := fnv.New64a()
	var buf [24]byte
	binary.LittleEndian.PutUint64(buf[:], t.Generation)
	binary.LittleEndian.PutUint64(buf[8:], uint64(occ.Due))
	binary.LittleEndian.PutUint64(buf[16:], uint64(occ.Attempt))
	h.Write([]byte(t.Key.Name))
	h.Write(buf[:])
	return h.Sum64()
}
