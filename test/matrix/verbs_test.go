package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is one thing that a client, or fate, does.
type step struct {
	verb     string
	timer    string
	policies policies
	n        int
	wait     time.Duration // afterwards
}

func (s step) String() string {
	return fmt.Sprintf("%s %s %v n=%d, then %v", s.verb, s.timer, s.policies, s.n, s.wait)
}

// steps draws a run: most of it is waiting for a while, so that something happens between the verbs.
func steps() *rapid.Generator[[]step] {
	verbs := []string{"create", "create", "create", "pause", "pause until", "resume", "skip", "run", "reschedule", "delete", "wait", "outage", "restart",
		"crash", "backfill", "redrive"}
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			verb:     rapid.SampledFrom(verbs).Draw(t, "verb"),
			timer:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "timer"),
			policies: rapid.SampledFrom(combinations()).Draw(t, "policies"),
			n:        rapid.IntRange(1, 5).Draw(t, "n"),
			wait:     time.Duration(rapid.IntRange(0, 300).Draw(t, "wait")) * 100 * time.Millisecond,
		}
	})
	return rapid.Custom(func(t *rapid.T) []step {
		first := one.Draw(t, "first")
		first.verb = "create"
		return append([]step{first}, rapid.SliceOfN(one, 1, 14).Draw(t, "steps")...)
	})
}

func (s step) spec(w *simulation) timerSpec {
	switch s.n {
	case 1:
		return s.policies.every(3 * time.Second)
	case 2:
		return s.policies.every(10 * time.Second).jitter(3 * time.Second)
	case 3:
		return s.policies.every(5 * time.Second).deadline(8 * time.Second)
	case 4:
		return s.policies.at(w.clock().Add(12 * time.Second))
	}
	return s.policies.cron("cron6:*/7 * * * * *", "", "").between(w.clock().Add(5*time.Second), w.clock().Add(2*time.Minute))
}

// do makes a step.
func (s step) do(w *simulation) {
	switch s.verb {
	case "create":
		w.create(s.timer, s.spec(w))
	case "reschedule":
		if old, ok := w.specs[s.timer]; ok {
			w.reschedule(s.timer, old.when(s.spec(w)))
		}
	case "delete":
		w.delete(s.timer)
	case "pause":
		w.pause(s.timer, 0)
	case "pause until":
		w.pause(s.timer, time.Duration(s.n)*7*time.Second)
	case "resume":
		w.resume(s.timer)
	case "skip":
		w.skip(s.timer, s.n)
	case "run":
		w.run(s.timer)
	case "backfill":
		w.backfill(s.timer, time.Duration(s.n)*20*time.Second, 12*time.Second)
	case "redrive":
		w.redrive()
	case "outage", "restart", "crash":
		restart := w.stop(s.verb == "crash")
		if s.verb != "restart" {
			time.Sleep(time.Duration(s.n) * 17 * time.Second)
		}
		restart()
	}
	time.Sleep(s.wait)
}

// TestVerbs lets clients do anything in any order: no occurrence stays without exactly one record.
func TestVerbs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := steps().Draw(rt, "plan")
		r := rapid.SampledFrom(receivers).Draw(rt, "receiver")
		var complaints []string
		synctest.Test(t, func(*testing.T) {
			w := newSimulation(begin, r.receiver)
			for _, s := range plan {
				s.do(w)
			}
			time.Sleep(70 * time.Second)
			report, log := w.finish()
			w.broken = slices.DeleteFunc(w.broken, func(s string) bool { return strings.HasPrefix(s, "create ") }) // refusals are fine here
			complaints = w.complaints(report, log, "verbs")
		})
		if len(complaints) > 0 {
			rt.Fatalf("%s", strings.Join(complaints[:min(len(complaints), 12)], "\n"))
		}
	})
}
