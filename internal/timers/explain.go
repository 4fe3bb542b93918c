package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// Explanation is why a timer did or did not fire, and its next occurrences.
type Explanation struct {
	Summary string
	Reasons []Reason
	Timer   *rouse.Timer // nil: no timer has this name
	Words   string
	Zone    *time.Location
	Records []rouse.Record // the latest, newest first
	Next    []rouse.Coming
}

// Reason is one fact of an explanation.
type Reason struct {
	// overdue, expected, firing, waiting, obstacle, accepted, retrying, paused, scheduled, waited, unclaimed,
	// skips, ended, dead, fired, missed, skipped, calendar, clock, unknown, off
	Code string
	Text string        // a sentence
	At   rouse.Instant // when it happened, or will; 0 is now

	// Since is when it began to hold, and Until when it ends or ended; 0: not known, or it has none.
	Since, Until rouse.Instant
	Cure         string // how to end it; empty: it needs no cure, or none is known
}

// How much of a timer's past and future an explanation includes.
const (
	explainRecords = 5
	explainNext    = 5
	explainSearch  = 10_000 // records that are searched for the one of a given time
)

// Explain reports why a timer did or did not fire, and its next occurrences. With an at other than 0 it
// explains the occurrence of that time, or why there is none. A deleted timer is explained by its records;
// without records the error is rouse.ErrNotFound.
func (ts *Timers) Explain(ctx context.Context, key rouse.Key, at rouse.Instant) (Explanation, error) {
	x := Explanation{Zone: time.UTC}
	if err := cmp.Or(key.Check(), rouse.CheckInstant("at", at)); err != nil {
		return x, err
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return x, err
	}
	t, err := ts.getAllowed(ctx, access.TimersRead, key)
	there := err == nil
	if err != nil && !errors.Is(err, rouse.ErrNotFound) {
		return x, err
	}
	page, err := ts.store.Records(ctx, rouse.RecordQuery{Namespace: key.Namespace, Name: key.Name, Limit: explainRecords})
	if err != nil {
		return x, err
	}
	target, labels := t.Spec.Target, t.Spec.Labels
	if !there {
		if target, labels, err = ts.recordsOf(ctx, key.Namespace, key.Name); err != nil {
			return x, err
		}
	}
	ts.access.Redact(ctx, &t)
	ts.access.RedactRecords(ctx, key.Namespace, target, labels, page.Records)
	x.Records = page.Records
	if !there && len(x.Records) == 0 {
		return x, fmt.Errorf("there is no timer %q, and no record of one: %w", key.Name, rouse.ErrNotFound)
	}
	var s rouse.Schedule
	if there {
		x.Timer = &t
		if s, err = ts.schedules.Parse(&t.Spec, rouse.ScheduleInput{Key: key, Anchor: t.Anchor}); err == nil {
			p := describeSchedule(s)
			x.Words, x.Zone = p.Words, p.Location
			x.Next = explaining{ts}.nextOccurrences(ctx, &t, s)
		}
	}
	if at != 0 {
		err = explaining{ts}.explainAt(ctx, &x, key, s, at)
	} else {
		err = explaining{ts}.explainNow(ctx, &x, key)
	}
	if err != nil {
		return x, err
	}
	if len(x.Reasons) > 0 {
		x.Summary = x.Reasons[0].Text
	}
	return x, nil
}

const cureClock = "set the timers right: rouse clock repair"

// addReason adds a reason. The result is valid until the next call.
func (x *Explanation) addReason(code string, at rouse.Instant, format string, args ...any) *Reason {
	x.Reasons = append(x.Reasons, Reason{Code: code, At: at, Text: fmt.Sprintf(format, args...)})
	return &x.Reasons[len(x.Reasons)-1]
}

// setPeriod sets since when a reason holds, and until when.
func (r *Reason) setPeriod(since, until rouse.Instant) *Reason {
	if r.Since = since; until != rouse.Never {
		r.Until = until
	}
	return r
}

func (r *Reason) setCure(text string) { r.Cure = text }

// formatTime shows a time in the zone of the schedule.
func (x *Explanation) formatTime(i rouse.Instant) string {
	if i == rouse.Never {
		return "never"
	}
	return i.Time().In(x.Zone).Format("2006-01-02 15:04:05.000 MST")
}

// explaining has the methods of Timers for explanations.
type explaining struct{ *Timers }

// nextOccurrences returns the coming occurrences of a timer.
func (ts explaining) nextOccurrences(ctx context.Context, t *rouse.Timer, s rouse.Schedule) []rouse.Coming {
	if t.Due == rouse.Never || t.Key.Fire != "" {
		return nil
	}
	if t.Paused { // those of the pause are skipped
		var list []rouse.Coming
		m := &schedulecache.Meter{Limit: maxLookSteps}
		now := ts.Engine.Now()
		_ = ts.eachSimulated(ctx, t, m, now, now, rouse.Never, func(c rouse.Coming, _ *time.Location) bool {
			list = append(list, c)
			return len(list) < explainNext
		})
		return list
	}
	n := explainNext
	if t.Spec.MaxOccurrences != 0 {
		n = min(n, int(t.Spec.MaxOccurrences-min(t.Passed, t.Spec.MaxOccurrences)))
	}
	if !t.Spec.Recurring() {
		return []rouse.Coming{{Due: t.Due, At: t.SentAt(t.Due)}}
	}
	// a schedule that costs too much is explained without its next times
	list, _ := comingOccurrences(ctx, t, s, t.Due-1, rouse.Never, n, maxLookSteps)
	return list
}

// explainNow explains the timer's present state, then what it did last.
func (ts explaining) explainNow(ctx context.Context, x *Explanation, key rouse.Key) error {
	now := ts.Engine.Now()
	t, records := x.Timer, x.Records[:min(len(x.Records), 2)]
	n, err := ts.store.Count(ctx, rouse.Query{Namespace: key.Namespace, Name: key.Name,
		States: []rouse.State{rouse.StateDead}})
	if err != nil {
		return err
	}
	// its end comes first; of one that is gone, if a dead letter is left of it
	if len(records) > 0 && (t != nil && t.Over() || t == nil && n > 0 && records[0].Ending == rouse.EndDead) {
		x.explainRecord(&records[0])
		records = records[1:]
	}
	if t == nil {
		x.addReason("ended", x.Records[0].Ended,
			"There is no timer of this name any more: its schedule has ended, or it was deleted.")
	} else {
		ts.explainState(x, t, now)
	}
	for i := range records {
		x.explainRecord(&records[i])
	}
	if n > 0 {
		x.addReason("dead", 0, "Dead letters of it: %d. See and redrive them with dead.", n).
			setCure(
				"repair the target, then redrive them: rouse dead redrive, or with --with-current-spec if the timer has another target now")
	}
	return nil
}

func (ts explaining) explainState(x *Explanation, t *rouse.Timer, now rouse.Instant) {
	most := t.Spec.Retry.Effective().Attempts
	occ, current := t.Current()
	look := *t
	in := ts.Engine.HolderOf(&look) // in the store a visible time may be the end of a hold
	visible := look.Visible
	p := ts.Engine.Progress(t.Key)
	withheld := ts.withheld(&t.Spec)
	obstacle := ""
	if o, ok := ts.sink.(rouse.Obstructed); ok {
		obstacle = o.Obstacle(t.Key.Namespace, &t.Spec)
	}
	if t.Overdue != 0 {
		ts.tellExpected(x, t)
	}
	if from := ts.Clock.Back(); from != 0 {
		x.addReason("clock", from,
			"The store's clock showed %s and was set back to %s: what was advanced before waits for times after that.",
			x.formatTime(from), x.formatTime(now)).setPeriod(0, from).setCure(cureClock)
	}
	switch {
	case p.Sending && current:
		x.addReason("firing", p.Sent, "Attempt %d of %d of the occurrence of %s is on its way to %s.", p.Attempt, most,
			x.formatTime(occ.Due), t.Spec.Target).setPeriod(p.Sent, 0)
	case t.Token != 0:
		x.addReason("accepted", t.Visible,
			"The receiver has accepted the occurrence of %s and has until %s to report; then the attempt counts as failed.",
			x.formatTime(occ.Due), x.formatTime(t.Visible)).setPeriod(t.Began, t.Visible)
	case p.AtLimit && current:
		x.tellLimit(&p, occ)
	case p.Queued && current:
		x.addReason("waiting", occ.Due,
			"The occurrence of %s is due and waits for its turn: %d fires wait for this target, of which %d may be out at a time%s.", x.formatTime(occ.Due), p.Waiting, p.Limit, p.Rates).setPeriod(occ.Due, 0).setCure("make the target faster, or raise its limits: see rouse targets, and limits and host-concurrency of rouse serve")
	case t.Paused:
		x.addReason("paused", t.Until, "It is paused%s%s.", pauseText(t), untilSuffix(x, t.Until)).setPeriod(0,
			t.Until).setCure(cureResume)
	case t.Spec.IsCheck() && !t.Over():
		x.tellCheck(t)
	case t.Attempts != 0:
		x.addReason("retrying", t.Visible, "Attempt %d of %d of the occurrence of %s failed (%s); the next one is at %s%s.",
			t.Attempts, most, x.formatTime(occ.Due), t.LastError, x.formatTime(t.Visible), lostNote(t)).setPeriod(t.Began,
			t.Visible).setCure("look at the target; the retry policy goes on by itself")
	case t.Over():
		x.addReason("ended", 0, "Its schedule has ended, after %d occurrences; its row is kept until %s.", t.Ended,
			x.formatTime(t.Visible)).setPeriod(0, t.Visible)
	case current && !occ.Manual && t.SentAt(occ.Due) > now:
		at := t.SentAt(occ.Due)
		x.addReason("scheduled", at, "Nothing is due: the next occurrence is at %s%s.", x.formatTime(at),
			jitterNote(x, t)).setPeriod(0, at)
	case current && in.Until > now:
		x.addReason("waiting", occ.Due,
			"The occurrence of %s is due, and another node has it; if that node is gone, it is taken over at %s.",
			x.formatTime(occ.Due), x.formatTime(in.Until)).setPeriod(occ.Due, in.Until)
	case current && visible > now:
		x.addReason("waiting", visible, "The occurrence of %s is due, but was put off; it is tried again at %s.",
			x.formatTime(occ.Due), x.formatTime(visible)).setPeriod(occ.Due, visible)
	case withheld != "":
		x.addReason("waiting", visible, "The occurrence of %s is due, and waits: %s.", x.formatTime(occ.Due),
			withheld).setPeriod(occ.Due, 0).setCure(cureWithheld)
	default:
		x.addReason("waiting", visible, "The occurrence of %s is due and about to be sent.",
			x.formatTime(occ.Due)).setPeriod(occ.Due, 0)
	}
	if withheld != "" && t.Attempts != 0 && !p.Sending && !p.Queued {
		x.addReason("obstacle", 0, "Its next attempt waits: %s.", withheld).setCure(cureWithheld)
	}
	if t.Overdue == 0 {
		ts.tellExpected(x, t)
	}
	if t.Over() { // there is no next occurrence to delay
		return
	}
	x.tellWaits(t)
	if t.Paused && t.Attempts != 0 {
		x.addReason("paused", t.Until, "It is paused%s%s, while the occurrence of %s is being retried.", pauseText(t),
			untilSuffix(x, t.Until), x.formatTime(occ.Due)).setPeriod(0, t.Until).setCure(cureResume)
	}
	if ts.Engine.Unclaimed(t.Key.Namespace) {
		x.addReason("unclaimed", 0,
			"No live node claims the namespace %q, so nothing of it fires until one does: see claims of rouse serve, and rouse nodes.", t.Key.Namespace).setCure("start a node whose claims name the namespace, or are empty")
		if current && t.SentAt(occ.Due) <= now { // this is the main reason
			last := len(x.Reasons) - 1
			x.Reasons[0], x.Reasons[last] = x.Reasons[last], x.Reasons[0]
		}
	}
	if obstacle != "" {
		x.addReason("obstacle", 0, "Its target is held up: %s.",
			obstacle).setCure("see rouse targets, and look at the target; fires go on by themselves")
	}
	if t.Skips > 0 {
		x.addReason("skips", 0, "The %d occurrences after the one in progress are to be skipped.", t.Skips)
	}
	for _, f := range t.Failures {
		x.tellFailure(f)
	}
}

// tellLimit explains that an occurrence waits for its limit.
func (x *Explanation) tellLimit(p *engine.Progress, occ rouse.Occurrence) {
	l := &p.Named
	var bounds []string
	if l.Paused {
		bounds = append(bounds, "is paused")
	}
	switch {
	case l.Concurrency > 0 && rouse.IsTargetLimit(l.Name):
		bounds = append(bounds, fmt.Sprintf("has %d in progress on this node, whose share of %d is %d", p.Running, l.Concurrency,
			p.Most))
	case l.Concurrency > 0:
		bounds = append(bounds, fmt.Sprintf("has %d in progress of at most %d", p.Running, l.Concurrency))
	}
	if l.Rate.Count > 0 {
		bounds = append(bounds, fmt.Sprintf("lets %d begin in %v", l.Rate.Count, l.Rate.Per))
	}
	before := fmt.Sprint(p.Before)
	if p.Further {
		before = "at least " + before
	}
	r := x.addReason("waiting", occ.Due, "The occurrence of %s is due and waits for limit %s, which %s; %s wait before it.",
		x.formatTime(occ.Due), l.Name, strings.Join(bounds, " and "), before).setPeriod(occ.Due, 0)
	if l.Paused {
		r.setCure("resume the limit: rouse limit resume " + l.Name)
		return
	}
	r.setCure("raise the limit " + l.Name + ": rouse limit set, with all of its bounds")
}

// tellFailure explains an attempt that failed. When it was sent is not known of one that was accepted and
// that nothing was reported of.
func (x *Explanation) tellFailure(f rouse.Attempt) {
	what := "An attempt failed"
	if f.Sent != 0 {
		what = fmt.Sprintf("An attempt at %s failed after %v", x.formatTime(f.Sent), f.Took)
	}
	x.addReason("retrying", f.Sent, "%s: %s.", what, rouse.Answered(f.Code, f.Detail))
}

// cureWithheld is the cure of rouse.Withholding.
const cureWithheld = "see the Redis of index, and rouse doctor; more critical timers do not wait for it"

func attemptsText(n uint32) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprint(n, " attempts")
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// pauseText is why a timer is paused, with the cause if no client asked for it.
func pauseText(t *rouse.Timer) string {
	if t.PauseCause == rouse.PauseRequested {
		return reasonSuffix(t.Reason)
	}
	return fmt.Sprintf(" (%s)%s", t.PauseCause, reasonSuffix(t.Reason))
}

func untilSuffix(x *Explanation, at rouse.Instant) string {
	if at == 0 {
		return ", until a client resumes it"
	}
	return ", until " + x.formatTime(at)
}

func jitterNote(x *Explanation, t *rouse.Timer) string {
	if t.SentAt(t.Due) == t.Due {
		return ""
	}
	return fmt.Sprintf(" (due at %s, plus its jitter)", x.formatTime(t.Due))
}

// explainRecord explains a record.
func (x *Explanation) explainRecord(r *rouse.Record) {
	if r.Cause == rouse.CauseReported || r.Cause == rouse.CauseNotReported {
		x.explainReport(r)
		return
	}
	what := "The occurrence of " + x.formatTime(r.Due)
	switch {
	case r.Cause == rouse.CauseNotice || r.Cause == rouse.CauseNoticeLimit:
		what = "The notice of " + x.formatTime(r.Due)
	case r.Manual:
		what = "The run asked for at " + x.formatTime(r.Due)
	}
	if r.LastDue > r.Due {
		what = fmt.Sprintf("The occurrences from %s to %s", x.formatTime(r.Due), x.formatTime(r.LastDue))
		if r.Count > 0 {
			what = fmt.Sprintf("The %d occurrences from %s to %s", r.Count, x.formatTime(r.Due), x.formatTime(r.LastDue))
		}
	}
	switch r.Ending {
	case rouse.EndFired:
		late := time.Duration(0)
		if r.Began != 0 {
			late = r.Began.Sub(r.Due)
		}
		x.addReason("fired", r.Ended, "%s was delivered at %s, on attempt %d, first sent %v after it was due%s.", what,
			x.formatTime(r.Sent), r.Attempts, late, reasonSuffix(rouse.Answered(r.Code, r.Reason))).setPeriod(r.Began, r.Ended)
	case rouse.EndDead:
		x.addReason("dead", r.Ended, "%s was given up at %s after %s (%s)%s.", what, x.formatTime(r.Ended),
			attemptsText(r.Attempts),
			r.Cause, reasonSuffix(rouse.Answered(r.Code,
				r.Reason))).setPeriod(r.Began,
			r.Ended).setCure(
			"repair the target, then redrive it: rouse dead redrive, or with --with-current-spec if the timer has another target now")
	case rouse.EndSkipped:
		x.addReason("skipped", r.Ended, "%s did not fire, on purpose: %s (%s%s).", what, x.causeText(r), r.Cause,
			reasonSuffix(r.Reason)).setPeriod(r.Due, max(r.Due, r.LastDue)).setCure(causeCures[r.Cause])
	case rouse.EndMissed:
		x.addReason("missed", r.Ended, "%s did not fire: %s (%s). Given up at %s by %s.", what, x.causeText(r), r.Cause,
			x.formatTime(r.Ended), r.Reason).setPeriod(r.Due, max(r.Due, r.LastDue)).setCure(causeCures[r.Cause])
	}
}

// explainAt explains the occurrence of one time.
func (ts explaining) explainAt(ctx context.Context, x *Explanation, key rouse.Key, s rouse.Schedule,
	at rouse.Instant) error {
	t := x.Timer
	q := rouse.RecordQuery{Namespace: key.Namespace, Name: key.Name, Limit: 500}
	for looked := 0; looked < explainSearch; {
		page, err := ts.store.Records(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Records {
			if r := &page.Records[i]; at == r.Due || at > r.Due && at <= r.LastDue {
				x.explainRecord(r)
			}
		}
		if looked += len(page.Records); page.Next == nil {
			break
		}
		q.Until = *page.Next
	}
	if len(x.Reasons) > 0 {
		return nil
	}
	if t == nil {
		x.addReason("unknown", at,
			"There is no timer of this name any more, and no record of an occurrence of %s: there was none, or its record was deleted by age or number.", x.formatTime(at))
		return nil
	}
	now := ts.Engine.Now()
	if occ, ok := t.Current(); ok && occ.Due == at {
		ts.explainState(x, t, now)
		return nil
	}
	if s == nil {
		x.addReason("unknown", at, "No record of an occurrence of %s is kept.", x.formatTime(at))
		return nil
	}
	next, ok := s.Next(at - 1)
	switch {
	case ok && next == at && at < t.Created:
		x.addReason("off", at, "The timer was created later, at %s.", x.formatTime(t.Created))
	case ok && next == at && at <= now && t.Spec.IsCheck():
		x.addReason("off", at, "A report was expected at %s. Reports are on record by the times at which work began or ended.",
			x.formatTime(at))
	case ok && next == at && at <= now && at < t.Due:
		x.addReason("unknown", at,
			"Its schedule has an occurrence at %s, of which no record is kept: it was deleted by age or number, or belongs to another version of the timer (this one began at %s).", x.formatTime(at), x.formatTime(t.Anchor))
	case ok && next == at && t.Due == rouse.Never:
		x.addReason("ended", at, "Its schedule has ended, after %d occurrences.", t.Passed)
	case ok && next == at:
		x.addReason("scheduled", at, "It is to come.")
		if t.Paused && (t.Until == 0 || t.Until > at) {
			x.addReason("paused", t.Until, "But the timer is paused%s%s.", pauseText(t), untilSuffix(x, t.Until)).setPeriod(0,
				t.Until).setCure(cureResume)
		}
	case ts.takenOut(t, at):
		x.addReason("calendar", at,
			"Its schedule has an occurrence at %s, which its calendars or exceptions take out or move.%s", x.formatTime(at),
			occurrencesAround(x, s, at, next, ok))
	default:
		x.addReason("off", at, "Its schedule has no occurrence at %s.%s", x.formatTime(at),
			occurrencesAround(x, s, at, next, ok))
	}
	return nil
}

// takenOut reports whether the timer would be due at a time without its calendars and exceptions.
func (ts explaining) takenOut(t *rouse.Timer, at rouse.Instant) bool {
	spec := t.Spec
	if len(spec.Except)+len(spec.Calendar.Off)+len(spec.Calendar.Only) == 0 {
		return false
	}
	spec.Except, spec.Calendar = nil, rouse.CalendarRule{}
	s, err := ts.schedules.Parse(&spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
	if err != nil {
		return false
	}
	next, ok := s.Next(at - 1)
	return ok && next == at
}

// occurrencesAround names the occurrences before and after a time.
func occurrencesAround(x *Explanation, s rouse.Schedule, at, next rouse.Instant, ok bool) string {
	var parts []string
	if last, found := previousDue(s, at); found {
		parts = append(parts, "before it is "+x.formatTime(last))
	}
	if ok {
		parts = append(parts, "after it is "+x.formatTime(next))
	}
	if len(parts) == 0 {
		return ""
	}
	return " The one " + strings.Join(parts, ", the one ") + "."
}

// previousDue returns the last due time before at, if it is within some years: a binary search over a range
// with at most a few thousand due times.
func previousDue(s rouse.Schedule, at rouse.Instant) (last rouse.Instant, found bool) {
	for back := time.Minute; back <= 5*366*24*time.Hour; back *= 4 {
		first, ok := s.Next(at.Add(-back))
		if !ok || first >= at {
			continue
		}
		// The last one is the largest without a successor before at: halve the range that contains it.
		lo, hi := first, at
		for hi-lo > 1 {
			middle := lo + (hi-lo)/2
			if n, ok := s.Next(middle - 1); ok && n < at {
				lo = n
			} else {
				hi = middle
			}
		}
		return lo, true
	}
	return 0, false
}
