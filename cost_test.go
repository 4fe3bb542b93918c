package rouse

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counted is an interval that counts its due times without visiting each.
type counted struct{ every }

func (c counted) Between(after, until Instant) (n uint64, last Instant, ok bool) {
	for at, found := c.Next(after); found && at <= until; at, found = c.Next(at) {
		n, last = n+1, at
	}
	return n, last, true
}

// budgeted is a schedule that allows a number of searches for a next time.
type budgeted struct {
	Schedule
	left *int
}

func (w budgeted) Next(after Instant) (Instant, bool) {
	*w.left--
	return w.Schedule.Next(after)
}

func (w budgeted) Exhausted() bool { return *w.left <= 0 }

// TestCountingComesToTheSameAsLookingAtEach compares the step after an outcome for a schedule that counts
// with one that does not.
func TestCountingComesToTheSameAsLookingAtEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// There are fewer than missedCount occurrences in the 200 s, because looking at each stops counting
		// there.
		s := every{anchor: t0 - 7, d: time.Duration(rapid.IntRange(3, 5000).Draw(t, "interval")) * time.Millisecond}
		spec := Spec{Schedule: "@every", Target: "stream:", Misfire: Misfire(rapid.IntRange(0, 3).Draw(t, "misfire")), Overlap: Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))}
		if spec.Misfire == MisfireWithin {
			spec.Within = time.Duration(rapid.IntRange(1, 20).Draw(t, "within")) * time.Second
		}
		spec.Deadline = time.Duration(rapid.IntRange(0, 9).Draw(t, "deadline")) * time.Second
		spec.Jitter = min(time.Duration(rapid.IntRange(0, 3).Draw(t, "jitter"))*time.Second, s.d-time.Millisecond) // occurrences keep their order
		due, _ := s.Next(t0)
		tm := Timer{Key: Key{Namespace: "n", Name: "t"}, Spec: spec, Due: due, Visible: due, Anchor: t0 - 7, Generation: 7, Revision: 7}
		sent := due.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "late")) * time.Millisecond)
		now := sent.Add(time.Duration(rapid.IntRange(0, 200_000).Draw(t, "took")) * time.Millisecond)
		for range rapid.IntRange(0, 3).Draw(t, "waits") {
			from := due.Add(time.Duration(rapid.IntRange(-5, 200_000).Draw(t, "from")) * time.Millisecond)
			tm.Waited(Cause(rapid.IntRange(int(CauseServerDown), int(CauseRateLimited)).Draw(t, "cause")), from, from.Add(time.Duration(rapid.IntRange(1, 90_000).Draw(t, "for"))*time.Millisecond))
		}
		if rapid.Bool().Draw(t, "began") {
			tm.Began = due.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "at")) * time.Millisecond)
		}
		steps := func(s Schedule) []Step {
			step := tm.After(Occurrence{Due: due, Attempt: 1}, 7, Outcome{Verdict: Done}, sent, now, s)
			paused := tm
			paused.Paused, paused.Until = true, now-5
			return []Step{step, tm.CatchUp(now, s), paused.Resume(now, s, false)}
		}
		if a, b := steps(s), steps(counted{s}); !reflect.DeepEqual(a, b) {
			t.Fatalf("one by one %+v\ncounted %+v", a, b)
		}
	})
}

// TestAScheduleOutOfBudgetIsJumpedOver has records without counts, the same first and last occurrences, and
// few looks.
func TestAScheduleOutOfBudgetIsJumpedOver(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	now := tm.Due.Add(50 * 24 * time.Hour)
	left := 10
	step := tm.CatchUp(now, budgeted{s, &left})
	if looks := 10 - left; looks > 200 {
		t.Errorf("%d looks", looks)
	}
	exact := tm.CatchUp(now, s)
	if step.To.Due != exact.To.Due || len(step.Log) != 1 || step.Log[0].Due != exact.Log[0].Due || step.Log[0].LastDue != exact.Log[0].LastDue || step.Log[0].Count != 0 {
		t.Errorf("%+v, %+v; one by one %+v", step.To, step.Log, exact.Log)
	}
	// If each occurrence counts, none is jumped over: the remaining ones are left for the next step.
	tm.Spec.MaxOccurrences = 1_000_000
	total := uint32(0)
	for range 1000 {
		left = 500
		step := tm.CatchUp(now, budgeted{s, &left})
		for _, r := range step.Log {
			total += max(r.Count, 1)
		}
		if tm = *step.To; !tm.Misfired(now, s) {
			break
		}
	}
	if want := exact.Log[0].Count; tm.Due != exact.To.Due || total != want {
		t.Errorf("%d in slices until %v, want %d until %v", total, tm.Due, want, exact.To.Due)
	}
}

// TestOnlyWhatIsGivenUpAlikeIsJumpedOver: a pause that skips one occurrence is no reason to jump over those
// after it, which fire late.
func TestOnlyWhatIsGivenUpAlikeIsJumpedOver(t *testing.T) {
	for _, until := range []time.Duration{90 * time.Second, 10 * time.Minute} {
		tm, s := recurring(MisfireAll)
		now := tm.Due.Add(time.Hour)
		tm.Pauses = []Span{{tm.Due - 10, t0.Add(until)}}
		left := 0
		step := tm.CatchUp(now, budgeted{s, &left})
		if next, _ := s.Next(t0.Add(until)); step.To.Due != next {
			t.Errorf("a pause until %v: due %v, not %v", until, step.To.Due, next)
		}
	}
}

// TestAScheduleThatCannotBeAffordedPausesItsTimer is about those that were stored before a bound, or whose
// calendars changed.
func TestAScheduleThatCannotBeAffordedPausesItsTimer(t *testing.T) {
	tm, _ := recurring(MisfireLatest)
	step := tm.After(Occurrence{Due: tm.Due, Attempt: 1}, 7, Outcome{Verdict: Done}, tm.Due, tm.Due+5, dear{})
	if to := step.To; to == nil || !to.Paused || to.Due != UnknownDue || to.Reason == "" || to.Visible != Never || len(step.Log) != 1 || step.Log[0].Ending != EndFired {
		t.Fatalf("%+v", step)
	}
	tm = *step.To
	if step = tm.Resume(t0+1_000_000, dear{}, false); !step.To.Paused || step.To.Due != UnknownDue || len(step.Log) != 0 {
		t.Errorf("resumed: %+v", step)
	}
	tm = *step.To
	if _, err := tm.Skip(1, "", t0+1_000_000, dear{}, false); !errors.Is(err, ErrConflict) {
		t.Errorf("a skip of what is not known: %v", err)
	}
	_, s := recurring(MisfireLatest)
	if step = tm.Resume(t0+1_000_000, s, false); step.To.Paused || step.To.Due > t0+1_060_000 || len(step.Log) != 0 {
		t.Errorf("resumed with a schedule that can be afforded: %+v", step)
	}
}

// dear is a schedule whose searches all give up.
type dear struct{}

func (dear) Next(Instant) (Instant, bool)                  { return 0, false }
func (dear) Look(_ Instant, most int) (Instant, bool, int) { return 0, false, most + 1 }
