package timers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/store/mem"
)

var (
	asuncion               = rouse.Spec{Schedule: "0 9 15 7 *", Timezone: "America/Asuncion", Target: "x:y"}
	asKey                  = rouse.Key{Namespace: "n", Name: "a"}
	asNewYork              = map[string]string{"America/Asuncion": "America/New_York"} // four hours behind UTC in July; in truth it is three or four
	asKathmandu            = map[string]string{"America/Asuncion": "Asia/Kathmandu"}
	byNewYork, byKathmandu = "13:00", "03:15"
)

// following runs a node that follows the rules until stop is called.
func following(t *testing.T, s rouse.Store, rules *otherRules, shared bool) (ts *Timers, stop func()) {
	t.Helper()
	rules.Reload()
	o := Options{Compile: rules.compile, Zones: Zones{Rules: rules.Rules, Reload: rules.Reload}}
	o.Engine.Look, o.Engine.DeadAge, o.Engine.Shared = -1, -1, shared
	strategy := rouse.Strategy(claim.NewSole(1))
	if shared {
		o.Zones.Alone = func(context.Context) bool { return rules.isAlone() }
		strategy = claim.NewLease(1, 8*time.Second)
	}
	ts = New(s, strategy, &fired{of: map[string]int{}}, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ts.Run(ctx) }()
	if err := ts.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	return ts, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// wantDueAt checks the time of day at which the timer is due, in UTC.
func wantDueAt(t *testing.T, ts *Timers, what, want string) {
	t.Helper()
	tm, err := ts.Get(t.Context(), asKey)
	if is := tm.Due.Time().UTC().Format("15:04"); err != nil || is != want || tm.Visible != tm.Due {
		t.Errorf("%s: due at %s, not at %s; visible at %v; %v", what, is, want, tm.Visible, err)
	}
}

// TestDueTimesFollowTheRulesOfTheirZones: the rules change while no node runs, and while one does, and are
// taken back.
func TestDueTimesFollowTheRulesOfTheirZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rules := mem.New(), &otherRules{}
		rules.swap(asNewYork)
		ts, stop := following(t, s, rules, false)
		made(t, ts, "a", asuncion)
		wantDueAt(t, ts, "at first", byNewYork)
		if z := ts.ZoneStatus(); z.Known == 0 || z.Changed != 0 {
			t.Errorf("at first: %+v", z)
		}
		stop()

		rules.swap(asKathmandu)
		ts, stop = following(t, s, rules, false)
		wantDueAt(t, ts, "after a start with other rules", byKathmandu)
		if z := ts.ZoneStatus(); len(z.Zones) != 1 || z.Zones[0] != "America/Asuncion" || z.Changed == 0 || len(z.Behind) != 0 {
			t.Errorf("after a start with other rules: %+v", z)
		}
		job, err := ts.Job(t.Context(), rouse.Everywhere, evaluateID)
		if err != nil || job.State != rouse.JobDone || job.Changed != 1 {
			t.Errorf("%+v, %v", job, err)
		}

		rules.swap(asNewYork)
		time.Sleep(zonesLook + time.Minute)
		wantDueAt(t, ts, "an hour after they were taken back", byNewYork)
		made(t, ts, "b", asuncion)
		if tm, _ := ts.Get(t.Context(), rouse.Key{Namespace: "n", Name: "b"}); tm.Due.Time().UTC().Format("15:04") != byNewYork {
			t.Errorf("a new timer is due at %v", tm.Due)
		}
		stop()

		revision := func() uint64 {
			rows, err := s.Get(t.Context(), []rouse.Key{zonesKey})
			if err != nil {
				t.Fatal(err)
			}
			return rows[0].Revision
		}
		was := revision()
		ts, stop = following(t, s, rules, false)
		defer stop()
		if wantDueAt(t, ts, "after a start with the same rules", byNewYork); revision() != was {
			t.Error("a start with the same rules writes")
		}
	})
}

// TestNodesWithDifferentRulesDoNotFight: the node with the older rules reports that, and the timers follow
// the newer ones; when it has these, too, what it did by the older ones is set right.
func TestNodesWithDifferentRulesDoNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, old, recent := mem.New(), &otherRules{}, &otherRules{}
		old.swap(asNewYork)
		recent.swap(asNewYork)
		a, stop := following(t, s, old, true)
		defer stop()
		b, stop := following(t, s, recent, true)
		defer stop()
		made(t, a, "a", asuncion)
		wantDueAt(t, b, "at first", byNewYork)

		recent.swap(asKathmandu)
		revision := uint64(0)
		for hour := range 4 {
			time.Sleep(zonesLook + time.Minute)
			wantDueAt(t, a, "with one node behind", byKathmandu)
			tm, err := b.Get(t.Context(), asKey)
			if err != nil || hour > 1 && tm.Revision != revision {
				t.Errorf("hour %d: it was moved again: %v", hour, err)
			}
			revision = tm.Revision
		}
		if z := a.ZoneStatus(); len(z.Behind) != 1 || z.Behind[0] != "America/Asuncion" {
			t.Errorf("the node that is behind: %+v", z)
		}
		if z := b.ZoneStatus(); len(z.Behind) != 0 || z.Changed == 0 {
			t.Errorf("the other node: %+v", z)
		}
		if _, err := a.Skip(t.Context(), asKey, 1, ""); err != nil {
			t.Fatal(err)
		}
		wantDueAt(t, a, "moved on by the node that is behind", byNewYork)

		old.swap(asKathmandu)
		time.Sleep(zonesLook + 2*time.Minute)
		wantDueAt(t, a, "with both nodes up to date", byKathmandu)
		if tm, _ := a.Get(t.Context(), asKey); tm.Due.Time().Year() != 2001 {
			t.Errorf("the skip is gone: due at %v", tm.Due)
		}
		if z := a.ZoneStatus(); len(z.Behind) != 0 {
			t.Errorf("both are up to date: %+v", z)
		}

		// The new rules are taken back: by a node that is alone.
		old.swap(asNewYork)
		time.Sleep(zonesLook + 2*time.Minute)
		if z := a.ZoneStatus(); len(z.Behind) != 1 {
			t.Errorf("with the rules of before: %+v", z)
		}
		old.setAlone()
		time.Sleep(zonesLook + 2*time.Minute)
		wantDueAt(t, a, "with the rules of before, and alone", byNewYork)
	})
}
