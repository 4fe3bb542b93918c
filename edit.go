package rouse

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// MaxRuns bounds the runs of one timer that are asked for and have not ended.
const MaxRuns = 16

// MaxSkips bounds the occurrences that one call skips.
const MaxSkips = 10_000

// NewTimer returns the timer that a client's spec makes at now, with its first due time. The spec has passed
// its checks; s is its schedule. A schedule without a due time after now is refused, unless it is one shot:
// that fires at once if its time has passed. So is a retry policy, or a jitter, that outlasts the interval of
// its schedule. A caller that does not know the time exactly passes two: now is not before the true time, so
// that delays are not cut short, and sure is not after it. A schedule that begins at a fixed instant between
// them keeps that instant, because it may still be in the future. Callers with the exact time pass it twice.
func NewTimer(key Key, spec Spec, sure, now Instant, s Schedule) (Timer, error) {
	t := Timer{Key: key, Spec: spec, Created: now, Updated: now, Anchor: now}
	from := now
	if !spec.Recurring() {
		from = 0
	}
	if err := spec.CheckCost(from, s); err != nil {
		return Timer{}, err
	}
	due, ok := s.Next(from)
	if first, begins := s.Next(0); begins && first > sure && from != 0 {
		due, ok = first, true
	}
	if !ok {
		wrong := "never fires after " + now.String()
		if end := spec.scheduleEnd(now); end != Never {
			wrong = "never fires between " + now.String() + " and its end, " + end.String()
		}
		return Timer{}, Refuse("schedule", spec.Schedule, wrong, "give a schedule with a time to come")
	}
	if err := spec.CheckIntervals(due, s); err != nil {
		return Timer{}, err
	}
	t.Due = due
	t.Visible = t.nextAttention(now)
	if spec.Expect.Any() {
		t.ExpectFrom = now
	}
	return t, nil
}

// scheduleEnd returns the time from which no occurrence is due, for a timer created at a time; Never without
// an end.
func (s *Spec) scheduleEnd(created Instant) Instant {
	switch {
	case s.End != 0:
		return s.End
	case s.TTL != 0:
		return created.Add(s.TTL)
	}
	return Never
}

// intervals is the number of intervals of a schedule that are checked to find the shortest one.
const intervals = 64

// CheckIntervals refuses, with an *Invalid, a retry policy or a jitter that does not fit between two
// occurrences of the schedule s, whose first one is at due. It checks a few dozen occurrences.
func (spec *Spec) CheckIntervals(due Instant, s Schedule) error {
	stated := spec.Retry.Attempts > 1 && spec.Overlap == OverlapDefault
	if !spec.Recurring() || !stated && spec.Jitter == 0 {
		return nil
	}
	shortest, at := ShortestInterval(due, s)
	if shortest < 0 {
		return nil
	}
	if spec.Jitter >= shortest {
		return Refuse("jitter", spec.Jitter.String(),
			fmt.Sprintf("is not less than the interval of the schedule, %v after %v", shortest, at),
			"use less, so that occurrences keep their order")
	}
	if !stated {
		return nil
	}
	r := spec.Retry.Effective()
	if worst, sum := r.Worst(); worst > shortest {
		return Refuse("retry", "", fmt.Sprintf("can take %v (%s), longer than the interval of the schedule, %v after %v",
			worst, sum, shortest, at),
			"use fewer attempts, a shorter timeout or interval, or give_up; or set overlap (wait, skip or allow) for occurrences that come due before the attempts end")
	}
	return nil
}

// ShortestInterval returns the shortest time between two of the next few dozen occurrences of a schedule,
// whose first one is at due, and where it begins; it is negative if there are no two.
func ShortestInterval(due Instant, s Schedule) (shortest time.Duration, at Instant) {
	shortest, at = -1, due
	for cur, n := due, 0; n < intervals; n++ {
		next, ok := s.Next(cur)
		if !ok {
			break
		}
		if d := next.Sub(cur); shortest < 0 || d < shortest {
			shortest, at = d, cur
		}
		cur = next
	}
	return shortest, at
}

// Pause stops the scheduled occurrences until Resume, or until the given time if that is not 0. An attempt in
// flight ends normally, and the next attempt of its occurrence waits for the end of the pause, unless runs
// wait behind it. Pausing a paused timer replaces the reason and the time.
func (t *Timer) Pause(reason string, until, now Instant) error {
	if until != 0 && until <= now {
		return Refuse("until", until.String(), "is not after now, "+now.String(), "give a time to come, or none")
	}
	if t.Over() {
		return fmt.Errorf("the schedule has ended: %w", ErrConflict)
	}
	if t.PauseOver(now) { // which an occurrence in progress has kept from being noticed
		walk{t: t}.rememberPause(Span{cmp.Or(t.PausedAt, MinInstant), t.Until})
	}
	if !t.Paused || t.PauseOver(now) {
		t.PausedAt = now
	}
	t.Paused, t.Reason, t.Until, t.PauseCause, t.Updated = true, Shorten(reason, MaxDetail), until, PauseRequested, now
	switch {
	case t.Token != 0, t.Attempts != 0 && !t.awaitsPauseEnd(): // these continue
	case t.Attempts != 0:
		t.Visible = t.pauseEnds()
	default:
		t.Visible = t.nextAttention(now)
	}
	return nil
}

// inProgress reports whether an occurrence of the timer is in progress. One that was imported so may have no
// attempt: its first one is to be repeated.
func inProgress(t *Timer) bool { return t.Attempts != 0 || t.Began != 0 }

// awaitsPauseEnd reports whether the occurrence in progress waits for the end of the timer's pause before its
// next attempt. A run fires during a pause, and so does an occurrence that the run waits for.
func (t *Timer) awaitsPauseEnd() bool { return t.Paused && !t.Manual && len(t.Runs) == 0 }

// PauseOver reports whether the timer's pause has ended by itself at now.
func (t *Timer) PauseOver(now Instant) bool { return t.Paused && t.Until != 0 && t.Until <= now }

// Resume ends a pause. Occurrences of a recurring timer that came due after its beginning are skipped, and
// the returned record lists them; one that was due before goes on by its policies. A one-shot timer whose
// time has passed fires at once. A schedule that ended during the pause leaves the timer Over. If busy, the
// scheduled occurrence at Due is in flight and is not skipped.
func (t *Timer) Resume(now Instant, s Schedule, busy bool) Step {
	if !t.Paused {
		return Step{To: t}
	}
	w := walk{t: t, now: now, s: s}
	if t.Due == UnknownDue {
		t.Due = w.dueAfter(now, t.Passed) // its calendars may have changed since
	}
	// an occurrence due after the end of a pause fires, however late that end is noticed
	pause := Span{cmp.Or(t.PausedAt, MinInstant), min(now, t.pauseEnds())}
	if t.Due <= pause.From || !t.Spec.Recurring() {
		t.waitedForPause(pause)
	}
	w.rememberPause(pause)
	if t.Spec.Expect.Any() {
		t.ExpectFrom = now
	}
	t.clearPause()
	t.Updated = max(now, t.Updated)
	if begun := inProgress(t); busy || begun && !t.Manual {
		switch {
		case t.Token != 0:
		case begun:
			t.Visible = now
		default:
			t.Visible = t.nextAttention(now)
		}
		return Step{To: t}
	}
	log := w.passPauses()
	if t.Attempts != 0 { // a run in progress continues
		return Step{To: t, Log: log}
	}
	return w.stepToWaiting(log)
}

// clearPause ends the pause, and resets the count of dead letters.
func (t *Timer) clearPause() {
	t.Paused, t.PausedAt, t.Reason, t.Until, t.PauseCause, t.ConsecutiveDead = false, 0, "", 0, PauseRequested, 0
}

// pauseAs pauses the timer as another one is.
func (t *Timer) pauseAs(other *Timer) {
	t.Paused, t.PausedAt, t.Reason, t.Until, t.PauseCause = true, other.PausedAt, other.Reason, other.Until,
		other.PauseCause
}

// waitedForPause records a pause that is over as the wait of the next occurrence. A wait after the pause may
// be recorded already.
func (t *Timer) waitedForPause(pause Span) {
	from := max(t.SentAt(t.Due), pause.From)
	if t.Due == Never || from >= pause.To {
		return
	}
	if len(t.Waits) > 0 && len(t.Waits) < MaxWaits && t.Waits[0].From >= pause.To {
		t.Waits = append([]Wait{{CausePaused, from, pause.To}}, t.Waits...)
		return
	}
	t.Waited(CausePaused, from, pause.To)
}

// Skip skips the next count occurrences, and returns the step with their record. If busy, the scheduled
// occurrence at Due is in flight, and the skipped ones are those after it.
func (t *Timer) Skip(count uint32, reason string, now Instant, s Schedule, busy bool) (Step, error) {
	if count == 0 || count > MaxSkips || uint64(t.Skips)+uint64(count) > MaxSkips {
		return Step{}, Refuse("count", strconv.FormatUint(uint64(count), 10), "is out of bounds",
			fmt.Sprintf("skip 1 to %d occurrences", MaxSkips))
	}
	switch {
	case t.Due == Never:
		return Step{}, fmt.Errorf("the schedule has ended, there is nothing to skip: %w", ErrConflict)
	case t.Due == UnknownDue && t.PauseCause == PauseCalendar:
		return Step{}, fmt.Errorf("its calendars leave no day for it, there is nothing to skip: %w", ErrConflict)
	case t.Due == UnknownDue:
		return Step{}, fmt.Errorf("its next occurrence is not known, there is nothing to skip: %w", ErrConflict)
	}
	to := *t
	to.Updated = now
	if inProgress(t) && !t.Manual || busy {
		to.Skips += count
		return Step{To: &to}, nil
	}
	text := "asked for"
	if reason != "" {
		text += ": " + Shorten(reason, MaxDetail-16)
	}
	w := walk{t: &to, now: now, s: s}
	log := append(w.passPauses(), w.skipNext(&count, text)...)
	if t.Attempts != 0 { // a run in progress continues
		return Step{To: &to, Log: log}, nil
	}
	return w.stepToWaiting(log), nil
}

// skipNext skips the next *n occurrences, and decrements *n.
func (w walk) skipNext(n *uint32, text string) []Record {
	left := *n
	*n = 0
	log := w.passGivenUp(0, func(Instant, Instant) why {
		if left == 0 {
			return why{}
		}
		left--
		return why{ending: EndSkipped, text: text, cause: CauseSkippedByRequest}
	})
	if left > 0 && w.t.Due != Never && len(log) > 0 {
		log[len(log)-1].Reason = Shorten(fmt.Sprintf("%s; %d more were to be skipped, and cost too much to find", text, left),
			MaxDetail)
	}
	return log
}

// Run asks for a fire now, in addition to the schedule: it never uses up an occurrence. It returns the run's
// due time, which names it. With OverlapAllow the run is a row next to the timer, which is returned, too.
// Otherwise it takes its turn: an occurrence in progress is before it, and is tried again at once if it
// waited for the end of a pause.
func (t *Timer) Run(now Instant) (due Instant, side *Timer, err error) {
	if len(t.Runs) >= MaxRuns {
		return 0, nil, Refuse("name", t.Key.Name, strconv.Itoa(MaxRuns)+" runs of this timer are waiting already",
			"wait for them to end")
	}
	due = max(now, t.Updated+1) // no earlier run, even an ended one, had this due time
	if n := len(t.Runs); n > 0 && due <= t.Runs[n-1] {
		due = t.Runs[n-1] + 1
	}
	if due == t.Due { // keeps the two apart for receivers that look at due times only
		due++
	}
	t.Updated = due
	if t.Spec.Overlap == OverlapAllow {
		run := t.detachedRow(due, now)
		run.Key.Fire = FireID(t.Key.Namespace, t.Key.Name, t.Generation, due, true)
		run.Manual, run.Runs = true, []Instant{due}
		return due, &run, nil
	}
	parked := t.Attempts != 0 && t.Token == 0 && t.awaitsPauseEnd()
	t.Runs = append(slices.Clip(t.Runs), due)
	switch {
	case t.Attempts == 0:
		t.Visible = t.nextAttention(now)
	case parked:
		t.Visible = now
	}
	return due, nil, nil
}

// Redrive returns the row that gives a dead letter a new set of attempts: the same occurrence, with the same
// fire id, due at once. Its key stays the dead letter's.
func (t *Timer) Redrive(now Instant) Timer {
	to := *t
	to.Attempts, to.Began, to.Failures, to.Waits, to.Visible, to.Updated = 0, 0, nil, nil, now, now
	to.Live, to.Asked = true, true
	return to
}

// Backfill returns the row that fires the occurrence of a past due time (again): with the fire id that it
// had, or would have had, so that a receiver can recognize duplicates.
func (t *Timer) Backfill(due, now Instant) Timer {
	side := t.detachedRow(due, now)
	side.Asked = true
	return side
}

// Normalize brings a timer that comes from elsewhere, or a row next to one, into a state that fires: its
// Visible time follows from the rest of it. It refuses, with an *Invalid, a state that no timer reaches.
// Texts that earlier versions kept as they came are cleaned.
func (t *Timer) Normalize(now Instant) error {
	t.Reason, t.LastError = CleanText(t.Reason, MaxDetail), CleanText(t.LastError, MaxDetail)
	t.Failures = slices.Clone(t.Failures)
	for i := range t.Failures {
		t.Failures[i].Detail = CleanText(t.Failures[i].Detail, MaxFailureDetail)
	}
	t.Answer = t.Answer.cleanAnswer()
	t.Created = cmp.Or(t.Created, now)
	t.Updated = cmp.Or(t.Updated, now)
	t.Anchor = cmp.Or(t.Anchor, t.Created)
	if !t.Paused {
		t.PauseCause = PauseRequested
	}
	if err := t.checkState(); err != nil {
		return err
	}
	if t.Key.Fire == "" || t.Live {
		t.repeatAttempt(now)
	}
	t.Token, t.Lost = 0, 0 // the receivers of attempts elsewhere may be others
	if t.Key.Fire != "" {
		switch {
		case !t.Live:
			t.Visible = Never
		case !t.Asked || t.Attempts != 0 || t.Visible < now || t.Visible > MaxInstant: // else it starts then, at the rate of its backfill
			t.Visible = now
		}
		return nil
	}
	t.Live, t.Asked = false, false
	switch {
	case t.Over() && t.Spec.Keep == 0:
		return Refuse("state", "ended", "is of a timer that is kept, and this one is not", "leave it out, or give keep")
	case t.Over():
		t.keepEnded(now)
	case t.Attempts != 0 && t.awaitsPauseEnd():
		t.Visible = t.pauseEnds()
	case t.Attempts != 0:
		t.Visible = now
	default:
		t.Visible = t.nextAttention(now)
	}
	return nil
}

// repeatAttempt makes an attempt that was in progress elsewhere, accepted or stored as spent, one that is
// still to be made, because its outcome is not known here. So does one more attempt of an occurrence that has
// used all that its policy allows. The occurrence stays the one in progress.
func (t *Timer) repeatAttempt(now Instant) {
	out := t.Token != 0 || len(t.Failures) < min(int(t.Attempts), MaxFailures)
	if most := t.Spec.Retry.Effective().Attempts; t.Attempts >= most {
		out, t.Attempts = true, min(t.Attempts, most)
	}
	if t.Attempts == 0 || !out {
		return
	}
	if t.Attempts == 1 && !t.Manual && len(t.Runs) > 0 && t.Spec.Retry.Effective().Attempts > 1 {
		return // without an attempt, the runs behind it would come first
	}
	t.Attempts--
	t.Began = cmp.Or(t.Began, now) // in progress: no misfire policy applies
}

// checkState refuses a state that a timer, or a row next to one, never reaches, because the timer would never
// leave it.
func (t *Timer) checkState() error {
	const copied = "give what an export contains"
	within := func(field string, at Instant) error {
		if at < MinInstant || at > MaxInstant {
			return Refuse(field, strconv.FormatInt(int64(at), 10), "lies outside the years 2000 to 9998", copied)
		}
		return nil
	}
	if t.Due == 0 {
		return Refuse("due", "", "is missing", "give the due time, as an export has it")
	}
	if t.Due != Never {
		if err := within("due", t.Due); err != nil {
			return err
		}
	}
	for _, at := range [...]struct {
		field string
		at    Instant
	}{{"succeeded", t.Succeeded}, {"expect_from", t.ExpectFrom}, {"overdue", t.Overdue},
		{"notices_since", t.Notices.Since}, {"created", t.Created},
		{"updated", t.Updated}, {"anchor", t.Anchor}, {"until", t.Until}, {"paused_at", t.PausedAt}, {"began", t.Began},
		{"backlog.from", t.Backlog.From}, {"backlog.to", t.Backlog.To}} {
		if at.at != 0 {
			if err := within(at.field, at.at); err != nil {
				return err
			}
		}
	}
	for _, r := range t.Runs {
		if err := within("runs", r); err != nil {
			return err
		}
	}
	for i, p := range t.Pauses {
		if p.To <= p.From || i > 0 && p.From < t.Pauses[i-1].To || p.To > MaxInstant {
			return Refuse("pauses", p.From.String()+" to "+p.To.String(), "is no pause after the one before", copied)
		}
	}
	switch detached := t.Key.Fire != ""; {
	case len(t.Runs) > MaxRuns:
		return Refuse("runs", strconv.Itoa(len(t.Runs)), "are too many",
			"at most "+strconv.Itoa(MaxRuns)+" runs wait at a time")
	case t.Skips > MaxSkips:
		return Refuse("skips", strconv.FormatUint(uint64(t.Skips), 10), "are too many",
			"skip at most "+strconv.Itoa(MaxSkips))
	case len(t.Pauses) > MaxPauses:
		return Refuse("pauses", strconv.Itoa(len(t.Pauses)), "are too many", "give the latest "+strconv.Itoa(MaxPauses))
	case len(t.Waits) > MaxWaits:
		return Refuse("waits", strconv.Itoa(len(t.Waits)), "are too many", "give the latest "+strconv.Itoa(MaxWaits))
	case len(t.Failures) > MaxFailures:
		return Refuse("failures", strconv.Itoa(len(t.Failures)), "are too many", "give the latest "+strconv.Itoa(MaxFailures))
	case t.Backlog.To < t.Backlog.From || t.Backlog.From == 0 && t.Backlog.To != 0:
		return Refuse("backlog", t.Backlog.From.String()+" to "+t.Backlog.To.String(), "is no span of time", copied)
	case t.Answer != nil && len(t.Answer.Payload) > MaxPayload:
		return Refuse("answer", strconv.Itoa(len(t.Answer.Payload))+" bytes", "is too large",
			"at most "+strconv.Itoa(MaxPayload)+" bytes are kept")
	case !detached && t.Manual && len(t.Runs) == 0:
		return Refuse("manual", "true", "needs a run in progress", "give its due time in runs")
	case !detached && t.Attempts != 0 && !t.Manual && t.Due == Never:
		return Refuse("attempts", strconv.FormatUint(uint64(t.Attempts), 10), "are of no occurrence: none is due",
			"give the due time, or manual for a run")
	case detached && t.Due == Never:
		return Refuse("due", t.Due.String(), "is no due time of an occurrence next to its timer", copied)
	case detached && t.Generation == 0:
		return Refuse("generation", "0", "is missing in an occurrence next to its timer", copied)
	case detached && (t.Paused || t.Skips != 0):
		return Refuse("paused", "", "and skips are not of an occurrence next to its timer", "leave them out")
	case detached && !slices.Equal(t.Runs, t.detachedRuns()):
		return Refuse("runs", "",
			"are not those of an occurrence next to its timer: its due time if it is manual, none if it is not", copied)
	}
	return nil
}

// detachedRuns returns the Runs of a row next to its timer.
func (t *Timer) detachedRuns() []Instant {
	if t.Manual {
		return []Instant{t.Due}
	}
	return nil
}

// Replan moves a timer whose next occurrence is not due yet to the first occurrence after now of its current
// schedule, because an input of that schedule has changed, and reports whether anything is different. No
// occurrence up to skipped comes back: a client has skipped those. A timer that its calendars leave none
// waits for another change (PauseCalendar), and one that waited for it goes on.
func (t *Timer) Replan(now, skipped Instant, s Schedule) bool {
	if t.Due <= now || t.Due == Never || t.Attempts != 0 && !t.Manual {
		return false
	}
	was, waits := t.Due, t.Paused && t.PauseCause == PauseCalendar
	w := walk{t: t, now: now, s: s}
	switch {
	case !t.Spec.Recurring():
		t.Due = oneShotDue(s, was)
	case skipped > now && skipped < was:
		// The skipped occurrences, and the next one, may have moved: half-way between them is the limit.
		t.Due = w.dueAfter(skipped+(was-skipped)/2, t.Passed)
	default:
		t.Due = w.dueAfter(now, t.Passed)
	}
	switch {
	case t.Due == Never && w.lacksDays():
		if w.awaitCalendar(); waits {
			return false
		}
	case t.Due == Never: // no change of days gives it another one
		t.Due = was
		return false
	case t.Due == was:
		return false
	case waits && t.Due < UnknownDue:
		t.clearPause()
	}
	if t.Attempts == 0 { // a run in progress continues
		w.stepToWaiting(nil)
	}
	return true
}

// SetRight lets a timer go on by the present clock after the store's clock was ahead: it moves to the first
// occurrence after now, a retry that waits since then is due now, and so are occurrences that were held at
// that time. stored is the visible time in the store, or less. It reports whether anything is different. s
// counts from t.Anchor; a timer whose next occurrence is not in the future needs none.
func SetRight(t *Timer, now Instant, s Schedule, stored Instant) bool {
	if t.Token != 0 || t.Attempts == 0 && t.Over() {
		return false
	}
	if n := len(t.Failures); t.Attempts != 0 {
		if n == 0 || t.Failures[n-1].Sent <= now || t.Visible <= now || t.awaitsPauseEnd() {
			return false
		}
		t.Visible = now
		return true
	}
	if !t.Replan(now, 0, s) && stored <= max(now, t.nextAttention(now)) {
		return false
	}
	t.Visible = t.nextAttention(now)
	return true
}

// oneShotDue returns the time of a schedule that has one; or if it has none.
func oneShotDue(s Schedule, or Instant) Instant {
	if due, ok := s.Next(0); ok {
		return due
	}
	return or
}

// Coalesce makes one fire of many calls with one name. Exactly one of Quiet and Every is set.
type Coalesce struct {
	Quiet   time.Duration // debounce: fire when there was no call for so long,
	MaxWait time.Duration // but at most so long after the first one; 0 is no bound
	Every   time.Duration // throttle: fire at once, then at most once in so long
}

// Check refuses invalid values with an *Invalid.
func (c Coalesce) Check() error {
	const least, most = time.Millisecond, 366 * 24 * time.Hour
	switch {
	case (c.Quiet == 0) == (c.Every == 0):
		return Refuse("debounce", "", "and throttle are both given, or neither is", "give debounce.quiet or throttle.every")
	case c.Quiet != 0 && (c.Quiet < least || c.Quiet > most):
		return Refuse("debounce.quiet", c.Quiet.String(), "is out of bounds", fmt.Sprintf("use %v to %v", least, most))
	case c.Every != 0 && (c.Every < least || c.Every > most):
		return Refuse("throttle.every", c.Every.String(), "is out of bounds", fmt.Sprintf("use %v to %v", least, most))
	case c.MaxWait != 0 && (c.Quiet == 0 || c.MaxWait < c.Quiet || c.MaxWait > most):
		return Refuse("debounce.max_wait", c.MaxWait.String(), "is out of bounds",
			fmt.Sprintf("use debounce.quiet to %v", most))
	}
	return nil
}

// Merge returns the one-shot timer that results from a coalesced call and old, the existing timer of that
// name, or nil. The newest call's spec wins; it replaces a fire that is in progress, or queued to be sent
// (busy). The spec needs no schedule.
func (c Coalesce) Merge(key Key, spec Spec, old *Timer, busy bool, now Instant) Timer {
	t := Timer{Key: key, Created: now, Updated: now, Anchor: now}
	waiting := old != nil && old.Attempts == 0 && old.Due != Never && !busy
	switch {
	case waiting && old.Due <= now: // it is about to be sent: with this call's spec
		t.Created, t.Due = old.Created, old.Due
	case c.Quiet != 0:
		t.Due = now.Add(c.Quiet)
		if waiting {
			t.Created = old.Created
			if c.MaxWait != 0 {
				t.Due = max(now, min(t.Due, old.Created.Add(c.MaxWait)))
			}
		}
	case waiting:
		t.Created, t.Due = old.Created, old.Due
	default:
		t.Due = now
		if old != nil {
			t.Due = max(now, old.Anchor.Add(c.Every)) // Anchor is when the last one was due
		}
	}
	t.Created = min(t.Created, now) // the clock may have been ahead, and is right again
	if c.Every != 0 {
		t.Due = min(t.Due, now.Add(c.Every))
		t.Anchor = t.Due
		spec.Keep = c.Every
	}
	spec.Schedule, spec.Timezone = t.Due.String(), ""
	t.Spec = spec
	if old != nil {
		t.Ended, t.Fired, t.Dead, t.Missed = old.Ended, old.Fired, old.Dead, old.Missed
		if old.Paused {
			t.pauseAs(old)
		}
	}
	t.Visible = t.nextAttention(now)
	return t
}
