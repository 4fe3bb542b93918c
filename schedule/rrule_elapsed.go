package schedule

import (
	"math"
	"time"

	"github.com/rousehq/rouse"
)

// elapsed is a rule of hours, minutes or seconds in a zone whose clocks change: its periods count elapsed
// time from the begin, and its parts are about the local times then. While the offset stays the same, that is
// a rule on the wall; the begin, and with it the parts that come from it, is as far from the wall's as the
// offset.
type elapsed struct {
	zone  zone
	parts *ruleParts
	begin int64 // these are instants, in seconds
	last  int64
	by    map[int64]*recur // by offset
}

// offsetsUntil is the year up to which offsets of a zone are looked for when a rule is read. Those that come
// later are computed when they are met.
const offsetsUntil = 2100

// elapsedRule returns the rule of the parts as it follows elapsed time. base is the same rule on the wall.
func (p *ruleParts) elapsedRule(base *recur, z zone) (*elapsed, *fault) {
	z.rule = dstRule{gapShift, repeatFirst}
	first, _ := z.dueInstants(base.begin)
	e := &elapsed{zone: z, parts: p, begin: first[0], last: math.MaxInt64, by: map[int64]*recur{}}
	switch {
	case p.until.utc:
		e.last = p.until.wall
	case base.bounded:
		end := p.until.wall
		if p.until.date {
			end += secondsADay - 1
		}
		z.rule.repeat = repeatBoth
		at, n := z.dueInstants(end)
		e.last = at[n-1]
	}
	fires := false
	horizon := time.Date(offsetsUntil, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for s := z.spanAt(e.begin); ; s = z.spanAt(s.end) {
		if e.by[s.offset] == nil {
			e.by[s.offset] = e.ruleForOffset(s.offset)
		}
		r := e.by[s.offset]
		fires = fires || p.refuseNever(r, &looks{most: maxRuleLooks}) == nil
		if s.end >= min(horizon, e.last) {
			break
		}
	}
	if !fires {
		return nil, p.refuseNever(base, &looks{most: maxRuleLooks})
	}
	l := looks{most: maxRuleLooks}
	defer func() { p.steps += l.n }()
	if at, ok := e.nthElapsed(p.count, &l); ok {
		e.last = at
	}
	if l.isExhausted() {
		return nil, tooManyLooks
	}
	return e, nil
}

// ruleForOffset returns the rule on the wall for an offset.
func (e *elapsed) ruleForOffset(offset int64) *recur {
	if r := e.by[offset]; r != nil {
		return r
	}
	r := &recur{freq: e.parts.freq, interval: e.parts.interval, begin: e.begin + offset, last: math.MaxInt64}
	e.parts.setDays(&r.days, r.begin)
	e.parts.setTimes(r)
	r.prepareWalk(&looks{most: maxRuleLooks})
	return r
}

// ruleInSpan returns the rule on the wall in the span of an instant, with the end of the span or of the rule
// as its last time.
func (e *elapsed) ruleInSpan(at int64) (r recur, s span) {
	s = e.zone.spanAt(at)
	r = *e.ruleForOffset(s.offset)
	if last := min(s.end-1, e.last); last < lastDay*secondsADay {
		r.last = last + s.offset
	}
	return r, s
}

// nextElapsed returns the first time of the rule that is not before an instant, and its local time. Both are
// in seconds.
func (e *elapsed) nextElapsed(at int64, l *looks) (next, wall int64, ok bool) {
	for at = max(at, e.begin); at <= e.last && l.spendCheck(); {
		r, s := e.ruleInSpan(at)
		if wall, ok = r.nextWall(at+s.offset, l); ok {
			return wall - s.offset, wall, true
		}
		if s.end == math.MaxInt64 || s.end > int64(rouse.MaxInstant)/1000 {
			return 0, 0, false
		}
		at = s.end
	}
	return 0, 0, false
}

// nthElapsed returns the n-th time of the rule, from 1; ok is false if there are fewer, or n is 0.
func (e *elapsed) nthElapsed(n int64, l *looks) (at int64, ok bool) {
	for at = e.begin; n > 0 && at <= e.last && l.spendCheck(); {
		r, s := e.ruleInSpan(at)
		var wall int64
		if wall, n, ok = r.nthWall(n, at+s.offset, l); ok {
			return wall - s.offset, true
		}
		if s.end == math.MaxInt64 || s.end > int64(rouse.MaxInstant)/1000 {
			break
		}
		at = s.end
	}
	return 0, false
}

// elapsedTimes are the times of a set's rule that follows elapsed time, less those that are taken out.
type elapsedTimes struct{ set *rrule }

// Next returns the first of them that is later.
func (t elapsedTimes) Next(after rouse.Instant) (rouse.Instant, bool) {
	return t.nextWithin(after, &budget{left: rouse.MaxScheduleSteps})
}

func (t elapsedTimes) nextWithin(after rouse.Instant, b *budget) (rouse.Instant, bool) {
	l := looks{most: max(0, b.left) * looksPerStep}
	at := floorDiv(int64(after), 1000) + 1
	for {
		next, wall, ok := t.set.elapsed.nextElapsed(at, &l)
		if ok && t.set.takenOut(wall) && l.spendCheck() {
			at = next + 1
			continue
		}
		if b.spendLooks(l.n); l.isExhausted() {
			b.left, ok = -1, false
		}
		return rouse.Instant(next * 1000), ok
	}
}
