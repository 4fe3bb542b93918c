package rouse

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// every is a fixed interval, enough of a schedule for the policy.
type every struct {
	anchor Instant
	d      time.Duration
	end    Instant
}

func (e every) Next(after Instant) (Instant, bool) {
	step := Instant(e.d / time.Millisecond)
	next := e.anchor + step
	if after >= next {
		next = e.anchor + ((after-e.anchor)/step+1)*step
	}
	return next, e.end == 0 || next <= e.end
}

const t0 Instant = 1_800_000_000_000

func recurring(policy Misfire) (Timer, every) {
	s := every{anchor: t0, d: time.Minute}
	t, err := NewTimer(Key{Namespace: "n", Name: "t"}, Spec{Schedule: "@every 1m", Target: "stream:", Misfire: policy}, t0, s)
	if err != nil {
		panic(err)
	}
	t.Generation, t.Revision = 7, 7
	return t, s
}

func oneShot(due Instant) Timer {
	t, err := NewTimer(Key{Namespace: "n", Name: "t"}, Spec{Schedule: "2027-01-15T08:00:00Z", Target: "stream:"}, t0, at(due))
	if err != nil {
		panic(err)
	}
	t.Generation, t.Revision = 7, 7
	return t
}

type at Instant

func (a at) Next(after Instant) (Instant, bool) { return Instant(a), after < Instant(a) }

func mustCurrent(t *testing.T, tm *Timer) Occurrence {
	t.Helper()
	occ, ok := tm.Current()
	if !ok {
		t.Fatal("no current occurrence")
	}
	return occ
}

func TestAOneShotTimerThatFiredEndsWithARecord(t *testing.T) {
	tm := oneShot(t0 + 5000)
	step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Done, Code: 200}, t0+5000, t0+5010, nil)
	if step.To != nil || step.Keep || step.Dead != nil {
		t.Errorf("step %+v, want the row removed", step)
	}
	if len(step.Log) != 1 || step.Log[0].Ending != EndFired || step.Log[0].Due != t0+5000 || step.Log[0].Attempts != 1 {
		t.Errorf("log %+v", step.Log)
	}
}

func TestAFailureIsRetriedWithBackoffThenDies(t *testing.T) {
	tm := oneShot(t0)
	tm.Spec.Retry = Retry{Attempts: 3, Interval: 200 * time.Millisecond, Jitter: -1}
	for n, wait := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond} {
		occ := mustCurrent(t, &tm)
		if occ.Attempt != uint32(n+1) {
			t.Fatalf("attempt %d, want %d", occ.Attempt, n+1)
		}
		step := tm.After(occ, 7, Outcome{Verdict: Failed, Code: 500}, t0, t0, nil)
		if step.To == nil || step.To.Visible != t0.Add(wait) || step.To.State() != StateRetrying || len(step.Log) != 0 {
			t.Fatalf("after attempt %d: %+v", n+1, step)
		}
		tm = *step.To
	}
	occ := mustCurrent(t, &tm)
	if !tm.Fire(occ).Last {
		t.Error("the third of three attempts is not marked as the last")
	}
	id := tm.Fire(occ).ID
	step := tm.After(occ, 7, Outcome{Verdict: Failed, Code: 500, Detail: "boom"}, t0, t0, nil)
	if step.To != nil || step.Dead == nil || step.Dead.Key.Fire != id || step.Dead.State() != StateDead || step.Dead.LastError != "boom" {
		t.Fatalf("step %+v, want a dead letter", step)
	}
	if len(step.Log) != 1 || step.Log[0].Ending != EndDead || step.Log[0].Attempts != 3 {
		t.Errorf("log %+v", step.Log)
	}

	redriven := step.Dead.Redrive(t0 + 1)
	occ = mustCurrent(t, &redriven)
	if got := redriven.Fire(occ); got.ID != id || got.Attempt != 1 {
		t.Errorf("redriven as %+v, want the same id and attempt 1", got)
	}
	if again := redriven.After(occ, 8, Outcome{Verdict: Rejected}, t0, t0, nil); again.To == nil || again.To.Visible != Never || again.Dead != nil {
		t.Errorf("redriven in vain: %+v, want it kept where it is", again)
	}
	if ok := redriven.After(occ, 8, Outcome{Verdict: Done}, t0, t0, nil); ok.To != nil || ok.Keep {
		t.Errorf("redriven with success: %+v, want it gone", ok)
	}
}

func TestARecurringTimerGoesOnAfterADeadLetter(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Rejected}, tm.Due, tm.Due, s)
	if step.Dead == nil || step.To == nil || step.To.Due != tm.Due.Add(time.Minute) || step.To.Attempts != 0 {
		t.Errorf("step %+v", step)
	}
}

func TestGoneEndsTheTimer(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	if step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Gone}, tm.Due, tm.Due, s); step.To != nil || step.Keep || len(step.Log) != 1 {
		t.Errorf("step %+v", step)
	}
}

func TestDeferredSpendsNoAttempt(t *testing.T) {
	tm := oneShot(t0)
	step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Deferred, After: time.Second}, t0, t0, nil)
	if step.To == nil || step.To.Attempts != 0 || step.To.Visible != t0+1000 || len(step.Log) != 0 {
		t.Errorf("step %+v", step)
	}
}

func TestMisfirePolicies(t *testing.T) {
	// The first occurrence is due at t0+1m; nobody looked until t0+4m30s, so 1m, 2m, 3m and 4m are due.
	now := t0.Add(4*time.Minute + 30*time.Second)
	for _, c := range []struct {
		policy Misfire
		due    Instant
		missed uint32
	}{
		{MisfireLatest, t0.Add(4 * time.Minute), 3},
		{MisfireSkip, t0.Add(5 * time.Minute), 4},
	} {
		tm, s := recurring(c.policy)
		if !tm.Misfired(now, s) {
			t.Errorf("%v: not misfired", c.policy)
		}
		step := tm.CatchUp(now, s)
		if step.To == nil || step.To.Due != c.due || step.To.Visible != c.due {
			t.Fatalf("%v: %+v, want due %v", c.policy, step.To, c.due)
		}
		if len(step.Log) != 1 || step.Log[0].Ending != EndMissed || step.Log[0].Count != c.missed || step.Log[0].Due != t0.Add(time.Minute) {
			t.Errorf("%v: log %+v", c.policy, step.Log)
		}
	}
	tm, s := recurring(MisfireAll)
	if tm.Misfired(now, s) {
		t.Error("all: misfired, but every occurrence is to fire")
	}
	step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Done}, now, now, s)
	if step.To == nil || step.To.Due != t0.Add(2*time.Minute) {
		t.Errorf("all: next is %+v", step.To)
	}
}

func TestALongOutageIsCaughtUpWithoutWalkingItAll(t *testing.T) {
	for _, policy := range []Misfire{MisfireLatest, MisfireSkip} {
		s := every{anchor: t0, d: time.Second}
		tm, _ := recurring(policy)
		tm.Spec.Schedule, tm.Due = "@every 1s", t0+1000
		now := t0.Add(10 * 365 * 24 * time.Hour)
		step := tm.CatchUp(now, s)
		want := now
		if policy == MisfireSkip {
			want = now + 1000
		}
		if step.To == nil || step.To.Due != want || len(step.Log) != 1 || step.Log[0].Count != 0 || step.Log[0].LastDue >= step.To.Due {
			t.Errorf("%v: to %+v log %+v", policy, step.To, step.Log)
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	tm.Pause("incident", t0)
	if _, ok := tm.Current(); ok || tm.Visible != Never || tm.State() != StatePaused {
		t.Errorf("paused: %+v", tm)
	}
	log := tm.Resume(t0.Add(150*time.Second), s, false)
	if tm.Due != t0.Add(3*time.Minute) || tm.Visible != tm.Due {
		t.Errorf("resumed: due %v", tm.Due)
	}
	if len(log) != 1 || log[0].Ending != EndSkipped || log[0].Count != 2 {
		t.Errorf("log %+v", log)
	}

	one := oneShot(t0 + 1000)
	one.Pause("", t0)
	if log := one.Resume(t0+5000, nil, false); len(log) != 0 || one.Visible != t0+1000 {
		t.Errorf("a one-shot whose time passed while it was paused: %+v %+v", one, log)
	}
}

func TestRunNeverUsesUpAnOccurrence(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	due := tm.Due
	run, err := tm.Run(t0 + 10)
	if err != nil {
		t.Fatal(err)
	}
	occ := mustCurrent(t, &tm)
	if !occ.Manual || occ.Due != run || tm.Visible != run {
		t.Fatalf("current %+v", occ)
	}
	step := tm.After(occ, 7, Outcome{Verdict: Done}, t0, t0+20, s)
	if step.To == nil || step.To.Due != due || len(step.To.Runs) != 0 || step.To.Visible != due || !step.Log[0].Manual {
		t.Errorf("step %+v", step.To)
	}
	if tm.Fire(occ).ID == tm.Fire(Occurrence{Due: run, Attempt: 1}).ID {
		t.Error("a run and an occurrence of the same millisecond share a fire id")
	}

	// A run asked for while the scheduled occurrence is on its way: both end once.
	tm, s = recurring(MisfireLatest)
	sched := mustCurrent(t, &tm)
	if _, err = tm.Run(tm.Due + 1); err != nil {
		t.Fatal(err)
	}
	step = tm.After(sched, 7, Outcome{Verdict: Done}, tm.Due, tm.Due+2, s)
	if step.To == nil || step.To.Due != tm.Due.Add(time.Minute) || len(step.To.Runs) != 1 || len(step.Log) != 1 {
		t.Fatalf("step %+v", step)
	}
	for range MaxRuns {
		_, err = tm.Run(t0)
	}
	if err == nil {
		t.Error("more runs than the limit were accepted")
	}
}

const goldenFireID = "mzhfr5fa01m6nn0yhbyc2jmdfz"

func TestFireIDIsStableAndItsOwn(t *testing.T) {
	id := FireID("n", "t", 7, t0, false)
	if id != goldenFireID {
		t.Errorf("id %q, want %q: receivers know the old ids", id, goldenFireID)
	}
	seen := map[string]bool{}
	for _, other := range []string{id, FireID("n", "t", 8, t0, false), FireID("n", "t", 7, t0+1, false), FireID("nt", "", 7, t0, false),
		FireID("", "nt", 7, t0, false), FireID("n", "t", 7, t0, true)} {
		if seen[other] {
			t.Errorf("id %q twice", other)
		}
		seen[other] = true
	}
}

// TestEveryOccurrenceEndsExactlyOnce drives a timer with random outcomes, pauses, runs and delays, and checks that the records
// tile its occurrences: none without a record, none with two.
func TestEveryOccurrenceEndsExactlyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := Misfire(rapid.IntRange(0, 2).Draw(rt, "policy"))
		tm, s := recurring(policy)
		tm.Spec.Retry = Retry{Attempts: 3, Interval: time.Second, Jitter: -1}
		now := t0
		ended := map[Instant]int{}
		runs := map[Instant]int{}
		asked := map[Instant]bool{}
		note := func(log []Record) {
			for _, r := range log {
				switch {
				case r.Manual:
					runs[r.Due]++
				case r.LastDue == 0:
					ended[r.Due]++
				default:
					for d := r.Due; d <= r.LastDue; d = d.Add(time.Minute) {
						ended[d]++
					}
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "wait")) * time.Second)
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				tm.Pause("", now)
			case 1:
				note(tm.Resume(now, s, false))
			case 2:
				if due, err := tm.Run(now); err == nil {
					asked[due] = true
				}
			default:
				if tm.Visible > now {
					continue
				}
				if tm.Token == 0 && tm.Misfired(now, s) {
					step := tm.CatchUp(now, s)
					note(step.Log)
					tm = *step.To
					continue
				}
				occ, ok := tm.Current()
				if !ok {
					rt.Fatalf("visible at %v, but at nothing: %+v", tm.Visible, tm)
				}
				if tm.Token != 0 {
					occ.Attempt = tm.Attempts
				}
				fireAt := tm
				if rapid.Bool().Draw(rt, "run meanwhile") {
					if due, err := tm.Run(now); err == nil {
						asked[due] = true
					}
				}
				verdict := Verdict(rapid.IntRange(int(Done), int(Rejected)).Draw(rt, "verdict"))
				step := tm.After(occ, fireAt.Revision, Outcome{Verdict: verdict, After: time.Second}, now, now, s)
				note(step.Log)
				if step.To == nil {
					rt.Fatalf("a timer without end ended: %+v", step)
				}
				tm = *step.To
			}
			if tm.Visible == Never && !tm.Paused {
				rt.Fatalf("nothing will ever look at %+v", tm)
			}
		}
		for d := t0.Add(time.Minute); d < tm.Due; d = d.Add(time.Minute) {
			if ended[d] != 1 {
				rt.Fatalf("occurrence %v has %d records", d, ended[d])
			}
		}
		for d, n := range ended {
			if d >= tm.Due || n != 1 {
				rt.Fatalf("occurrence %v has %d records, due is %v", d, n, tm.Due)
			}
		}
		for d := range asked {
			open := 0
			for _, r := range tm.Runs {
				if r == d {
					open++
				}
			}
			if runs[d]+open != 1 {
				rt.Fatalf("run %v has %d records and waits %d times", d, runs[d], open)
			}
		}
	})
}

func TestADeadLetterOfAPausedTimerCanBeRedriven(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	occ := mustCurrent(t, &tm) // on its way when the pause comes
	tm.Pause("incident", tm.Due)
	step := tm.After(occ, 7, Outcome{Verdict: Rejected}, tm.Due, tm.Due, s)
	if step.Dead == nil || step.To == nil || !step.To.Paused {
		t.Fatalf("step %+v", step)
	}
	again := step.Dead.Redrive(tm.Due + 1)
	if got := mustCurrent(t, &again); got.Due != occ.Due || got.Attempt != 1 {
		t.Errorf("redriven at %+v", got)
	}
}
