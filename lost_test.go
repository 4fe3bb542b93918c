package rouse

import (
	"fmt"
	"testing"
	"time"
)

// lose ends attempts of a timer by the loss of their receivers, until it is dead, and returns the pauses and
// the record.
func lose(t *testing.T, tm Timer, o Outcome) (pauses []time.Duration, r Record) {
	t.Helper()
	now := tm.Due
	for range MaxAttempts {
		occ := mustCurrent(t, &tm)
		if f := tm.Fire(occ); f.Lost != uint32(len(pauses)) {
			t.Errorf("attempt %d comes with %d losses", occ.Attempt, f.Lost)
		}
		step := tm.After(occ, tm.Revision, o, now, now.Add(time.Millisecond), at(tm.Due))
		if now = now.Add(time.Millisecond); len(step.Log) > 0 {
			if d := step.Detached; d == nil || d.Lost != 0 {
				t.Errorf("its dead letter is %+v", d)
			}
			return pauses, step.Log[0]
		}
		row := step.To.Row()
		back, err := DecodeTimer(&row)
		if err != nil {
			t.Fatal(err)
		}
		tm = back
		pauses = append(pauses, tm.Visible.Sub(now))
		now = tm.Visible
	}
	t.Fatal("it does not end")
	return nil, Record{}
}

// TestAnOccurrenceThatEndsItsReceiversIsPoison: after the first loss it goes to another receiver at once,
// after each later one there is a pause, and the last one is its end, however many attempts its policy has.
func TestAnOccurrenceThatEndsItsReceiversIsPoison(t *testing.T) {
	lost := Outcome{Verdict: Failed, Lost: true, Detail: "it went away"}
	for _, c := range []struct {
		retry  Retry
		pauses []time.Duration
		cause  Cause
	}{
		{Retry{Attempts: MaxAttempts, Jitter: -1}, []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second}, CausePoison},
		{Retry{Attempts: MaxAttempts, Interval: time.Millisecond, Factor: 1, Jitter: -1}, []time.Duration{0, time.Second, time.Second, time.Second}, CausePoison},
		{Retry{Attempts: 3, Interval: time.Minute, Factor: 1, Jitter: -1}, []time.Duration{0, time.Minute}, CausePoison},
		{Retry{Attempts: 1}, nil, CauseAttemptsExhausted}, // one may go for any reason
	} {
		tm := oneShot(t0.Add(time.Second))
		tm.Spec.Retry = c.retry
		pauses, r := lose(t, tm, lost)
		if fmt.Sprint(pauses) != fmt.Sprint(c.pauses) || r.Ending != EndDead || r.Cause != c.cause || int(r.Attempts) != len(pauses)+1 {
			t.Errorf("%+v: pauses %v, %v with cause %v after %d attempts", c.retry, pauses, r.Ending, r.Cause, r.Attempts)
		}
	}
}

// TestAnyAnswerBeginsTheCountAgain: a receiver that fails, or accepts, has not gone.
func TestAnyAnswerBeginsTheCountAgain(t *testing.T) {
	for _, o := range []Outcome{{Verdict: Failed}, {Verdict: Accepted, After: time.Second}} {
		tm := oneShot(t0.Add(time.Second))
		tm.Attempts, tm.Lost = 4, MaxLost-1
		if step := tm.After(mustCurrent(t, &tm), 7, o, t0, t0, at(tm.Due)); step.To == nil || step.To.Lost != 0 {
			t.Errorf("after %v: %+v", o.Verdict, step.To)
		}
	}
	tm := oneShot(t0.Add(time.Second))
	tm.Attempts, tm.Lost = 4, MaxLost-1
	if step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Deferred}, 0, t0, at(tm.Due)); step.To.Lost != MaxLost-1 || step.To.Attempts != 4 {
		t.Errorf("what was not attempted has %d losses in %d attempts", step.To.Lost, step.To.Attempts)
	}
	tm.Attempts, tm.Lost = 0, 1
	if step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Deferred, Lost: true}, t0, t0, at(tm.Due)); step.To.Lost != 2 || step.To.Attempts != 0 {
		t.Errorf("what was lost without an attempt has %d losses in %d attempts", step.To.Lost, step.To.Attempts)
	}
}

// TestAttemptsThatAreStoredBeforeTheirReceiverGoes: those of functions, which may end this process. Each
// counts when it is stored, unless there is an outcome.
func TestAttemptsThatAreStoredBeforeTheirReceiverGoes(t *testing.T) {
	spend := func(tm Timer) Timer { return Spend(&tm, mustCurrent(t, &tm), t0, t0) }
	tm := oneShot(t0.Add(time.Second))
	tm.Spec.Retry.Attempts = MaxAttempts
	end := func(tm Timer, o Outcome) Step {
		occ := mustCurrent(t, &tm)
		occ.Attempt = tm.Attempts // as the engine has it
		return tm.After(occ, tm.Revision, o, t0, t0, at(tm.Due))
	}
	tm = spend(tm)
	if tm.Lost != 1 || tm.Attempts != 1 {
		t.Errorf("spent: %d losses in %d attempts", tm.Lost, tm.Attempts)
	}
	if to := end(tm, Outcome{Verdict: Deferred}).To; to.Lost != 0 || to.Attempts != 0 {
		t.Errorf("spent and given back: %d losses in %d attempts", to.Lost, to.Attempts)
	}
	if to := end(tm, Outcome{Verdict: Failed}).To; to.Lost != 0 || to.Attempts != 1 {
		t.Errorf("spent and failed: %d losses in %d attempts", to.Lost, to.Attempts)
	}
	for n := uint32(2); n <= MaxLost; n++ {
		tm.Token = 0 // the engine has seen that nothing came, and it is attempted again
		if tm = spend(tm); tm.Lost != n {
			t.Fatalf("%d losses, want %d", tm.Lost, n)
		}
	}
	step := end(tm, Outcome{Verdict: Failed, Lost: true})
	if len(step.Log) != 1 || step.Log[0].Cause != CausePoison || step.Log[0].Attempts != MaxLost {
		t.Errorf("at the end: %+v", step)
	}
}
