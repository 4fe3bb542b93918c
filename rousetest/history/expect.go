package history

// expectation is the set of occurrences of one generation.
type expectation interface {
	// matchDue returns the occurrence that a claimed due time names.
	matchDue(due Time) (o occurrence, ok bool)
	// nextOccurrence returns the first occurrence that begins after a time.
	nextOccurrence(after Time) (o occurrence, ok bool)
	// widenStart returns the expectation as if the timer had been made long ago.
	widenStart() expectation
}

// occurrence is due between lo and hi, which differ where the time from which the service counts is unknown.
type occurrence struct{ lo, hi Time }

const milli = Time(1000)

func floorMilli(t Time) Time { return t - Time(positiveMod(int64(t), int64(milli))) }
func ceilMilli(t Time) Time  { return floorMilli(t + milli - 1) }

// sameMilli reports whether a claim names a point in time: services count in milliseconds and may round.
func sameMilli(claim, point Time) bool {
	return claim == point || claim == floorMilli(point) || claim == ceilMilli(point)
}

// once is due at one time.
type once struct {
	occurrence
	slack Time // the service's clock, by which it claims a due time that no answer had, may be off by so much
	claim Time // the first due time that it claimed; 0 before
}

func (e *once) matchDue(due Time) (occurrence, bool) {
	switch {
	case e.claim != 0:
		return e.occurrence, due == e.claim
	case e.lo == e.hi:
		return e.occurrence, sameMilli(due, e.lo)
	}
	return e.occurrence, floorMilli(e.lo-e.slack) <= due && due <= ceilMilli(e.hi+e.slack)
}

func (e *once) nextOccurrence(after Time) (occurrence, bool) { return e.occurrence, e.lo > after }

func (e *once) widenStart() expectation { return e }

// every is due at k·step after its first occurrence, k = 0, 1, …, until the given time.
type every struct {
	first       occurrence
	step, until Time
	slack       Time // as once has it
	start       Time // of the schedule; first is not before the timer
}

func (e *every) nthOccurrence(k Time) (occurrence, bool) {
	o := occurrence{e.first.lo + k*e.step, e.first.hi + k*e.step}
	return o, o.lo <= e.until
}

func (e *every) matchDue(due Time) (occurrence, bool) {
	from := floorMilli(e.first.lo - e.slack)
	if due < from {
		return occurrence{}, false
	}
	o, ok := e.nthOccurrence((due - from) / e.step)
	if e.first.lo == e.first.hi {
		return o, ok && sameMilli(due, o.lo)
	}
	return o, ok && due <= ceilMilli(o.hi+e.slack)
}

func (e *every) nextOccurrence(after Time) (occurrence, bool) {
	if after < e.first.lo {
		return e.nthOccurrence(0)
	}
	return e.nthOccurrence((after-e.first.lo)/e.step + 1)
}

func (e *every) widenStart() expectation {
	if e.start == 0 {
		return e
	}
	return &every{first: occurrence{e.start, e.start}, step: e.step, until: e.until, start: e.start}
}

// pinFirstDue settles from which time the service counts, by the first due time that it claims.
func pinFirstDue(e expectation, due Time) {
	switch e := e.(type) {
	case *once:
		if e.lo < e.hi {
			e.claim = due
		}
	case *working:
		pinFirstDue(e.expectation, due)
	case *every:
		if o, ok := e.matchDue(due); ok && e.first.lo < e.first.hi {
			base := due - (o.lo - e.first.lo)
			e.first, e.slack = occurrence{base, base}, 0
		}
	}
}

// crontab is due at times of the wall clock.
type crontab struct {
	times       *cronTimes
	from, until Time // the timer is there
	start       Time // of the schedule
}

func (e *crontab) matchDue(due Time) (occurrence, bool) {
	return occurrence{due, due}, e.from <= due && due <= e.until && e.times.hasCronTime(due)
}

func (e *crontab) nextOccurrence(after Time) (occurrence, bool) {
	t, ok := e.times.nextCronTime(max(after, e.from-1))
	return occurrence{t, t}, ok && t <= e.until
}

func (e *crontab) widenStart() expectation { return &crontab{e.times, e.start, e.until, e.start} }
