package rousetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/rousetest/receiver"
)

// Every store gives the same on the same clock.
func TestStores(t *testing.T) {
	for name, opt := range map[string]Option{"mem": func(*options) {}, "pebble": OnPebble(), "sqlite": OnSQLite()} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // runs before the cleanup, which is the inner test's
			t.Run("server", func(t *testing.T) {
				s := NewServer(t, opt, Patience(poll.Patience), Configure(func(c *node.Config) { c.Ahead = time.Second }))
				calls := 0
				s.Handle("f", func(context.Context, rouse.Fire) error {
					if calls++; calls%5 == 0 {
						return errors.New("fifth")
					}
					return nil
				})
				s.Create("a", rouse.Spec{Schedule: "@every 6h", Target: "func:f", Retry: rouse.Retry{Attempts: 2, Interval: time.Minute}, Overlap: rouse.OverlapWait})
				s.Create("b", rouse.Spec{Schedule: "0 9 * * *", Target: s.Receiver.URL()})
				if fired := s.Advance(10 * 24 * time.Hour); fired != 50 {
					t.Errorf("%d fired", fired)
				}
				if n := len(s.Fires("a")); n != 40 || calls != 49 {
					t.Errorf("%d fires of a, %d calls", n, calls)
				}
				if n := len(s.Fires("b")); n != 10 {
					t.Errorf("%d fires of b", n)
				}
				s.Check()
			})
		})
	}
}

func TestTheClientSeesTheSameClock(t *testing.T) {
	s := NewServer(t)
	c, err := s.Client.Clock(t.Context())
	if err != nil || !c.Virtual || c.Now != rouse.At(Begin) {
		t.Errorf("%+v, %v", c, err)
	}
	s.Advance(time.Hour)
	timer, err := s.Client.Create(t.Context(), Namespace, "a", rouse.Spec{Schedule: "@after 1h", Target: "stream:x"})
	if err != nil || timer.Due != rouse.At(Begin.Add(2*time.Hour)) {
		t.Errorf("%v, %v", timer.Due, err)
	}
}

// A wait that cannot end makes the test fail with what it waits for, instead of hanging.
func TestAFireThatNeverEnds(t *testing.T) {
	release := make(chan struct{})
	f := &fake{TB: t}
	s := NewServer(t, Patience(50*time.Millisecond))
	defer close(release)
	s.Handle("f", func(ctx context.Context, _ rouse.Fire) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	s.Create("a", rouse.Spec{Schedule: "@after 1s", Target: "func:f"})
	s.t = f
	f.run(func() { s.Advance(time.Minute) })
	if !f.failed || !strings.Contains(f.text, "1 fires with their targets") {
		t.Errorf("failed: %v, %s", f.failed, f.text)
	}
}

func TestWhatWasWantedIsCompared(t *testing.T) {
	f := &fake{TB: t}
	s := NewServer(t, WithReceiver(receiver.Options{Answer: receiver.Status(404)}))
	s.Handle("f", func(context.Context, rouse.Fire) error { return nil })
	s.Create("a", rouse.Spec{Schedule: "0 * * * *", Target: "func:f"})
	s.Create("b", rouse.Spec{Schedule: "@after 1h", Target: s.Receiver.URL()})
	s.Advance(3 * time.Hour)
	times := Times("2027-01-01T01:00:00Z", "2027-01-01T02:00:00Z", "2027-01-01T03:00:00Z")
	s.t = f
	s.WantFired("a", times...)
	s.WantFired("b")
	s.WantRecords("b", "dead 2027-01-01T01:00:00.000Z, attempt 1: 404 Not Found")
	if f.failed {
		t.Errorf("what is there is not what was wanted: %s", f.text)
	}
	for name, c := range map[string]struct {
		want []time.Time
		text string
	}{
		"one too many":  {times[:2], "+ 2027-01-01T03:00:00.000Z"},
		"one missing":   {append(times, Begin), "- 2027-01-01T00:00:00.000Z"},
		"another order": {[]time.Time{times[1], times[0], times[2]}, "- 2027-01-01T02:00:00.000Z"},
		"nothing":       {nil, "wanted 0, there are 3"},
	} {
		f.failed, f.text = false, ""
		if s.WantFired("a", c.want...); !f.failed || !strings.Contains(f.text, c.text) {
			t.Errorf("%s: %v, %s", name, f.failed, f.text)
		}
	}
	f.failed = false
	if s.WantRecords("b", "fired 2027-01-01T01:00:00.000Z"); !f.failed || !strings.Contains(f.text, "+ dead") {
		t.Errorf("another ending: %s", f.text)
	}
}

func TestLines(t *testing.T) {
	due := rouse.At(Begin)
	for want, r := range map[string]rouse.Record{
		"fired 2027-01-01T00:00:00.000Z":                                                      {Ending: rouse.EndFired, Due: due, Attempts: 1, Code: 200, Reason: "thanks"},
		"fired 2027-01-01T00:00:00.000Z by run, attempt 2":                                    {Ending: rouse.EndFired, Due: due, Attempts: 2, Manual: true},
		"missed 2027-01-01T00:00:00.000Z to 2027-01-01T00:00:01.000Z, 2 in all: too late":     {Ending: rouse.EndMissed, Due: due, LastDue: due + 1000, Count: 2, Reason: "too late"},
		"skipped 2027-01-01T00:00:00.000Z: paused":                                            {Ending: rouse.EndSkipped, Due: due, Reason: "paused"},
		"dead 2027-01-01T00:00:00.000Z, attempt 8: 503 Service Unavailable":                   {Ending: rouse.EndDead, Due: due, Attempts: 8, Code: 503, Reason: "503 Service Unavailable"},
		"dead 2027-01-01T00:00:00.000Z, attempt 1: 503 maximum messages exceeded":             {Ending: rouse.EndDead, Due: due, Attempts: 1, Code: 503, Reason: "maximum messages exceeded"},
		"dead 2027-01-01T00:00:00.000Z, attempt 1: 503 5030 are waiting":                      {Ending: rouse.EndDead, Due: due, Attempts: 1, Code: 503, Reason: "5030 are waiting"},
		"dead 2027-01-01T00:00:00.000Z, attempt 1: 599: busy":                                 {Ending: rouse.EndDead, Due: due, Attempts: 1, Code: 599, Reason: "599: busy"},
		"dead 2027-01-01T00:00:00.000Z, attempt 1: 404":                                       {Ending: rouse.EndDead, Due: due, Attempts: 1, Code: 404},
		"missed 2027-01-01T00:00:00.000Z to 2027-01-01T00:00:01.000Z: more than were counted": {Ending: rouse.EndMissed, Due: due, LastDue: due + 1000, Reason: "more than were counted"},
	} {
		if got := Line(r); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestDiff(t *testing.T) {
	var long []string
	for i := range 20 {
		long = append(long, fmt.Sprint("line ", i))
	}
	changed := append([]string{}, long...)
	changed[10] = "other"
	if got, want := diffLines(long, changed), `    … 7 alike
      line 7
      line 8
      line 9
    - line 10
    + other
      line 11
      line 12
      line 13
    … 6 alike
`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	huge := make([]string, 3*mostDiff)
	for i := range huge {
		huge[i] = fmt.Sprint(i)
	}
	if got := diffLines(huge, huge[1:]); len(got) > 1000 || !strings.Contains(got, "- 0") || !strings.Contains(got, "more") {
		t.Errorf("of huge lists: %s", got)
	}
}

// fake takes the failures of a test that is to fail.
type fake struct {
	testing.TB
	failed bool
	text   string
}

func (f *fake) Helper() {}

func (f *fake) Errorf(format string, args ...any) {
	f.failed, f.text = true, f.text+fmt.Sprintf(format, args...)
}

type fatal struct{}

func (f *fake) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(fatal{})
}

// run calls do, and ends it where it fails for good.
func (f *fake) run(do func()) {
	defer func() {
		if v := recover(); v != nil && v != (fatal{}) {
			panic(v)
		}
	}()
	do()
}

// Check finds what a history that deletes too early would hide.
func TestCheck(t *testing.T) {
	f := &fake{TB: t}
	s := NewServer(t)
	s.Handle("f", func(context.Context, rouse.Fire) error { return nil })
	s.Create("a", rouse.Spec{Schedule: "0 * * * *", Target: "func:f", Misfire: rouse.MisfireSkip})
	s.Create("once", rouse.Spec{Schedule: "@after 90m", Target: "func:f", Keep: -1})
	s.Advance(3 * time.Hour)
	s.Jump(5 * time.Hour)
	if _, err := s.Node.Skip(t.Context(), "a", 2, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Node.Pause(t.Context(), "a", "", rouse.At(s.Now().Add(6*time.Hour))); err != nil {
		t.Fatal(err)
	}
	s.Advance(12 * time.Hour)
	s.t = f
	if s.Check(); f.failed {
		t.Fatalf("nothing is wrong, but: %s", f.text)
	}
	a, err := s.Node.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	records := s.Records("a")
	if s.checkEndings(&a, records[1:], nil); !strings.Contains(f.text, "a at 2027-01-01T01:00:00.000Z is over, and has no record") {
		t.Errorf("a record is missing, and Check reports: %s", f.text)
	}
	once, err := s.Node.Get(t.Context(), "once")
	if err != nil {
		t.Fatal(err)
	}
	if s.checkEndings(&once, nil, nil); !strings.Contains(f.text, "once ended without a record") {
		t.Errorf("the record of the only occurrence is missing, and Check reports: %s", f.text)
	}
}

// TestAdvanceWithAPausedLimit: what waits for a limit that is paused does not keep the clock from moving, and
// begins once that is resumed.
func TestAdvanceWithAPausedLimit(t *testing.T) {
	s := NewServer(t)
	if _, err := s.Client.Limits().Put(t.Context(), rouse.Limit{Namespace: Namespace, Name: "held", Paused: true}); err != nil {
		t.Fatal(err)
	}
	s.Create("a", rouse.Spec{Schedule: "@after 1h", Target: s.Receiver.URL(), Limit: "held"})
	if fired := s.Advance(2 * time.Hour); fired != 0 {
		t.Errorf("%d fired while the limit was paused", fired)
	}
	if _, err := s.Client.Limits().Resume(t.Context(), Namespace, "held"); err != nil {
		t.Fatal(err)
	}
	if fired := s.Advance(time.Minute); fired != 1 {
		t.Errorf("%d fired after the limit was resumed", fired)
	}
}
