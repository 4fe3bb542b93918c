package recent

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

const begin = rouse.Instant(1_800_000_000_000)

// TestNothingIsLostNorCountedTwice compares a ring with a list of all events, at random times over two days.
func TestNothingIsLostNorCountedTwice(t *testing.T) {
	type event struct {
		at      rouse.Instant
		ok, bad uint64
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var r Ring
	var events []event
	now := begin
	for range 20_000 {
		now = now.Add(time.Duration(rnd.IntN(20_000)) * time.Millisecond)
		if rnd.IntN(2000) == 0 {
			now = now.Add(2 * time.Hour) // a silence that is longer than the fine steps
		}
		e := event{at: now, ok: uint64(rnd.IntN(2)), bad: uint64(rnd.IntN(2))}
		events = append(events, e)
		r.Count(now, rouse.Attempted{Verdict: rouse.Deferred, First: true, Lag: time.Millisecond})
		if e.ok > 0 {
			r.Count(now, rouse.Attempted{Verdict: rouse.Done})
		}
		if e.bad > 0 {
			r.Count(now, rouse.Attempted{Verdict: rouse.Failed})
		}
		if rnd.IntN(500) != 0 {
			continue
		}
		for _, window := range []time.Duration{time.Minute, FineWindow, 2 * time.Hour, MaxWindow} {
			points := r.Points(now, window)
			if len(points) == 0 || len(points) > max(FineSteps, WideSteps) {
				t.Fatalf("%v: %d points", window, len(points))
			}
			var sum, want event
			var fires, lags uint64
			for i := range points {
				if i > 0 && points[i].At <= points[i-1].At {
					t.Fatalf("%v: %v after %v", window, points[i].At, points[i-1].At)
				}
				sum.ok += points[i].Succeeded
				sum.bad += points[i].Failed
				fires += points[i].Fires
				lags += points[i].Lags[0]
			}
			n := uint64(0)
			for _, e := range events {
				if e.at >= points[0].At {
					n++
					want.ok += e.ok
					want.bad += e.bad
				}
			}
			if sum.ok != want.ok || sum.bad != want.bad || fires != n || lags != n {
				t.Fatalf("%v: %+v with %d fires, want %+v with %d", window, sum, fires, want, n)
			}
			if first := events[0].at; points[0].At > max(now.Add(-window).Add(2*StepOf(window)), first) && now.Sub(first) > window && window == FineWindow && len(points) < FineSteps {
				t.Fatalf("%v: begins at %v", window, points[0].At)
			}
		}
	}
}

// TestClocksThatAreSetBack count in the newest step.
func TestClocksThatAreSetBack(t *testing.T) {
	var r Ring
	r.Created(begin, 1)
	r.Created(begin.Add(-time.Hour), 1)
	points := r.Points(begin, time.Minute)
	if got := points[len(points)-1]; got.Creates != 2 || got.Pending != -1 {
		t.Errorf("%+v", got)
	}
}

// TestManyCount has goroutines that count at the same time.
func TestManyCount(t *testing.T) {
	var r Ring
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				r.Count(begin.Add(time.Duration(i)*time.Millisecond), rouse.Attempted{First: true, Lag: 3 * time.Millisecond})
			}
		})
	}
	all.Wait()
	var n uint64
	for _, p := range r.Points(begin.Add(time.Second), time.Minute) {
		n += p.Lags[2]
	}
	if n != 8000 {
		t.Errorf("%d of 8000", n)
	}
}

func TestMinutes(t *testing.T) {
	var m Minutes
	for i := range 10 {
		m.Count(begin.Add(time.Duration(i)*time.Minute), rouse.Attempted{Verdict: rouse.Failed, First: true, Lag: time.Second})
		m.Count(begin.Add(time.Duration(i)*time.Minute), rouse.Attempted{Verdict: rouse.Deferred})
	}
	var s rouse.TargetStatus
	if m.Fill(begin.Add(9*time.Minute), &s); s.Sent != rouse.RecentMinutes || s.Failed != rouse.RecentMinutes || s.Succeeded != 0 || s.Lags.Quantile(0.5) != time.Second {
		t.Errorf("%+v", s)
	}
	s = rouse.TargetStatus{}
	if m.Fill(begin.Add(time.Hour), &s); s.Sent != 0 {
		t.Errorf("an hour later: %+v", s)
	}
}
