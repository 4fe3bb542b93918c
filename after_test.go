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
	t, err := NewTimer(Key{Namespace: "n", Name: "t"}, Spec{Schedule: "@every 1m", Target: "stream:", Misfire: policy}, t0, t0, s)
	if err != nil {
		panic(err)
	}
	t.Generation, t.Revision = 7, 7
	return t, s
}

func oneShot(due Instant) Timer {
	t, err := NewTimer(Key{Namespace: "n", Name: "t"}, Spec{Schedule: "2027-01-15T08:00:00Z", Target: "stream:"}, t0, t0, at(due))
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
	if step.To != nil || step.Keep || step.Detached != nil {
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
	if step.To != nil || step.Detached == nil || step.Detached.Key.Fire != id || step.Detached.State() != StateDead || step.Detached.LastError != "boom" {
		t.Fatalf("step %+v, want a dead letter", step)
	}
	if len(step.Log) != 1 || step.Log[0].Ending != EndDead || step.Log[0].Attempts != 3 {
		t.Errorf("log %+v", step.Log)
	}

	redriven := step.Detached.Redrive(t0 + 1)
	occ = mustCurrent(t, &redriven)
	if got := redriven.Fire(occ); got.ID != id || got.Attempt != 1 {
		t.Errorf("redriven as %+v, want the same id and attempt 1", got)
	}
	if again := redriven.After(occ, 8, Outcome{Verdict: Rejected}, t0, t0, nil); again.To == nil || again.To.Visible != Never || again.Detached != nil {
		t.Errorf("redriven in vain: %+v, want it kept where it is", again)
	}
	if ok := redriven.After(occ, 8, Outcome{Verdict: Done}, t0, t0, nil); ok.To != nil || ok.Keep {
		t.Errorf("redriven with success: %+v, want it gone", ok)
	}
}

func TestARecurringTimerGoesOnAfterADeadLetter(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Rejected}, tm.Due, tm.Due, s)
	if step.Detached == nil || step.To == nil || step.To.Due != tm.Due.Add(time.Minute) || step.To.Attempts != 0 {
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
	// The first occurrence is due at t0+1m; no node was up until t0+4m30s, so 1m, 2m, 3m and 4m are due.
	now := t0.Add(4*time.Minute + 30*time.Second)
	for _, c := range []struct {
		policy Misfire
		due    Instant
		missed uint32
	}{
		{MisfireLatest, t0.Add(4 * time.Minute), 3},
		{MisfireSkip, t0.Add(4 * time.Minute), 3}, // half a minute late is within its grace
		{MisfireWithin, t0.Add(3 * time.Minute), 2},
	} {
		tm, s := recurring(c.policy)
		if c.policy == MisfireWithin {
			tm.Spec.Within = 2 * time.Minute
		}
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
		if step.To == nil || step.To.Due != now || len(step.Log) != 1 || step.Log[0].Count != 0 || step.Log[0].LastDue >= step.To.Due {
			t.Errorf("%v: to %+v log %+v", policy, step.To, step.Log)
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	tm.Pause("incident", 0, t0)
	if _, ok := tm.Current(); ok || tm.Visible != Never || tm.State() != StatePaused {
		t.Errorf("paused: %+v", tm)
	}
	log := tm.Resume(t0.Add(150*time.Second), s, false).Log
	if tm.Due != t0.Add(3*time.Minute) || tm.Visible != tm.Due {
		t.Errorf("resumed: due %v", tm.Due)
	}
	if len(log) != 1 || log[0].Ending != EndSkipped || log[0].Count != 2 {
		t.Errorf("log %+v", log)
	}

	one := oneShot(t0 + 1000)
	one.Pause("", 0, t0)
	if log := one.Resume(t0+5000, nil, false).Log; len(log) != 0 || one.Visible != t0+1000 {
		t.Errorf("a one-shot whose time passed while it was paused: %+v %+v", one, log)
	}
}

// TestARunAfterAPauseBringsNothingOfThePauseBack: an occurrence may be in progress while its timer is paused
// and resumed, and a run ends before it. Occurrences that came due in the pause are skipped under every
// misfire policy, and the one from before it is subject to the policy.
func TestARunAfterAPauseBringsNothingOfThePauseBack(t *testing.T) {
	for _, policy := range []Misfire{MisfireLatest, MisfireAll, MisfireSkip} {
		tm, s := recurring(policy)
		first, now := tm.Due, tm.Due.Add(150*time.Second)
		tm.Pause("", 0, first+10)
		if _, _, err := tm.Run(first + 20); err != nil {
			t.Fatal(err)
		}
		tm = *tm.Resume(now, s, true).To // the first one may be out
		step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Done}, now, now+10, s)
		for step.To.Due <= now {
			if step.To.Due != first || policy == MisfireSkip {
				t.Fatalf("%v: %v is to fire, and came due in the pause", policy, step.To.Due)
			}
			to := *step.To
			step = to.After(mustCurrent(t, &to), 8, Outcome{Verdict: Done}, now, now+20, s)
		}
		last := step.Log[len(step.Log)-1]
		if step.To.Due != now.Add(30*time.Second) || last.Ending != EndSkipped || last.Cause != CausePaused || last.Count != 2 {
			t.Errorf("%v: the next one is due at %v, and the last record is %+v", policy, step.To.Due, last)
		}
	}
}

// TestAnImportedOccurrenceInProgressIsNotSkipped, whether or not an attempt of it was counted.
func TestAnImportedOccurrenceInProgressIsNotSkipped(t *testing.T) {
	for attempts := range uint32(3) {
		tm, s := recurring(MisfireLatest)
		due, now := tm.Due, tm.Due+5000
		tm.Attempts, tm.Began = attempts, due
		if err := tm.Normalize(now); err != nil {
			t.Fatal(err)
		}
		step, err := tm.Skip(1, "", now, s, false)
		if err != nil || len(step.Log) != 0 || step.To.Due != due || step.To.Skips != 1 {
			t.Errorf("%d attempts: due %v with %d skips after %+v, %v", attempts, step.To.Due, step.To.Skips, step.Log, err)
		}
	}
}

// A run fires during a pause, so the occurrence in progress before it does not wait for the end of the pause.
func TestRunsDoNotWaitForTheEndOfAPause(t *testing.T) {
	failed := func() (Timer, Schedule) {
		tm, s := recurring(MisfireLatest)
		tm.Spec.Retry = Retry{Attempts: 3, Interval: time.Second, Jitter: -1}
		step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Failed}, tm.Due, tm.Due+2, s)
		return *step.To, s
	}
	asked, _ := failed()
	paused := asked
	now := asked.Due + 10
	retry := asked.Visible
	if _, _, err := asked.Run(now); err != nil {
		t.Fatal(err)
	}
	if asked.Pause("", 0, now); asked.Visible != retry {
		t.Errorf("a run waits, and the occurrence before it is tried again at %v, not %v", asked.Visible, retry)
	}
	if paused.Pause("", 0, now); paused.Visible != Never {
		t.Errorf("no run waits, and the occurrence is tried again at %v in spite of the pause", paused.Visible)
	}
	if _, _, err := paused.Run(now + 5); err != nil {
		t.Fatal(err)
	}
	if paused.Visible != now+5 {
		t.Errorf("a run was asked for, and the occurrence before it is tried again at %v", paused.Visible)
	}
	tm, s := failed()
	tm.Pause("", 0, now)
	run, _, _ := tm.Run(now)
	for attempt := range 2 {
		step := tm.After(mustCurrent(t, &tm), 8, Outcome{Verdict: Failed}, now, now+1, s)
		if tm = *step.To; attempt == 0 && tm.Visible == Never {
			t.Error("an attempt failed, and the next one waits for the end of the pause")
		}
	}
	if occ := mustCurrent(t, &tm); !occ.Manual || occ.Due != run || tm.Visible > now+1 {
		t.Errorf("after the last attempt it is at %+v, at %v", occ, tm.Visible)
	}
}

func TestRunNeverUsesUpAnOccurrence(t *testing.T) {
	tm, s := recurring(MisfireLatest)
	due := tm.Due
	run, _, err := tm.Run(t0 + 10)
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

	// A run requested while the scheduled occurrence is in flight: both end once.
	tm, s = recurring(MisfireLatest)
	sched := mustCurrent(t, &tm)
	if _, _, err = tm.Run(tm.Due + 1); err != nil {
		t.Fatal(err)
	}
	step = tm.After(sched, 7, Outcome{Verdict: Done}, tm.Due, tm.Due+2, s)
	if step.To == nil || step.To.Due != tm.Due.Add(time.Minute) || len(step.To.Runs) != 1 || len(step.Log) != 1 {
		t.Fatalf("step %+v", step)
	}
	for range MaxRuns {
		_, _, err = tm.Run(t0)
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

func TestRevisionsOfAStoreBeginWhereNoOthersDo(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	if a, b := FirstRevision(now), FirstRevision(now); a == b || min(a, b) < uint64(now.UnixMicro()) {
		t.Errorf("two stores that are made at %d begin at %d and %d", now.UnixMicro(), a, b)
	}
	for _, wrong := range []time.Time{{}, time.Unix(0, 0), now.AddDate(5000, 0, 0)} {
		if first := FirstRevision(wrong); first == 0 || first > 1<<52+1<<32 {
			t.Errorf("at %v they begin at %d", wrong, first)
		}
	}
	for range 100 { // a store that follows a lost one, so that fencing tokens grow
		if lost, next := FirstRevision(now), FirstRevision(now.Add(72*time.Minute)); lost >= next {
			t.Fatalf("a store begins at %d, and one that is made 72 minutes later at %d", lost, next)
		}
	}
}

// TestEveryOccurrenceEndsExactlyOnce drives a timer and the rows next to it with random policies, outcomes,
// pauses, runs, skips and delays, and checks that the records tile its occurrences: none without a record,
// none with two.
func TestEveryOccurrenceEndsExactlyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tm, s := recurring(Misfire(rapid.IntRange(0, 3).Draw(rt, "misfire")))
		sp := &tm.Spec
		sp.Retry = Retry{Attempts: 3, Interval: time.Second, Jitter: -1, GiveUp: time.Duration(rapid.IntRange(0, 2).Draw(rt, "give up")) * 90 * time.Second}
		sp.Overlap = Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap"))
		sp.Jitter = time.Duration(rapid.IntRange(0, 50).Draw(rt, "jitter")) * time.Second
		sp.Deadline = time.Duration(rapid.IntRange(0, 3).Draw(rt, "deadline")) * time.Minute
		sp.MaxOccurrences = uint64(rapid.SampledFrom([]int{0, 0, 0, 30}).Draw(rt, "max"))
		sp.Keep = -1
		if sp.Misfire == MisfireWithin {
			sp.Within = 2 * time.Minute
		}
		now := t0
		ended, runs, asked := map[Instant]int{}, map[Instant]int{}, map[Instant]bool{}
		note := func(log []Record) {
			for _, r := range log {
				switch {
				case r.Manual:
					runs[r.Due]++
				case r.LastDue == 0:
					ended[r.Due]++
				default:
					n := uint32(0)
					for d := r.Due; d <= r.LastDue; d = d.Add(time.Minute) {
						ended[d]++
						n++
					}
					if n != r.Count {
						rt.Fatalf("a run of %d occurrences has count %d", n, r.Count)
					}
				}
			}
		}
		detached := map[string]Timer{}
		take := func(step Step) {
			note(step.Log)
			if d := step.Detached; d != nil && d.Live {
				if _, ok := detached[d.Key.Fire]; ok {
					rt.Fatalf("a second row for %v", d.Due)
				}
				detached[d.Key.Fire] = *d
			}
			switch {
			case step.Keep:
			case step.To == nil:
				rt.Fatalf("a timer that is kept was removed: %+v", step)
			default:
				tm = *step.To
			}
		}
		attempt := func(row *Timer) Step {
			occ, ok := row.Current()
			if !ok {
				rt.Fatalf("visible at %v, but at nothing: %+v", row.Visible, row)
			}
			if row.Token != 0 {
				occ.Attempt = row.Attempts
			} else if row.Expired(occ, now) {
				if row.Attempts == 0 {
					return row.CatchUp(now, s)
				}
				return row.After(occ, 0, Outcome{Verdict: Expired}, 0, now, s)
			}
			sent := now
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 70}).Draw(rt, "took")) * time.Second)
			if row.Key.Fire == "" && rapid.Bool().Draw(rt, "run before the outcome") {
				if due, side, err := row.Run(now); err == nil {
					asked[due] = true
					if side != nil {
						detached[side.Key.Fire] = *side
					}
				}
			}
			verdict := Verdict(rapid.IntRange(int(Done), int(Rejected)).Draw(rt, "verdict"))
			return row.After(occ, row.Revision, Outcome{Verdict: verdict, After: time.Second}, sent, now, s)
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "wait")) * time.Second)
			if tm.Over() && tm.State() == StateEnded {
				break
			}
			switch rapid.IntRange(0, 11).Draw(rt, "what") {
			case 0:
				_ = tm.Pause("", rapid.SampledFrom([]Instant{0, now.Add(3 * time.Minute)}).Draw(rt, "until"), now)
			case 1:
				take(tm.Resume(now, s, false))
			case 2:
				if due, side, err := tm.Run(now); err == nil {
					asked[due] = true
					if side != nil {
						detached[side.Key.Fire] = *side
					}
				}
			case 3:
				if step, err := tm.Skip(uint32(rapid.IntRange(1, 3).Draw(rt, "skips")), "", now, s, false); err == nil {
					take(step)
				}
			case 4, 5:
				for id, row := range detached {
					if row.Visible > now {
						continue
					}
					step := attempt(&row)
					note(step.Log)
					if row, ok := step.To, step.To != nil; ok && row.Live {
						detached[id] = *row
					} else if ok || !step.Keep {
						delete(detached, id)
					}
					break // the map's order is random, one is enough
				}
			default:
				switch idle := tm.Attempts == 0 && len(tm.Runs) == 0; {
				case tm.Visible > now:
				case tm.PauseOver(now) && (tm.Attempts == 0 || !tm.Manual):
					take(tm.Resume(now, s, false))
				case tm.Token == 0 && tm.Misfired(now, s):
					take(tm.CatchUp(now, s))
				case idle && !tm.Paused && sp.Overlap == OverlapAllow:
					take(tm.Detach(now, s))
				default:
					take(attempt(&tm))
				}
			}
			if tm.Visible == Never && !tm.Paused && !tm.Over() {
				rt.Fatalf("nothing will ever look at %+v", tm)
			}
		}
		for _, row := range detached { // they are at their occurrences, which have not ended
			if row.Manual {
				runs[row.Due]++
				continue
			}
			if ended[row.Due] != 0 {
				rt.Fatalf("%v has a record and is on its way", row.Due)
			}
			ended[row.Due]++
		}
		last := tm.Due
		if last == Never {
			if last = t0.Add(31 * time.Minute); tm.Passed != 30 {
				rt.Fatalf("ended after %d occurrences", tm.Passed)
			}
			tm.Due = last
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
	tm.Pause("incident", 0, tm.Due)
	step := tm.After(occ, 7, Outcome{Verdict: Rejected}, tm.Due, tm.Due, s)
	if step.Detached == nil || step.To == nil || !step.To.Paused {
		t.Fatalf("step %+v", step)
	}
	again := step.Detached.Redrive(tm.Due + 1)
	if got := mustCurrent(t, &again); got.Due != occ.Due || got.Attempt != 1 {
		t.Errorf("redriven at %+v", got)
	}
}

func TestAttemptsEndWhenTheyAreGivenUp(t *testing.T) {
	tm := oneShot(t0)
	tm.Spec.Retry = Retry{Attempts: 100, Interval: 10 * time.Second, Factor: 1, Jitter: -1, GiveUp: 25 * time.Second}
	for n := uint32(1); ; n++ {
		now := tm.Visible
		step := tm.After(mustCurrent(t, &tm), 7, Outcome{Verdict: Failed, Detail: "busy"}, now, now, nil)
		if step.Detached != nil {
			if n != 3 || len(step.Log) != 1 || step.Log[0].Ending != EndDead || len(step.Log[0].Failures) != 2 || step.Log[0].Began != t0 {
				t.Errorf("ended on attempt %d with %+v, want the third, 20 s after the first", n, step.Log)
			}
			return
		}
		if n > 5 || step.To == nil {
			t.Fatalf("after attempt %d: %+v", n, step)
		}
		tm = *step.To
	}
}

func TestPauseEndsWithoutAClaim(t *testing.T) {
	tm, s := recurring(MisfireLatest) // due at 1m, 2m, …
	if err := tm.Pause("", t0.Add(3*time.Minute+30*time.Second), t0); err != nil {
		t.Fatal(err)
	}
	step := tm.Resume(t0.Add(6*time.Minute+30*time.Second), s, false)
	if len(step.Log) != 2 || step.Log[0].Ending != EndSkipped || step.Log[0].Count != 3 || step.Log[1].Ending != EndMissed || step.Log[1].Count != 2 ||
		step.To.Due != t0.Add(6*time.Minute) {
		t.Errorf("records %+v, due %v: the pause skips what came due in it, the rest is the misfire policy's", step.Log, step.To.Due)
	}
}

// starts is a schedule that begins at a given instant.
type starts struct{ every }

func (s starts) Next(after Instant) (Instant, bool) {
	if after < s.anchor {
		return s.anchor, true
	}
	return s.every.Next(after)
}

func TestABeginningThatMayBeYetToComeIsNotPast(t *testing.T) {
	spec := Spec{Schedule: "R/2027-01-15T08:00:00Z/PT1M", Target: "stream:"}
	for _, c := range []struct{ begins, due Instant }{
		{t0 - 21, t0 - 21 + 60_000}, // surely past
		{t0 - 20, t0 - 20 + 60_000},
		{t0 - 19, t0 - 19},
		{t0, t0},
		{t0 + 1, t0 + 1},
	} {
		tm, err := NewTimer(Key{Namespace: "n", Name: "t"}, spec, t0-20, t0, starts{every{anchor: c.begins, d: time.Minute}})
		if err != nil || tm.Due != c.due {
			t.Errorf("begins at %v: due at %v, not %v: %v", c.begins, tm.Due, c.due, err)
		}
	}
	tm, err := NewTimer(Key{Namespace: "n", Name: "t"}, spec, t0-20, t0, every{anchor: t0 - 120_010, d: time.Minute})
	if err != nil || tm.Due != t0-10+60_000 {
		t.Errorf("an occurrence between the two that is not the first is not due again: %v, %v", tm.Due, err)
	}
}
