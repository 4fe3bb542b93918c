package rouse

import (
	"strings"
	"testing"
	"time"
)

// life is a timer that is taken from one occurrence to the next.
type life struct {
	t *testing.T
	Timer
	s Schedule
}

func aLife(t *testing.T, pauseAfter uint32) *life {
	tm, s := recurring(MisfireLatest)
	tm.Spec.PauseAfter = pauseAfter
	return &life{t, tm, s}
}

// next ends the next occurrence, and returns its step.
func (l *life) next(o Outcome) Step {
	l.t.Helper()
	occ := mustCurrent(l.t, &l.Timer)
	step := l.After(occ, 7, o, occ.Due, occ.Due, l.s)
	if step.To == nil {
		l.t.Fatalf("after %v: %+v", o.Verdict, step)
	}
	l.Timer = *step.To
	return step
}

var refusal = Outcome{Verdict: Rejected, Code: 410, Detail: "gone for good"}

func TestATimerPausesItselfAfterDeadLettersInARow(t *testing.T) {
	l := aLife(t, 3)
	for range 2 {
		l.next(refusal)
	}
	l.next(Outcome{Verdict: Done}) // ends the row
	for i := range 2 {
		if l.next(refusal); l.Paused {
			t.Fatalf("paused after %d dead letters", i+1)
		}
	}
	due := l.Due
	step := l.next(refusal)
	if !l.Paused || l.PauseCause != PauseDeadLetters || l.Until != 0 || l.Visible != Never || l.State() != StatePaused || l.Due != due.Add(time.Minute) {
		t.Errorf("%+v", l.Timer)
	}
	if want := "its last 3 occurrences ended as dead letters: gone for good"; l.Reason != want {
		t.Errorf("the reason is %q, want %q", l.Reason, want)
	}
	if dead := step.Detached; dead == nil || dead.Paused || dead.ConsecutiveDead != 0 || dead.PauseCause != 0 {
		t.Errorf("the dead letter is %+v", dead)
	}
	if _, ok := l.Current(); ok {
		t.Error("it goes on")
	}

	resumed := l.Resume(l.Due.Add(time.Hour), l.s, false)
	if to := resumed.To; to.Paused || to.ConsecutiveDead != 0 || to.PauseCause != 0 || to.Reason != "" {
		t.Fatalf("resumed %+v", to)
	}
	if len(resumed.Log) != 1 || resumed.Log[0].Cause != CausePaused || resumed.Log[0].Count != 61 {
		t.Errorf("resumed with %+v", resumed.Log)
	}
	l.Timer = *resumed.To
	for range 2 {
		l.next(refusal)
	}
	if l.Paused {
		t.Error("a resume did not begin the count again")
	}
	if l.next(refusal); !l.Paused {
		t.Error("it does not pause a second time")
	}
}

func TestWhatIsNoDeadLetterOfTheScheduleDoesNotPause(t *testing.T) {
	t.Run("off by default", func(t *testing.T) {
		l := aLife(t, 0)
		for range 50 {
			l.next(refusal)
		}
		if l.Paused || l.ConsecutiveDead != 50 { // rules of its namespace may need the count
			t.Errorf("%+v", l.Timer)
		}
	})
	t.Run("runs", func(t *testing.T) {
		l := aLife(t, 1)
		for range 3 {
			due, _, err := l.Run(l.Due - 1000)
			if err != nil {
				t.Fatal(err)
			}
			occ := Occurrence{due, true, 1}
			l.Timer = *l.After(occ, 7, refusal, due, due, l.s).To
		}
		if l.Paused || l.ConsecutiveDead != 0 {
			t.Errorf("%+v", l.Timer)
		}
	})
	t.Run("a client's pause stays as it is", func(t *testing.T) {
		l := aLife(t, 1)
		occ := mustCurrent(t, &l.Timer)
		if err := l.Pause("lunch", 0, l.Due+1); err != nil {
			t.Fatal(err)
		}
		to := l.After(occ, 7, refusal, occ.Due, occ.Due+2, l.s).To
		if !to.Paused || to.PauseCause != PauseRequested || to.Reason != "lunch" {
			t.Errorf("%+v", to)
		}
	})
	t.Run("nothing is left to pause", func(t *testing.T) {
		l := aLife(t, 1)
		l.Spec.MaxOccurrences, l.Spec.Keep = l.Passed+1, time.Hour
		if l.next(refusal); l.Paused || l.State() != StateEnded {
			t.Errorf("%+v", l.Timer)
		}
	})
}

func TestACauseOfAPauseIsOfAClosedSet(t *testing.T) {
	for c, name := range pauseCauseNames {
		if name == "" { // a number without a cause
			continue
		}
		got, err := ParsePauseCause(PauseCause(c).String())
		if err != nil || got != PauseCause(c) {
			t.Errorf("%v came back as %v, %v", PauseCause(c), got, err)
		}
	}
	if c, err := ParsePauseCause(""); err != nil || c != PauseRequested {
		t.Errorf("nothing is %v, %v", c, err)
	}
	if _, err := ParsePauseCause("mood"); err == nil || !strings.Contains(err.Error(), "pause_cause") {
		t.Errorf("mood: %v", err)
	}
	if s := PauseCause(200).String(); s != "unknown" {
		t.Errorf("one of a later version is %q", s)
	}
}

// TestAnotherScheduleKeepsThePause but for one that another schedule mends.
func TestAnotherScheduleKeepsThePause(t *testing.T) {
	for cause, kept := range map[PauseCause]bool{PauseRequested: true, PauseDeadLetters: true, PauseScheduleCost: false} {
		tm, s := recurring(MisfireLatest)
		tm.pauseItself(cause, tm.Due, "why")
		r, err := tm.Rewrite(tm.Spec, Rewriting{Sure: tm.Due, Now: tm.Due, Old: s, New: s, Anchor: tm.Due, Restart: true, CutOff: func() Step { return Step{} }})
		if err != nil {
			t.Fatal(err)
		}
		to := r.To
		if to.Paused != kept || kept && (to.PauseCause != cause || to.Reason != "why" || to.Visible != Never) {
			t.Errorf("%v: %+v", cause, to)
		}
	}
}
