package timers

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// evaluateID is the id of the evaluation, which the next one writes again.
const evaluateID = "evaluate-" + rouse.EvaluateZones

// newEvaluation returns a job that moves all timers whose next occurrence is not due yet, and not in
// progress, to the due time that they would have if they were written now: with their anchors, pauses and
// skips.
func (ts working) newEvaluation(ctx context.Context) jobRow {
	j := ts.newJob(ctx, rouse.JobEvaluate, rouse.Everywhere, evaluateID,
		rouse.BucketOf(rouse.JobKey(rouse.Everywhere, evaluateID), ts.opts.Engine.Buckets))
	j.Job.Action = rouse.EvaluateZones
	return j
}

// evaluateWork is the work of an evaluation.
func (ts working) evaluateWork(j *jobRow) *work {
	wants := func(_ context.Context, t *rouse.Timer) bool { return mayUseZone(&t.Spec) }
	if j.Cursor == (rouse.Key{}) {
		ts.schedules.Clear()
	}
	own := working{ts.withMatch(wants)}
	return &work{
		verbs: []access.Verb{access.TimersRead},
		verb:  access.ClockAdvance,
		wants: wants,
		do: func(ctx context.Context, rows []rouse.Timer) []error {
			errs := make([]error, len(rows))
			inParallel(len(rows), func(i int) { errs[i] = own.replanTimer(ctx, rows[i].Key, zoneShift) })
			return errs
		},
		part: 100,
	}
}

// mayUseZone reports whether the due times of a timer may depend on a time zone other than UTC: that of the
// spec, or one that a schedule names itself.
func mayUseZone(s *rouse.Spec) bool {
	uses := s.Timezone != "" || strings.Contains(s.Schedule, "TZID=")
	for _, also := range s.Also {
		uses = uses || strings.Contains(also, "TZID=")
	}
	return uses
}

// replanTimer moves a timer to its due time by its schedule as it is now; errNoMatch: it has that. shift is
// as in skippedUntil.
func (ts working) replanTimer(ctx context.Context, key rouse.Key, shift time.Duration) error {
	moved := false
	_, err := ts.editTimer(ctx, access.CalendarsWrite, key, nil, func(t *rouse.Timer) (rouse.Step, error) {
		moved = false
		now := ts.Engine.Latest()
		s, err := ts.currentSchedule(t)
		if err != nil {
			return rouse.Step{}, err
		}
		skipped, err := ts.skippedUntil(ctx, t, now, s, shift)
		if err != nil {
			return rouse.Step{}, err
		}
		if moved = t.Replan(now, skipped, s); !moved {
			return rouse.Step{Keep: true}, nil
		}
		return rouse.Step{To: t}, nil
	})
	if err == nil && !moved {
		return errNoMatch
	}
	return err
}

// currentSchedule returns the schedule of a timer, also of one that has a single time.
func (ts working) currentSchedule(t *rouse.Timer) (rouse.Schedule, error) {
	return ts.schedules.Parse(&t.Spec, rouse.ScheduleInput{Key: t.Key, Anchor: t.Anchor})
}

// zoneShift is more than the due time of an occurrence moves when the rules of its time zone change: zones
// are at most 26 hours apart.
const zoneShift = 26 * time.Hour

// skippedUntil returns up to when a client has skipped the next occurrences of a timer, by its history; 0 if
// it has not. The history may have been removed by then: a due time that is further in the future than the
// shift that a change may have made has been skipped to, too; 0: it may have made any.
func (ts working) skippedUntil(ctx context.Context, t *rouse.Timer, now rouse.Instant, s rouse.Schedule,
	shift time.Duration) (rouse.Instant, error) {
	first, ok, _ := rouse.Look(s, now)
	if !ok || !t.Spec.Recurring() || t.Due >= rouse.UnknownDue || first >= t.Due {
		return 0, nil
	}
	page, err := ts.store.Records(ctx, rouse.RecordQuery{Namespace: t.Key.Namespace, Name: t.Key.Name,
		Limit: recentRecords})
	if err != nil {
		return 0, err
	}
	for i := range page.Records {
		r := &page.Records[i]
		if last := cmp.Or(r.LastDue, r.Due); r.Cause == rouse.CauseSkippedByRequest && r.Generation == t.Generation &&
			last > now && last < t.Due {
			return last, nil
		}
	}
	if shift > 0 && first.Sub(now) > shift && t.Due.Sub(first) > shift {
		return t.Due.Add(-2 * shift), nil
	}
	return 0, nil
}

// recentRecords is how many records of a timer are searched for its last skip. Since then none of its
// schedule has ended, only runs.
const recentRecords = 100
