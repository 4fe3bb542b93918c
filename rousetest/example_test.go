package rousetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
	"github.com/rousehq/rouse/rousetest/receiver"
)

// Thirty days of a daily timer take milliseconds: the clock goes from fire to fire.
func TestThirtyDaysOfADailyTimer(t *testing.T) {
	s := rousetest.NewServer(t)
	var due, at []time.Time
	s.Handle("report", func(_ context.Context, f rouse.Fire) error {
		due, at = append(due, f.Due.Time()), append(at, s.Now())
		return nil
	})
	s.Create("daily", rouse.Spec{Schedule: "30 8 * * *", Timezone: "Europe/Stockholm", Target: "func:report"})
	if fired := s.Advance(30 * 24 * time.Hour); fired != 30 {
		t.Errorf("%d fired", fired)
	}
	var want []time.Time
	for day := range 30 {
		want = append(want, rousetest.Time("2027-01-01T08:30:00+01:00").AddDate(0, 0, day))
	}
	s.WantFired("daily", want...)
	for i := range want {
		if !due[i].Equal(want[i]) || !at[i].Equal(want[i]) {
			t.Errorf("occurrence %d was due %v and fired at %v, want %v", i, due[i], at[i], want[i])
		}
	}
	s.Check()
}

// A receiver that keeps failing gets the attempts of the timer's retry policy, each at its own time; then
// there is a dead letter, which can be redriven once the receiver works.
func TestAReceiverThatFails(t *testing.T) {
	s := rousetest.NewServer(t)
	s.Receiver.Script(receiver.Status(503), receiver.RetryAfter(429, "3600"), receiver.Status(500))
	s.Create("invoice", rouse.Spec{Schedule: "2027-01-01T09:00:00Z", Target: s.Receiver.URL(), Payload: []byte(`{"invoice": 17}`),
		ContentType: "application/json", Retry: rouse.Retry{Attempts: 3, Interval: time.Minute, Jitter: -1}, Keep: -1})
	s.AdvanceTo(rousetest.Time("2027-01-01T12:00:00Z"))
	s.WantRecords("invoice", "dead 2027-01-01T09:00:00.000Z, attempt 3: 500 Internal Server Error")
	record := s.Records("invoice")[0]
	if sent := record.Sent; sent != rouse.At(rousetest.Time("2027-01-01T10:01:00Z")) {
		t.Errorf("the last attempt was at %v: a minute after the first one, and an hour after the second, as it was asked", sent)
	}

	dead := s.Dead("invoice")
	if len(dead) != 1 {
		t.Fatalf("%d dead letters", len(dead))
	}
	if _, err := s.Node.Redrive(t.Context(), "invoice", dead[0].Key.Fire, false); err != nil {
		t.Fatal(err)
	}
	s.Advance(0) // what is due now
	s.WantFired("invoice", rousetest.Time("2027-01-01T09:00:00Z"))
	for attempt := range 4 {
		a, err := s.Receiver.Next(t.Context())
		if err != nil || a.Signature != nil || string(a.Body) != `{"invoice": 17}` {
			t.Fatalf("attempt %d: %v, signature %v, body %s", attempt+1, err, a.Signature, a.Body)
		}
	}
}

// A time that does not exist, and one that exists twice, on the days when clocks change.
func TestClockChanges(t *testing.T) {
	s := rousetest.NewServer(t, rousetest.At(rousetest.Time("2027-03-27T00:00:00Z")))
	s.Handle("f", func(context.Context, rouse.Fire) error { return nil })
	s.Create("nightly", rouse.Spec{Schedule: "30 2 * * *", Timezone: "Europe/Stockholm", Target: "func:f"})
	s.AdvanceTo(rousetest.Time("2027-03-30T00:00:00Z"))
	s.WantFired("nightly", rousetest.Times(
		"2027-03-27T02:30:00+01:00",
		"2027-03-28T03:00:00+02:00", // 02:30 does not exist: the clocks go from 02:00 to 03:00
		"2027-03-29T02:30:00+02:00")...)
	s.AdvanceTo(rousetest.Time("2027-10-30T12:00:00Z"))
	before := len(s.Fires("nightly"))
	s.AdvanceTo(rousetest.Time("2027-11-01T12:00:00Z"))
	if n := len(s.Fires("nightly")) - before; n != 2 {
		t.Errorf("it fired %d times in two days: 02:30 comes twice on one of them, and counts once", n)
	}
}

// A server that was down handles late what came due, according to the timer's policy.
func TestAnOutage(t *testing.T) {
	s := rousetest.NewServer(t)
	s.Handle("f", func(context.Context, rouse.Fire) error { return nil })
	for name, misfire := range map[string]rouse.Misfire{"latest": rouse.MisfireLatest, "all": rouse.MisfireAll, "skip": rouse.MisfireSkip} {
		s.Create(name, rouse.Spec{Schedule: "0 * * * *", Target: "func:f", Misfire: misfire})
	}
	s.Jump(3*time.Hour + 30*time.Minute)
	s.WantFired("latest", rousetest.Time("2027-01-01T03:00:00Z"))
	s.WantFired("all", rousetest.Times("2027-01-01T01:00:00Z", "2027-01-01T02:00:00Z", "2027-01-01T03:00:00Z")...)
	s.WantFired("skip")
	s.Advance(time.Hour)
	s.WantFired("skip", rousetest.Time("2027-01-01T04:00:00Z"))
}

// A program decides about its errors; the timer's policy decides about retries.
func TestAFunctionThatFailsTwice(t *testing.T) {
	s := rousetest.NewServer(t)
	calls := 0
	s.Handle("flaky", func(context.Context, rouse.Fire) error {
		if calls++; calls <= 2 {
			return errors.New("not now")
		}
		return nil
	})
	s.Create("once", rouse.Spec{Schedule: "@after 1h", Target: "func:flaky", Retry: rouse.Retry{Interval: time.Hour}})
	s.Advance(24 * time.Hour)
	s.WantRecords("once", "fired 2027-01-01T01:00:00.000Z, attempt 3")
}
